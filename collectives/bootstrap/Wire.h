// SPDX-License-Identifier: Apache-2.0
// Wire: the messages of the bootstrap as bytes.
// The one thing to know: what comes in is from strangers; the parser bounds every size and says
// what is wrong, and nothing is believed that it did not check.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "collectives/bootstrap/Proof.h"
#include "hpu/status.h"

namespace hpu::collectives::wire {

/// Raise it whenever something of this file changes. Another version is refused by name. So that it can be, these are
/// the same in all of them: the header, the beginning of kHello (as far as the host) and of kDecline (as far as the
/// host), and kError.
inline constexpr uint8_t kVersion = 4;
inline constexpr size_t kHeaderBytes = 20;
inline constexpr size_t kMaxValueBytes = size_t{1} << 20;  ///< Of one rank's value.
inline constexpr size_t kMaxNameBytes = 512;               ///< Of keys, phases, groups, hosts.
inline constexpr size_t kMaxHelloBytes = 1024;             ///< Of a message of somebody who has not proven who he is.
inline constexpr size_t kMaxAnswerBytes = 16384;  ///< Of an answer, from somebody who has not proven it either.
inline constexpr size_t kMaxRequestBytes = size_t{2} << 20;   ///< Of what a rank says to the coordinator,
inline constexpr size_t kMaxReplyBytes = size_t{16} << 20;    ///< and of what that says to it.
inline constexpr size_t kMaxGatheredBytes = size_t{1} << 30;  ///< Of all values of a gathering together.
inline constexpr size_t kMaxPayloadBytes = kMaxGatheredBytes + (size_t{64} << 20);  ///< They and what is around them.
inline constexpr int kMaxRanks = 16384;

enum class MessageType : uint8_t {
  // From a rank to the coordinator.
  kHello = 1,  ///< nonce, rank, ranks, process id, host, hall, process, node, challenge.
  kPut,        ///< key, value.
  kGet,        ///< key; answered by kValue with its id when somebody has put it.
  kCancel,     ///< The kGet of this id is not waited for any more.
  kEnter,      ///< group, phase number.
  kWho,        ///< group, phase number, members; answered by kMissing.
  kBye,        ///< The rank leaves; what follows is the end of the connection.
  // From the coordinator to a rank.
  kWelcome,  ///< All ranks are here. To the first rank of each process: which process each rank is of.
  kError,    ///< code, message; the communicator will not be.
  kValue,
  kMissing,     ///< How many, and of each: rank, state, description.
  kMemberGone,  ///< The same.
  // Between ranks.
  kPeerHello,  ///< nonce, group, place in the group, challenge.
  kUp,         ///< phase number; phase name, the part of a subtree.
  kDown,       ///< phase number; the part of all.
  // From a rank to the coordinator, and from there to the members.
  kGiveUp,      ///< Of a phase: group (empty: who is to come), status, members.
  kGroupEnded,  ///< Of the first phase that fails: group (empty: all of them), status.
  // To the coordinator, in place of kHello.
  kDecline,  ///< nonce, hall, process id, host, status, challenge: who has no seat there (a rank out of range) says so.
  // After kHello, kDecline and kPeerHello; nothing else is heard before (but kError).
  kChallenge,  ///< From who was greeted: its challenge.
  kProof,      ///< From who greeted: its proof.
  kProven,     ///< From who was greeted: the proof was right, and its own.
};
inline constexpr int kNumMessageTypes = static_cast<int>(MessageType::kProven) + 1;

struct Frame {
  uint8_t version = kVersion;  ///< Another one: of kHello, kDecline and kError only.
  MessageType type = MessageType::kHello;
  uint64_t id = 0;
  std::string payload;
};

std::string encodeFrame(MessageType type, uint64_t id, std::string_view payload, uint8_t version = kVersion);

/// Cuts a stream of bytes into frames.
class Parser {
 public:
  /// Payloads above it are refused. It grows with trust.
  void setLimit(size_t bytes) { limit_ = bytes; }
  void append(const char* data, size_t bytes) { pending_.append(data, bytes); }
  /// Nothing when more bytes are needed. Errors (for ever then): kInvalidArgument,
  /// kUnimplemented (another version, and not what may be of one).
  StatusOr<std::optional<Frame>> next();

 private:
  void dropTaken();
  size_t limit_ = kMaxHelloBytes;
  std::string pending_;
  size_t taken_ = 0;  ///< Of pending_.
};

class Writer {
 public:
  void u8(uint8_t value) { bytes_ += static_cast<char>(value); }
  void u32(uint32_t value) { number(value, 4); }
  void u64(uint64_t value) { number(value, 8); }
  void i32(int32_t value) { u32(static_cast<uint32_t>(value)); }
  /// Seven bits a byte: small numbers are short.
  void varint(uint64_t value) {
    for (; value >= 128; value >>= 7) u8(static_cast<uint8_t>(value | 128));
    u8(static_cast<uint8_t>(value));
  }
  void text(std::string_view value) {
    u32(static_cast<uint32_t>(value.size()));
    bytes_ += value;
  }
  void status(const Status& value) {
    u8(static_cast<uint8_t>(value.code()));
    text(value.message().substr(0, 4096));
  }
  void raw(std::string_view value) { bytes_ += value; }
  std::string take() { return std::move(bytes_); }

 private:
  void number(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_ += static_cast<char>(value >> (8 * i));
  }
  std::string bytes_;
};

/// Reads what Writer wrote; after a failure all reads give zero and done() says so.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  uint8_t u8() { return static_cast<uint8_t>(number(1)); }
  uint32_t u32() { return static_cast<uint32_t>(number(4)); }
  uint64_t u64() { return number(8); }
  int32_t i32() { return static_cast<int32_t>(u32()); }
  uint64_t varint();
  std::string_view raw(uint64_t bytes);
  std::string text(size_t limit);
  Status status();
  std::string_view rest() { return bytes_; }
  size_t left() const { return bytes_.size(); }
  bool ok() const { return ok_; }
  /// What was read makes no sense.
  void fail() { ok_ = false; }
  /// Nothing is left and nothing was wrong.
  bool done() const { return ok_ && bytes_.empty(); }

 private:
  uint64_t number(size_t bytes);
  std::string_view bytes_;
  bool ok_ = true;
};

struct Hello {
  uint64_t nonce = 0;
  int32_t rank = 0, ranks = 0;
  int64_t pid = 0;
  std::string host;
  uint64_t hall = 0;     ///< Where the room may be opened if it is not there; 0: nowhere.
  uint64_t process = 0;  ///< Alike for the ranks of one process; 0: it is the only one there.
  std::string node;      ///< Of that machine; for errors.
  Challenge challenge{};
};
std::string encodeHello(const Hello& hello);
/// Errors: kInvalidArgument.
StatusOr<Hello> decodeHello(std::string_view payload);

/// What is understood of a greeting, or a refusal, in any version.
struct Introduction {
  uint64_t nonce = 0;
  int32_t rank = -1;  ///< -1: it does not say.
  int64_t pid = 0;
  std::string host;
};
/// Errors: kInvalidArgument.
StatusOr<Introduction> decodeIntroduction(const Frame& frame);

struct Decline {
  uint64_t nonce = 0, hall = 0;
  int64_t pid = 0;
  std::string host;
  Status why;
  Challenge challenge{};
};
/// At most kMaxHelloBytes: a long reason is cut.
std::string encodeDecline(const Decline& decline);
/// Errors: kInvalidArgument.
StatusOr<Decline> decodeDecline(std::string_view payload);

struct PeerHello {
  uint64_t nonce = 0, group = 0;
  int32_t place = 0;
  Challenge challenge{};
};
std::string encodePeerHello(const PeerHello& hello);
StatusOr<PeerHello> decodePeerHello(std::string_view payload);

/// The payload of kError.
std::string encodeStatus(const Status& status);

/// The payload of kChallenge, kProof and kProven.
std::string encode32(const std::array<uint8_t, 32>& bytes);
/// Errors: kInvalidArgument.
StatusOr<std::array<uint8_t, 32>> decode32(std::string_view payload);
/// What is proven after `greeting`, the payload of a kHello, kDecline or kPeerHello.
Meeting meetingOf(MessageType type, std::string_view greeting, const Challenge& dialler, const Challenge& listener);

}  // namespace hpu::collectives::wire
