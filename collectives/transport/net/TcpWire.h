// SPDX-License-Identifier: Apache-2.0
// TcpWire: what TcpNetwork says over a connection, as bytes; no sockets here.
// The one thing to know: what comes in may be anybody's; every size is bounded before it is used, and what was not
// understood is an error for ever. All numbers are little-endian.
//
//   greeting, from who dials:   "HPUTCPNW", version u32, door 16 bytes, challenge 32 bytes, size of hello u32, hello
//   answer:                     "HPUTCPOK", version u32, Answer u32; kProve: and its challenge, 32 bytes
//   proof, from who dials:      32 bytes (Proof.h)
//   answer:                     as before; kWelcome: and its proof, 32 bytes
//   frame:                      1 u8, 0 u8, size u16, 0 u32, 0 u64, 0 u64, the frame
//   write:                      2 u8, 0 u8, size u16, key u32, address u64, bytes u64, the data,
//                               0 u64, the frame, or 1 u64: it was given up, and has no frame
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/bootstrap/Address.h"
#include "collectives/bootstrap/Proof.h"
#include "collectives/transport/net/Network.h"
#include "hpu/status.h"

namespace hpu::collectives::net::tcp {

inline constexpr uint32_t kVersion = 2;
inline constexpr size_t kDoorBytes = 16, kAnswerBytes = 16, kHeaderBytes = 24, kTrailerBytes = 8;
inline constexpr size_t kPrologueBytes = 12;  ///< Magic and version of a greeting and an answer: alike in all versions.
/// Of one write.
inline constexpr uint64_t kMostWriteBytes = uint64_t{1} << 48;

/// Which door of a socket; random, and no secret.
using DoorNumber = std::array<std::byte, kDoorBytes>;

/// What Door::address() holds.
struct Place {
  Address address;  ///< Without a scope: it means nothing on another machine.
  DoorNumber door{};
};
std::string encodePlace(const Place& place);
/// Errors: kInvalidArgument.
StatusOr<Place> decodePlace(std::string_view bytes);

/// `version`: another one in tests.
std::string encodeGreeting(const DoorNumber& door, const Challenge& challenge, std::string_view hello,
                           uint32_t version = kVersion);
/// What both ends prove after a greeting; `said` is for its bytes.
Meeting meetingOf(const DoorNumber& door, std::string_view hello, const Challenge& dialler, const Challenge& listener,
                  std::string& said);

/// Takes a greeting piece by piece.
class GreetingReader {
 public:
  /// How many bytes are to be read next, at most; 0: it is complete.
  size_t wanted() const { return need_ - bytes_.size(); }
  /// Not more than wanted(). Errors: kInvalidArgument, kUnimplemented (another version: names both).
  Status add(std::span<const std::byte> bytes);

  // Of a complete one:
  const DoorNumber& door() const { return door_; }
  const Challenge& challenge() const { return challenge_; }
  std::string_view hello() const;

 private:
  size_t need_ = kPrologueBytes;
  std::string bytes_;
  DoorNumber door_{};
  Challenge challenge_{};
};

enum class Answer : uint32_t {
  kWelcome = 0,
  kNotWanted = 1,     ///< The door's owner has another link, or none for this one.
  kOtherVersion = 2,  ///< The version beside it is the only one that is understood.
  kProve = 3,         ///< The proof is awaited.
};
std::array<std::byte, kAnswerBytes> encodeAnswer(Answer answer);
/// Of the first kPrologueBytes: an answer of this version. Errors: kUnimplemented (another one: names both),
/// kInvalidArgument.
Status checkPrologue(std::span<const std::byte, kAnswerBytes> bytes);
/// Ok: what was `awaited`. Errors: kAborted (not wanted), kUnimplemented (another version: names both),
/// kInvalidArgument.
Status decodeAnswer(std::span<const std::byte, kAnswerBytes> bytes, Answer awaited = Answer::kWelcome);

/// What a message begins with. `bytes` is 0: a frame.
struct Header {
  uint16_t frameBytes = 0;
  Window window;
  uint64_t bytes = 0;
};
void encodeHeader(const Header& header, std::byte* out);
void encodeTrailer(bool givenUp, std::byte* out);

/// Cuts what comes in into messages.
class MessageReader {
 public:
  enum class Kind : uint8_t {
    kNothing,  ///< More bytes are needed.
    kFrame,    ///< `bytes` is the frame, of a write when its data came before.
    kWrite,    ///< A write begins: header().
    kData,     ///< `bytes` are the next ones of the write's data.
    kGivenUp,  ///< The write is over and is not to be told.
  };
  struct Item {
    Kind kind = Kind::kNothing;
    std::span<const std::byte> bytes;  ///< Of `input`, or kept until the next call.
  };

  /// Takes the next item from the front of `input`; all of it when that is kNothing. Errors, for ever then:
  /// kInvalidArgument.
  StatusOr<Item> next(std::span<const std::byte>& input);

  const Header& header() const { return header_; }
  /// What is to come of the write's data.
  uint64_t dataLeft() const { return state_ == State::kData ? left_ : 0; }
  /// So many bytes of it (at most dataLeft()) were read past this object.
  void tookData(uint64_t bytes);

 private:
  enum class State : uint8_t { kHeader, kData, kTrailer, kFrame, kBad };
  /// The next `bytes` in one piece; an empty one when they are not all there.
  std::span<const std::byte> gather(size_t bytes, std::span<const std::byte>& input);
  Status onHeader(std::span<const std::byte> bytes);
  Status bad(std::string why);

  State state_ = State::kHeader;
  Header header_;
  uint64_t left_ = 0;
  std::vector<std::byte> kept_;  ///< The beginning of what is gathered; at most a frame.
  bool given_ = false;           ///< `kept_` was given out whole.
  std::string why_;
};

}  // namespace hpu::collectives::net::tcp
