// SPDX-License-Identifier: Apache-2.0
// The hook that a program sets in libhpu_runtime hears libhpu_collectives, at the level that it has set.
#include <atomic>
#include <cstdio>
#include <string>

#include "hpu/collectives.h"
#include "hpu/device.h"
#include "hpu/log.h"

int main() {
  std::atomic<int> heard{0};
  hpu::setLogHook([&](hpu::LogLevel, const std::string& message) {
    if (message.find("a rank declines") != std::string::npos) ++heard;
  });
  hpu::DeviceOptions options;
  options.driver = "null";
  auto device = hpu::Device::open(options);
  hpu::collectives::CommunicatorOptions wrong;
  wrong.tunerTable = "/nowhere";
  for (hpu::LogLevel level : {hpu::LogLevel::kWarning, hpu::LogLevel::kDebug}) {
    hpu::setLogLevel(level);
    auto id = hpu::collectives::createUniqueId();
    if (!id.ok() || !device.ok()) return 2;
    if (hpu::collectives::Communicator::create(*id, 0, 1, *device, wrong).ok()) return 3;
  }
  if (heard != 1) std::printf("the hook heard %d messages of the collectives in place of 1\n", heard.load());
  hpu::setLogHook({});
  return heard == 1 ? 0 : 1;
}
