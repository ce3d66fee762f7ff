// SPDX-License-Identifier: Apache-2.0
#include "collectives/roce/udp/Capture.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/Format.h"

namespace hpu::roce {
namespace {

constexpr uint32_t kNanosecondMagic = 0xA1B23C4D;  // pcap savefile format, nanosecond time stamps.
constexpr uint32_t kRawIp = 101;                   // LINKTYPE_RAW.
constexpr uint32_t kMostBytes = 65'535;
constexpr size_t kBuffer = 64 << 10;
constexpr size_t kV4 = 20, kV6 = 40, kUdp = 8;

void put16(uint8_t* at, size_t value) {
  at[0] = static_cast<uint8_t>(value >> 8);
  at[1] = static_cast<uint8_t>(value);
}

void sumV4(uint8_t* header) {
  uint32_t sum = 0;
  for (size_t i = 0; i < kV4; i += 2) sum += static_cast<uint32_t>(header[i] << 8 | header[i + 1]);
  while (sum >> 16) sum = (sum & 0xFFFF) + (sum >> 16);
  put16(header + 10, ~sum & 0xFFFF);
}

}  // namespace

StatusOr<std::unique_ptr<Capture>> Capture::create(const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0)
    return unavailable(base::strCat("cannot write the packet capture '", path, "': ", base::errnoText(errno)));
  std::unique_ptr<Capture> capture(new Capture(file));
  if (::flock(file, LOCK_EX | LOCK_NB) != 0)
    return alreadyExists(
        base::strCat("the packet capture '", path,
                     "' is being written already (a file of its own for each process: %p in the name)"));
  const std::array<uint32_t, 6> header = {kNanosecondMagic, 2 | 4 << 16, 0, 0, kMostBytes, kRawIp};
  if ((::ftruncate(file, 0) != 0 && errno != EINVAL) || ::write(file, header.data(), sizeof header) != sizeof header)
    return unavailable(base::strCat("cannot write the packet capture '", path, "': ", base::errnoText(errno)));
  return capture;
}

Capture::~Capture() {
  flush();
  ::close(file_);
}

void Capture::flush() {
  for (size_t at = 0; at < buffer_.size();) {
    const ssize_t taken = ::write(file_, buffer_.data() + at, buffer_.size() - at);
    if (taken < 0 && errno == EINTR) continue;
    if (taken <= 0) {
      lost_ += buffered_;
      break;
    }
    at += static_cast<size_t>(taken);
  }
  buffer_.clear();
  buffered_ = 0;
}

void Capture::put(const void* bytes, size_t count) {
  const auto* from = static_cast<const uint8_t*>(bytes);
  buffer_.insert(buffer_.end(), from, from + count);
}

void Capture::record(int64_t timeNs, const collectives::Address& from, const collectives::Address& to,
                     std::span<const uint8_t> datagram) {
  std::array<uint8_t, kV6 + kUdp> head{};
  const size_t ip = from.v6 ? kV6 : kV4, udpBytes = kUdp + datagram.size();
  if (from.v6) {
    head[0] = 0x60;
    put16(&head[4], udpBytes);
    head[6] = 17;
    head[7] = 64;
    std::copy_n(from.ip, 16, &head[8]);
    std::copy_n(to.ip, 16, &head[24]);
  } else {
    head[0] = 0x45;
    put16(&head[2], kV4 + udpBytes);
    head[6] = 0x40;
    head[8] = 64;
    head[9] = 17;
    std::copy_n(from.ip, 4, &head[12]);
    std::copy_n(to.ip, 4, &head[16]);
    sumV4(head.data());
  }
  put16(&head[ip], from.port);
  put16(&head[ip + 2], to.port);
  put16(&head[ip + 4], udpBytes);
  const auto bytes = static_cast<uint32_t>(ip + udpBytes);
  constexpr int64_t kSecond = 1'000'000'000;
  const std::array<uint32_t, 4> record = {static_cast<uint32_t>(timeNs / kSecond),
                                          static_cast<uint32_t>(timeNs % kSecond), bytes, bytes};
  put(record.data(), sizeof record);
  put(head.data(), ip + kUdp);
  put(datagram.data(), datagram.size());
  ++buffered_;
  if (buffer_.size() >= kBuffer) flush();
}

}  // namespace hpu::roce
