// SPDX-License-Identifier: Apache-2.0
#include "runtime/node/Protocol.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "base/File.h"
#include "base/Format.h"
#include "base/PerThread.h"
#include "base/StatusMacros.h"

// Of kernels from 5.3 on; the headers may be older.
#ifndef UDIAG_SHOW_UID
#define UDIAG_SHOW_UID 0x00000040
#define UNIX_DIAG_UID 7
#endif

namespace hpu::node {
namespace {

constexpr uint32_t kMagic = 0x4e555048;  // "HPUN"
// Raise it whenever a message changes: both ends may be of different installations.
constexpr uint32_t kVersion = 3;
constexpr size_t kMaxText = 4096;

class Writer {
 public:
  Writer() {
    put(kMagic);
    put(kVersion);
  }
  template <typename T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(std::string_view value) {
    value = value.substr(0, kMaxText);
    put(static_cast<uint32_t>(value.size()));
    bytes_.append(value);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  template <typename T>
  T get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    if (bytes_.size() < sizeof value) {
      good_ = false;
      return value;
    }
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_.remove_prefix(sizeof value);
    return value;
  }
  std::string text() {
    auto size = get<uint32_t>();
    if (!good_ || size > kMaxText || size > bytes_.size()) {
      good_ = false;
      return {};
    }
    std::string value(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return value;
  }
  bool good() const { return good_; }

 private:
  std::string_view bytes_;
  bool good_ = true;
};

/// Reads what every reply begins with; the owner's failure when it is one.
Status begin(Reader& reader) {
  auto magic = reader.get<uint32_t>(), version = reader.get<uint32_t>();
  if (!reader.good() || magic != kMagic) return dataLoss("the device's owner sent something that is no reply");
  if (version != kVersion)
    return dataLoss(base::strCat("the device's owner speaks version ", version,
                                 " of the node's protocol and this process version ", kVersion,
                                 "; use one version of OpenHPU on a node"));
  auto code = reader.get<int32_t>();
  std::string message = reader.text();
  if (!reader.good()) return dataLoss("the device's owner sent a truncated reply");
  if (code < 0 || code > static_cast<int32_t>(StatusCode::kDataLoss)) code = 2;
  return Status(static_cast<StatusCode>(code), std::move(message));
}

Writer success() {
  Writer writer;
  writer.put(int32_t{0});
  writer.text({});
  return writer;
}

Status truncated() {
  return dataLoss("the device's owner sent a truncated reply");
}

void putProcess(Writer& writer, const ProcessStatus& process) {
  writer.put(process.pid);
  writer.text(process.name);
  writer.put(process.usedBytes);
  writer.put(process.streams);
}

ProcessStatus getProcess(Reader& reader) {
  ProcessStatus process;
  process.pid = reader.get<int64_t>();
  process.name = reader.text();
  process.usedBytes = reader.get<int64_t>();
  process.streams = reader.get<int32_t>();
  return process;
}

void putTraffic(Writer& writer, const PortTraffic& traffic) {
  writer.put(traffic.messages);
  writer.put(traffic.packets);
  writer.put(traffic.payloadBytes);
  writer.put(traffic.bytes);
  writer.put(traffic.busyPs);
}

PortTraffic getTraffic(Reader& reader) {
  PortTraffic traffic;
  traffic.messages = reader.get<int64_t>();
  traffic.packets = reader.get<int64_t>();
  traffic.payloadBytes = reader.get<int64_t>();
  traffic.bytes = reader.get<int64_t>();
  traffic.busyPs = reader.get<int64_t>();
  return traffic;
}

// Enough for every rank of a large machine, and a bound for what a broken peer may claim.
constexpr uint32_t kMaxPeers = 256;

}  // namespace

void Fd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

std::string socketName(const std::string& identity, int index, int name) {
  return base::strCat("openhpu/node/", ::geteuid(), "/", identity, "/", index,
                      name == 0 ? std::string() : base::strCat("/", name));
}

bool isOurs(uid_t uid) {
  return uid == ::geteuid() || uid == 0;
}

StatusOr<std::optional<uid_t>> holderOf(const std::string& name) {
  Fd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!socket.valid()) return unavailable("the kernel does not tell of sockets: " + base::errnoText(errno));
  struct {
    nlmsghdr header;
    unix_diag_req request;
  } ask = {};
  ask.header.nlmsg_len = sizeof ask;
  ask.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  ask.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  ask.request.sdiag_family = AF_UNIX;
  ask.request.udiag_states = UINT32_MAX;
  ask.request.udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_UID;
  if (::send(socket.get(), &ask, sizeof ask, 0) != static_cast<ssize_t>(sizeof ask))
    return unavailable("the kernel does not tell of sockets: " + base::errnoText(errno));
  // The answer comes from the kernel at once; a second is for a kernel that has none.
  timeval second{1, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
  std::string wanted(1, '\0');
  wanted += name;
  std::vector<char> buffer(64 << 10);
  while (true) {
    ssize_t got = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return unavailable("the kernel does not tell of sockets: " + base::errnoText(errno));
    auto left = static_cast<uint32_t>(got);
    for (auto* message = reinterpret_cast<nlmsghdr*>(buffer.data()); NLMSG_OK(message, left);
         message = NLMSG_NEXT(message, left)) {
      if (message->nlmsg_type == NLMSG_DONE) return std::optional<uid_t>();
      if (message->nlmsg_type == NLMSG_ERROR) return unavailable("the kernel does not tell of sockets");
      auto* found = static_cast<unix_diag_msg*>(NLMSG_DATA(message));
      auto* attribute = reinterpret_cast<rtattr*>(found + 1);
      auto bytes = static_cast<uint32_t>(message->nlmsg_len - NLMSG_LENGTH(sizeof *found));
      std::string_view bound;
      std::optional<uid_t> uid;
      for (; RTA_OK(attribute, bytes); attribute = RTA_NEXT(attribute, bytes)) {
        if (attribute->rta_type == UNIX_DIAG_NAME)
          bound = {static_cast<const char*>(RTA_DATA(attribute)), static_cast<size_t>(RTA_PAYLOAD(attribute))};
        if (attribute->rta_type == UNIX_DIAG_UID && RTA_PAYLOAD(attribute) >= sizeof(uint32_t)) {
          uint32_t value = 0;
          std::memcpy(&value, RTA_DATA(attribute), sizeof value);
          uid = value;
        }
      }
      // Those who were accepted have the name, too; they are of the same process.
      if (bound != wanted) continue;
      if (!uid) return unavailable("this kernel does not tell whose a socket is");
      return uid;
    }
  }
}

Status checkSealed(int fd, uint64_t bytes, const std::string& what) {
  struct stat info{};
  // Past the end of a file lies a signal, not an error: never map more than there is, nor what can become less.
  if (fd < 0 || ::fstat(fd, &info) != 0 || static_cast<uint64_t>(info.st_size) < bytes)
    return dataLoss(base::strCat(what, " sent no memory to map, or less than it said"));
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return dataLoss(base::strCat(what, " sent memory that could be cut off under its users: it is not sealed"));
  return okStatus();
}

uint32_t socketAddress(const std::string& name, sockaddr_un& address) {
  std::memset(&address, 0, sizeof address);
  address.sun_family = AF_UNIX;
  // A leading zero byte makes it a name of the network namespace instead of a file.
  size_t bytes = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), bytes);
  return static_cast<uint32_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
}

StatusOr<Peer> peerOf(int socket) {
  ucred credentials{};
  socklen_t bytes = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0)
    return unavailable("cannot ask who is at a socket's other end: " + base::errnoText(errno));
  return Peer{std::max<pid_t>(credentials.pid, 0), credentials.uid};
}

std::string programName(int64_t pid) {
  if (pid <= 0) return {};
  auto text = base::readTextFile(base::strCat("/proc/", pid, "/comm"), 256);
  if (!text.ok()) return {};
  return text->substr(0, text->find('\n'));
}

Request makeRequest(Operation operation) {
  Request request;
  request.magic = kMagic;
  request.version = kVersion;
  request.operation = operation;
  return request;
}

std::string encodeFailure(const Status& status) {
  Writer writer;
  writer.put(static_cast<int32_t>(status.code()));
  writer.text(status.message());
  return writer.take();
}

std::string encodeDone() {
  return success().take();
}

Status decodeDone(std::string_view reply) {
  Reader reader(reply);
  return begin(reader);
}

std::string encodeStatus(const DeviceStatus& status) {
  Writer writer = success();
  writer.put(static_cast<int32_t>(status.index));
  writer.put(static_cast<uint8_t>(status.target));
  writer.text(status.clockProfile);
  putProcess(writer, status.owner);
  auto peers = static_cast<uint32_t>(std::min<size_t>(status.peers.size(), kMaxPeers));
  writer.put(peers);
  for (uint32_t i = 0; i < peers; ++i) putProcess(writer, status.peers[i]);
  writer.put(status.totalBytes);
  writer.put(status.usedBytes);
  writer.put(status.peakBytes);
  for (int64_t busy : status.counters.busyNs) writer.put(busy);
  writer.put(status.counters.deviceNs);
  writer.put(status.counters.launches);
  writer.put(status.counters.commands);
  writer.put(status.counters.h2dBytes);
  writer.put(status.counters.d2hBytes);
  for (const LinkTraffic& link : status.links) {
    putTraffic(writer, link.sent);
    putTraffic(writer, link.received);
  }
  writer.put(status.railUsers);
  for (uint64_t count : status.network) writer.put(count);
  writer.put(status.acquiredAtNs);
  writer.put(status.updatedAtNs);
  writer.put(status.queuedWork);
  for (uint64_t count : status.faults) writer.put(count);
  writer.put(static_cast<uint8_t>(status.lost));
  writer.text(status.lastError);
  return writer.take();
}

StatusOr<DeviceStatus> decodeStatus(std::string_view reply) {
  Reader reader(reply);
  HPU_RETURN_IF_ERROR(begin(reader));
  DeviceStatus status;
  status.index = reader.get<int32_t>();
  auto target = reader.get<uint8_t>();
  if (status.index < 0 || status.index >= kDevices || target < 1 || target > 3) return truncated();
  status.target = static_cast<Target>(target);
  status.clockProfile = reader.text();
  status.owner = getProcess(reader);
  auto peers = reader.get<uint32_t>();
  if (!reader.good() || peers > kMaxPeers) return truncated();
  for (uint32_t i = 0; i < peers; ++i) status.peers.push_back(getProcess(reader));
  status.totalBytes = reader.get<int64_t>();
  status.usedBytes = reader.get<int64_t>();
  status.peakBytes = reader.get<int64_t>();
  for (int64_t& busy : status.counters.busyNs) busy = reader.get<int64_t>();
  status.counters.deviceNs = reader.get<int64_t>();
  status.counters.launches = reader.get<int64_t>();
  status.counters.commands = reader.get<int64_t>();
  status.counters.h2dBytes = reader.get<int64_t>();
  status.counters.d2hBytes = reader.get<int64_t>();
  for (LinkTraffic& link : status.links) {
    link.sent = getTraffic(reader);
    link.received = getTraffic(reader);
  }
  status.railUsers = reader.get<int32_t>();
  for (uint64_t& count : status.network) count = reader.get<uint64_t>();
  status.acquiredAtNs = reader.get<int64_t>();
  status.updatedAtNs = reader.get<int64_t>();
  status.queuedWork = reader.get<int32_t>();
  for (uint64_t& count : status.faults) count = reader.get<uint64_t>();
  status.lost = reader.get<uint8_t>() != 0;
  status.lastError = reader.text();
  if (!reader.good()) return truncated();
  return status;
}

std::string encodeMemory(const MemoryReply& memory) {
  Writer writer = success();
  writer.put(memory.base);
  writer.put(memory.bytes);
  return writer.take();
}

StatusOr<MemoryReply> decodeMemory(std::string_view reply) {
  Reader reader(reply);
  HPU_RETURN_IF_ERROR(begin(reader));
  MemoryReply memory;
  memory.base = reader.get<uint64_t>();
  memory.bytes = reader.get<int64_t>();
  if (!reader.good() || memory.bytes <= 0) return truncated();
  return memory;
}

Status sendPacket(int socket, const void* data, size_t bytes, int fd) {
  iovec part{const_cast<void*>(data), bytes};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  ssize_t sent;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) return unavailable("cannot send to a process of the node: " + base::errnoText(errno));
  return okStatus();
}

namespace {
struct Buffer {
  std::string bytes = std::string(kMaxMessage, '\0');
};
}  // namespace

StatusOr<bool> receivePacket(int socket, std::string& data, Fd* fd) {
  // A reply is a few hundred bytes; the buffer is for the longest.
  std::string& buffer = base::perThread<Buffer>().bytes;
  iovec part{buffer.data(), buffer.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t received;
  do {
    received = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (received < 0 && errno == EINTR);
  if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  if (received < 0) return unavailable("cannot read from a process of the node: " + base::errnoText(errno));
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    int count = static_cast<int>((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    for (int i = 0; i < count; ++i) {
      int passed = -1;
      std::memcpy(&passed, CMSG_DATA(header) + i * sizeof(int), sizeof passed);
      Fd owned(passed);
      if (fd && !fd->valid()) *fd = std::move(owned);
    }
  }
  if (received == 0) return unavailable("the process at the other end of a node's socket is gone");
  // The kernel drops what the table of descriptors has no room for.
  if (fd && !fd->valid() && (message.msg_flags & MSG_CTRUNC))
    return resourceExhausted("cannot take the file that a process of the node hands over: " + base::errnoText(EMFILE));
  data.assign(buffer.data(), static_cast<size_t>(received));
  return true;
}

}  // namespace hpu::node
