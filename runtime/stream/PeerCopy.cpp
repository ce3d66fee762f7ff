// SPDX-License-Identifier: Apache-2.0
#include "runtime/stream/PeerCopy.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "arch/LinkTiming.h"
#include "arch/PortNumber.h"
#include "base/FloatEnvironment.h"
#include "base/Format.h"
#include "base/ProcessOwned.h"
#include "base/StatusMacros.h"
#include "hpu/ports.h"
#include "runtime/device/DeviceState.h"

namespace hpu {
namespace {

/// Of a device's memory: its driver, and where the range begins in the file behind it.
struct Place {
  driver::DriverDevice& driver;
  uint64_t address;
  int file() const { return driver.memoryFile(); }
  off_t offset() const { return static_cast<off_t>(address - driver.memory().base); }
};

Status writeAll(const Place& dst, int64_t at, const std::byte* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = ::pwrite(dst.file(), data, bytes, dst.offset() + at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0)
      return resourceExhausted("the host has no memory for the copy: " + base::errnoText(written < 0 ? errno : ENOSPC));
    data += written;
    at += written;
    bytes -= static_cast<size_t>(written);
  }
  return okStatus();
}

/// Bytes that were written; the kernel copies, through a piece of memory that stays in the core's cache.
Status copyWritten(const Place& dst, const Place& src, int64_t begin, int64_t end) {
  static constexpr int64_t kPiece = 128 << 10;
  std::vector<std::byte> piece(static_cast<size_t>(std::min(kPiece, end - begin)));
  while (begin < end) {
    const auto wanted = static_cast<size_t>(std::min(kPiece, end - begin));
    const ssize_t read = ::pread(src.file(), piece.data(), wanted, src.offset() + begin);
    if (read < 0 && errno == EINTR) continue;
    if (read <= 0) return internalError("cannot read the source's memory: " + base::errnoText(read < 0 ? errno : EIO));
    HPU_RETURN_IF_ERROR(writeAll(dst, begin, piece.data(), static_cast<size_t>(read)));
    begin += read;
  }
  return okStatus();
}

/// What was never written of the source is zero, and takes no memory at the destination either.
Status copyBytes(const Place& dst, const Place& src, int64_t bytes) {
  if (src.file() < 0 || dst.file() < 0) return okStatus();  // Devices without memory accept everything.
  HPU_RETURN_IF_ERROR(dst.driver.checkWrite(dst.address, bytes));
  for (int64_t at = 0; at < bytes;) {
    // The file offset that lseek moves is used by nobody.
    const off_t data = ::lseek(src.file(), src.offset() + at, SEEK_DATA);
    int64_t begin = at;
    if (data >= 0)
      begin = std::min<int64_t>(data - src.offset(), bytes);
    else if (errno == ENXIO)
      begin = bytes;
    if (begin > at) HPU_RETURN_IF_ERROR(dst.driver.clear(dst.address + static_cast<uint64_t>(at), begin - at));
    if (begin == bytes) break;
    const off_t hole = ::lseek(src.file(), src.offset() + begin, SEEK_HOLE);
    const int64_t end = hole > src.offset() + begin ? std::min<int64_t>(hole - src.offset(), bytes) : bytes;
    HPU_RETURN_IF_ERROR(copyWritten(dst, src, begin, end));
    at = end;
  }
  return okStatus();
}

class PeerCopy final : public ExternalWork {
 public:
  PeerCopy(const PeerRange& dst, const PeerRange& src, int64_t bytes)
      : dst_(*dst.memory->device()->driver()),
        src_(*src.memory->device()->driver()),
        dstAddress_(dst.address),
        srcAddress_(src.address),
        bytes_(bytes),
        dstDevice_(dst.memory->device()->info().index),
        srcDevice_(src.memory->device()->info().index),
        counts_(dst.memory->device()->driver()->memoryFile() >= 0) {
    base::FloatScope floats;
    // Between devices of two targets the slower one counts.
    const arch::LinkTiming here = arch::linkTiming(dst.memory->device()->info().target);
    const arch::LinkTiming there = arch::linkTiming(src.memory->device()->info().target);
    const arch::LinkTiming& slower = here.bytesPerNs <= there.bytesPerNs ? here : there;
    busyPs_ = slower.busyPs(bytes);
    startPs_ = slower.startPs;
    messagePs_ = slower.messagePs;
    traffic_ = {1, slower.packets(bytes), bytes, slower.wireBytes(bytes), busyPs_};
  }

  std::string name() const override { return base::strCat("copy from device ", srcDevice_); }
  ExternalPorts ports() const override {
    ExternalPorts ports;
    ports.uses = {{arch::portNumber(srcDevice_, /*send=*/false), busyPs_}};
    ports.startPs = startPs_;
    ports.tailPs = messagePs_;
    return ports;
  }
  void portsReserved(std::vector<int64_t> readyPs) override { readyPs_ = readyPs.front(); }

  void start(std::shared_ptr<ExternalTurn> turn) override {
    const int64_t startPs = std::max(turn->arrivalPs() + startPs_, readyPs_), sentPs = startPs + busyPs_;
    Status status = copy();
    if (status.ok()) count();
    turn->complete(std::move(status), sentPs + messagePs_, {{name(), startPs, sentPs}});
  }
  void skipped(const Status&) override {}
  void cancel(const Status&) override {}  // Its turn is over when start() returns.

 private:
  Status copy() const try {
    return copyBytes({dst_, dstAddress_}, {src_, srcAddress_}, bytes_);
  } catch (const std::bad_alloc&) {
    return resourceExhausted("out of host memory");
  }
  void count() const {
    if (!counts_) return;
    node::LinkTraffic sent[node::kLinks], received[node::kLinks];
    sent[dstDevice_].sent = received[srcDevice_].received = traffic_;
    ports::add(srcDevice_, sent);
    ports::add(dstDevice_, received);
  }

  driver::DriverDevice &dst_, &src_;  // Until its turn is over: the owners of the work outlive that.
  const uint64_t dstAddress_, srcAddress_;
  const int64_t bytes_;
  const int dstDevice_, srcDevice_;
  const bool counts_;
  int64_t busyPs_ = 0, startPs_ = 0, messagePs_ = 0;
  node::PortTraffic traffic_;
  int64_t readyPs_ = 0;  // From when on the port is its own.
};

class SourceHold {
 public:
  explicit SourceHold(std::shared_ptr<Allocation> memory) : memory_(std::move(memory)) {
    memory_->device()->memory().workBegins();
  }
  ~SourceHold() {
    std::shared_ptr<DeviceState> device = memory_->device();
    memory_.reset();
    device->memory().workEnded();
  }
  SourceHold(const SourceHold&) = delete;
  SourceHold& operator=(const SourceHold&) = delete;

 private:
  std::shared_ptr<Allocation> memory_;
};

}  // namespace

std::shared_ptr<ExternalWork> peerCopy(const PeerRange& dst, const PeerRange& src, int64_t bytes) {
  return std::make_shared<PeerCopy>(dst, src, bytes);
}

std::shared_ptr<const void> holdSource(const std::shared_ptr<Allocation>& memory) {
  return base::makeProcessOwned<SourceHold>(memory);
}

}  // namespace hpu
