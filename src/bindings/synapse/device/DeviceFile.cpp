// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/device/DeviceFile.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hpu::synapse {

DeviceFile::DeviceFile() : descriptor_(::memfd_create("hpu-device", MFD_CLOEXEC)) {
  struct stat file;
  if (descriptor_ < 0 || ::fstat(descriptor_, &file) != 0) return;
  device_ = file.st_dev;
  inode_ = file.st_ino;
}

DeviceFile::~DeviceFile() {
  if (isOpen()) ::close(descriptor_);
}

bool DeviceFile::isOpen() const {
  struct stat file;
  return descriptor_ >= 0 && ::fstat(descriptor_, &file) == 0 && file.st_dev == device_ && file.st_ino == inode_;
}

}  // namespace hpu::synapse
