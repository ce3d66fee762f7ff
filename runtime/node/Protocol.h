// SPDX-License-Identifier: Apache-2.0
// Protocol: what processes of a node say to each other: one request, one reply, on a
// sequenced-packet socket in the abstract namespace. The one thing to know: the name is the
// ownership. Who has bound a device's name owns it, and the kernel frees the name with the process;
// the owner answers on it.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "hpu/node.h"
#include "hpu/status.h"

struct sockaddr_un;

namespace hpu::node {

/// A file descriptor that closes itself.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { reset(); }
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() {
    int fd = fd_;
    fd_ = -1;
    return fd;
  }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

/// Names that a device can be owned under. Abstract names have no permissions, so another user may hold some of them:
/// the first that none of them holds is used.
inline constexpr int kNames = 16;
/// The socket's name without its leading zero byte: "openhpu/node/USER/IDENTITY/INDEX", and "/N" for the other names.
/// A user's nodes are his own: others cannot take his devices, and he does not see theirs.
std::string socketName(const std::string& identity, int index, int name = 0);
/// Fills `address` and returns its length.
uint32_t socketAddress(const std::string& name, sockaddr_un& address);

/// The process at the other end of a socket; pid 0 when it is of another pid namespace.
struct Peer {
  pid_t pid = 0;
  uid_t uid = 0;
};
StatusOr<Peer> peerOf(int socket);
/// Whether somebody of that user id owns what only that user may own; root may own anything.
bool isOurs(uid_t uid);
/// The user whose process made the socket that has bound a name, also when it does not listen or has too many callers;
/// nothing when none has. Errors: kUnavailable (the kernel does not tell).
StatusOr<std::optional<uid_t>> holderOf(const std::string& name);
/// A file of memory that another process made may be mapped: it has `bytes`, and can never have fewer.
/// Errors: kDataLoss (begins with `what`).
Status checkSealed(int fd, uint64_t bytes, const std::string& what);

/// /proc/PID/comm; empty when it is not known.
std::string programName(int64_t pid);

enum class Operation : uint32_t {
  kStatus = 1,     ///< Replies with a DeviceStatus.
  kInject = 2,     ///< Fault and count; replies when it is in effect.
  kMapMemory = 3,  ///< Replies with the HBM's file; the connection stands for the mapping then.
  /// From the owner's own process: the memory may be mapped with this token as long as the connection is open.
  kGrantMemory = 4,
};

/// What the owner of a device gave to those who may map its memory.
using MemoryToken = std::array<uint8_t, 16>;

struct Request {
  uint32_t magic = 0, version = 0;
  Operation operation = Operation::kStatus;
  uint32_t fault = 0;
  int32_t count = 0;
  uint32_t reserved = 0;
  MemoryToken token = {};  ///< Of kMapMemory and kGrantMemory.
};
Request makeRequest(Operation operation);

/// The HBM that a kMapMemory reply's file holds.
struct MemoryReply {
  uint64_t base = 0;
  int64_t bytes = 0;
};

/// Replies as bytes. Decoding errors: kDataLoss (not a reply of this version); the failure that the
/// owner replied with.
std::string encodeFailure(const Status& status);
std::string encodeDone();
std::string encodeStatus(const DeviceStatus& status);
std::string encodeMemory(const MemoryReply& memory);
Status decodeDone(std::string_view reply);
StatusOr<DeviceStatus> decodeStatus(std::string_view reply);
StatusOr<MemoryReply> decodeMemory(std::string_view reply);

inline constexpr size_t kMaxMessage = 64 << 10;
/// One packet, without waiting; `fd` >= 0 goes with it. Errors: kUnavailable.
Status sendPacket(int socket, const void* data, size_t bytes, int fd = -1);
/// The next packet, without waiting: nothing when there is none yet. Errors: kUnavailable (the
/// other end is gone).
StatusOr<bool> receivePacket(int socket, std::string& data, Fd* fd = nullptr);

}  // namespace hpu::node
