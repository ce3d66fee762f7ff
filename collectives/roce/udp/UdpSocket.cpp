// SPDX-License-Identifier: Apache-2.0
#include "collectives/roce/udp/UdpSocket.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"

namespace hpu::roce {
namespace {

using base::strCat;

// Older headers than the kernel's have not all of them (linux/udp.h, linux/in6.h).
constexpr int kUdpSegment = 103, kUdpGro = 104, kNoCheck6Tx = 101, kNoCheck6Rx = 102;
constexpr int kEcnCapable = 2, kEcnMask = 3, kEcnMarked = 3;  // RFC 3168: ECT(0), CE.
constexpr size_t kBatch = 16;
// Of trains fewer are taken in at once: the peer's window waits for the answers to them.
constexpr size_t kTrainBatch = 4;
constexpr size_t kReceiveBytes = 65'536;

bool setOption(int fd, int level, int name, int value) {
  return ::setsockopt(fd, level, name, &value, sizeof value) == 0;
}

bool isWildcard(const Address& address) {
  for (int i = 0; i < (address.v6 ? 16 : 4); ++i)
    if (address.ip[i] != 0) return false;
  return true;
}

}  // namespace

struct UdpSocket::Buffers {
  union Control {
    cmsghdr alignment;
    char bytes[CMSG_SPACE(sizeof(int)) * 2 + 32];
  };
  std::vector<uint8_t> room = std::vector<uint8_t>(kBatch * kReceiveBytes);
  std::array<mmsghdr, kBatch> messages{};
  std::array<iovec, kBatch> vectors{};
  std::array<sockaddr_storage, kBatch> addresses{};
  std::array<Control, kBatch> controls{};
};

UdpSocket::UdpSocket(int descriptor) : descriptor_(descriptor), buffers_(std::make_unique<Buffers>()) {}
UdpSocket::UdpSocket(UdpSocket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      local_(other.local_),
      receiveBytes_(other.receiveBytes_),
      trains_(other.trains_),
      lastError_(std::move(other.lastError_)),
      buffers_(std::move(other.buffers_)) {}
UdpSocket::~UdpSocket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

StatusOr<UdpSocket> UdpSocket::open(const UdpOptions& options) {
  const Address& local = options.local;
  if (isWildcard(local))
    return invalidArgument(
        strCat("an RDMA endpoint on ", local.text(), ": it needs one address, since peers check it"));
  const int fd = ::socket(local.v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return resourceExhausted(strCat("no UDP socket: ", base::errnoText(errno)));
  UdpSocket socket(fd);
  // Buffers beyond the system's limit are for the privileged; what is granted is asked for below.
  if (!setOption(fd, SOL_SOCKET, SO_RCVBUFFORCE, options.bufferBytes))
    setOption(fd, SOL_SOCKET, SO_RCVBUF, options.bufferBytes);
  if (!setOption(fd, SOL_SOCKET, SO_SNDBUFFORCE, options.bufferBytes))
    setOption(fd, SOL_SOCKET, SO_SNDBUF, options.bufferBytes);
  if (local.v6) {
    setOption(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    setOption(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
    setOption(fd, IPPROTO_IPV6, IPV6_TCLASS, kEcnCapable);
    setOption(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
    // Adapters and rdma_rxe leave the checksum out (0), which IPv6 takes only where it was said.
    setOption(fd, IPPROTO_UDP, kNoCheck6Rx, 1);
    socket.trains_ =
        options.offload && setOption(fd, IPPROTO_UDP, kUdpGro, 1) && setOption(fd, IPPROTO_UDP, kUdpSegment, 0);
    // Linux refuses trains without checksums, which it leaves to the interface.
    if (!socket.trains_) setOption(fd, IPPROTO_UDP, kNoCheck6Tx, 1);
  } else {
    // Of a socket that is not connected: "do not fragment", and identification 0.
    setOption(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
    setOption(fd, IPPROTO_IP, IP_TOS, kEcnCapable);
    setOption(fd, IPPROTO_IP, IP_RECVTOS, 1);
    setOption(fd, SOL_SOCKET, SO_NO_CHECK, 1);
  }
  sockaddr_storage address{};
  socklen_t bytes = toSockaddr(local, address);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), bytes) != 0) {
    const int error = errno;
    return unavailable(strCat("cannot receive RDMA at ", local.text(), ": ", base::errnoText(error),
                              error == EADDRINUSE
                                  ? "; another process has the port: give this device an address or a port of its own"
                              : error == EADDRNOTAVAIL ? "; no interface of this machine has the address"
                                                       : ""));
  }
  bytes = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0)
    return unavailable(strCat("cannot tell the port of ", local.text(), ": ", base::errnoText(errno)));
  HPU_ASSIGN(socket.local_, collectives::fromSockaddr(address));
  int granted = 0;
  socklen_t size = sizeof granted;
  ::getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &granted, &size);
  // Linux counts what its buffers take, not what is in them: it doubles what was asked for.
  socket.receiveBytes_ = granted / 2;
  return socket;
}

size_t UdpSocket::send(std::span<const Train> trains) {
  size_t taken = 0;
  while (taken < trains.size()) {
    const size_t count = std::min(kBatch, trains.size() - taken);
    std::array<mmsghdr, kBatch> messages{};
    std::array<iovec, kBatch> vectors;
    std::array<sockaddr_storage, kBatch> addresses;
    std::array<Buffers::Control, kBatch> controls;
    for (size_t i = 0; i < count; ++i) {
      const Train& train = trains[taken + i];
      msghdr& header = messages[i].msg_hdr;
      vectors[i] = {const_cast<uint8_t*>(train.bytes.data()), train.bytes.size()};
      addresses[i] = {};
      header.msg_name = &addresses[i];
      header.msg_namelen = toSockaddr(*train.to, addresses[i]);
      header.msg_iov = &vectors[i];
      header.msg_iovlen = 1;
      if (train.bytes.size() > train.segmentBytes) {
        header.msg_control = controls[i].bytes;
        header.msg_controllen = CMSG_SPACE(sizeof(uint16_t));
        cmsghdr* control = CMSG_FIRSTHDR(&header);
        control->cmsg_level = IPPROTO_UDP;
        control->cmsg_type = kUdpSegment;
        control->cmsg_len = CMSG_LEN(sizeof(uint16_t));
        const auto segment = static_cast<uint16_t>(train.segmentBytes);
        memcpy(CMSG_DATA(control), &segment, sizeof segment);
      }
    }
    const int sent = ::sendmmsg(descriptor_, messages.data(), static_cast<unsigned>(count), 0);
    if (sent > 0) {
      taken += static_cast<size_t>(sent);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == ENOBUFS) break;
    const int error = errno;
    // What an earlier datagram brought back (an unreachable port) is of no other one.
    if (error == ECONNREFUSED) continue;
    const Train& refused = trains[taken];
    if (refused.bytes.size() > refused.segmentBytes && (error == EIO || error == EINVAL)) {
      // This interface takes no trains (it computes no checksums): its datagrams one by one, from now on.
      trains_ = false;
      sendOneByOne(refused);
      ++taken;
      continue;
    }
    lastError_ = unavailable(
        strCat("cannot send to ", trains[taken].to->text(), ": ", base::errnoText(error),
               error == EMSGSIZE ? strCat("; a packet of ", trains[taken].segmentBytes, " bytes exceeds the path's MTU")
                                 : ""));
    ++taken;
  }
  return taken;
}

/// What is not taken is lost, as on the wire.
void UdpSocket::sendOneByOne(const Train& train) {
  sockaddr_storage address{};
  const socklen_t size = toSockaddr(*train.to, address);
  for (size_t offset = 0; offset < train.bytes.size(); offset += train.segmentBytes) {
    const auto datagram =
        train.bytes.subspan(offset, std::min<size_t>(train.segmentBytes, train.bytes.size() - offset));
    (void)::sendto(descriptor_, datagram.data(), datagram.size(), 0, reinterpret_cast<const sockaddr*>(&address), size);
  }
}

bool UdpSocket::receive(base::FunctionRef<void(const Arrival&)> take) {
  Buffers& buffers = *buffers_;
  const size_t batch = trains_ ? kTrainBatch : kBatch;
  for (size_t i = 0; i < batch; ++i) {
    buffers.vectors[i] = {buffers.room.data() + i * kReceiveBytes, kReceiveBytes};
    msghdr& header = buffers.messages[i].msg_hdr;
    header = {};
    header.msg_name = &buffers.addresses[i];
    header.msg_namelen = sizeof buffers.addresses[i];
    header.msg_iov = &buffers.vectors[i];
    header.msg_iovlen = 1;
    header.msg_control = buffers.controls[i].bytes;
    header.msg_controllen = sizeof buffers.controls[i].bytes;
  }
  int count = 0;
  do {
    count = ::recvmmsg(descriptor_, buffers.messages.data(), static_cast<unsigned>(batch), MSG_DONTWAIT, nullptr);
  } while (count < 0 && (errno == EINTR || errno == ECONNREFUSED));
  mayHaveMore_ = count == static_cast<int>(batch);
  if (count <= 0) return false;
  for (int i = 0; i < count; ++i) {
    msghdr& header = buffers.messages[static_cast<size_t>(i)].msg_hdr;
    const size_t bytes = buffers.messages[static_cast<size_t>(i)].msg_len;
    if ((header.msg_flags & MSG_TRUNC) != 0 || bytes == 0) continue;
    auto from = collectives::fromSockaddr(buffers.addresses[static_cast<size_t>(i)]);
    if (!from.ok()) continue;
    size_t segment = bytes;
    bool congested = false;
    for (cmsghdr* control = CMSG_FIRSTHDR(&header); control; control = CMSG_NXTHDR(&header, control)) {
      if (control->cmsg_level == IPPROTO_UDP && control->cmsg_type == kUdpGro) {
        int value = 0;
        memcpy(&value, CMSG_DATA(control), std::min(sizeof value, control->cmsg_len - CMSG_LEN(0)));
        if (value > 0) segment = static_cast<size_t>(value);
      } else if (control->cmsg_level == IPPROTO_IPV6 && control->cmsg_type == IPV6_TCLASS) {
        int value = 0;
        memcpy(&value, CMSG_DATA(control), sizeof value);
        congested = (value & kEcnMask) == kEcnMarked;
      } else if (control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_TOS) {
        congested = (*CMSG_DATA(control) & kEcnMask) == kEcnMarked;
      }
    }
    auto* data = static_cast<uint8_t*>(buffers.vectors[static_cast<size_t>(i)].iov_base);
    for (size_t offset = 0; offset < bytes; offset += segment)
      take({*from, {data + offset, std::min(segment, bytes - offset)}, congested});
  }
  return true;
}

int interfaceMtu(const Address& address) {
  constexpr int kUsual = 1500;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return kUsual;
  int mtu = kUsual;
  for (ifaddrs* at = list; at; at = at->ifa_next) {
    if (!at->ifa_addr) continue;
    sockaddr_storage storage{};
    const bool v6 = at->ifa_addr->sa_family == AF_INET6;
    if (!v6 && at->ifa_addr->sa_family != AF_INET) continue;
    memcpy(&storage, at->ifa_addr, v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    auto own = collectives::fromSockaddr(storage);
    // All of 127.0.0.0/8 is the loopback's.
    const bool loopback = !address.v6 && address.ip[0] == 127 && !v6 && own.ok() && own->ip[0] == 127;
    if (!own.ok() || own->v6 != address.v6) continue;
    if (!loopback && memcmp(own->ip, address.ip, address.v6 ? 16 : 4) != 0) continue;
    ifreq request{};
    strncpy(request.ifr_name, at->ifa_name, IFNAMSIZ - 1);
    const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && ::ioctl(fd, SIOCGIFMTU, &request) == 0) mtu = request.ifr_mtu;
    if (fd >= 0) ::close(fd);
    break;
  }
  ::freeifaddrs(list);
  return mtu;
}

}  // namespace hpu::roce
