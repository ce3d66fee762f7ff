// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/TcpWire.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/Format.h"
#include "base/StatusMacros.h"

namespace hpu::collectives::net::tcp {
namespace {

constexpr std::string_view kPlaceMagic = "HTCP", kGreetingMagic = "HPUTCPNW", kAnswerMagic = "HPUTCPOK";
constexpr size_t kPlaceBytes = 4 + 2 + 2 + 16 + kDoorBytes;
constexpr size_t kChallengeAt = kPrologueBytes + kDoorBytes, kHelloSizeAt = kChallengeAt + sizeof(Challenge);
constexpr size_t kGreetingBytes = kHelloSizeAt + 4;
constexpr uint8_t kFrameKind = 1, kWriteKind = 2;

template <typename T>
void put(std::byte* out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out[i] = static_cast<std::byte>(value >> (8 * i));
}
template <typename T>
T get(const void* bytes) {
  const auto* in = static_cast<const unsigned char*>(bytes);
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value | static_cast<T>(static_cast<T>(in[i]) << (8 * i)));
  return value;
}
template <typename T>
std::string textOf(T value) {
  std::string text(sizeof(T), '\0');
  put(reinterpret_cast<std::byte*>(text.data()), value);
  return text;
}

Status otherVersion(uint32_t theirs) {
  return unimplemented(base::strCat("the other end speaks version ", theirs,
                                    " of the network's TCP protocol, this one ", kVersion,
                                    ": use the same release of OpenHPU on all nodes"));
}

}  // namespace

// ---- Meeting ------------------------------------------------------------------------------------

std::string encodePlace(const Place& place) {
  std::string out(kPlaceMagic);
  out += textOf<uint16_t>(place.address.v6 ? 6 : 4);
  out += textOf<uint16_t>(place.address.port);
  out.append(reinterpret_cast<const char*>(place.address.ip), sizeof place.address.ip);
  out.append(reinterpret_cast<const char*>(place.door.data()), kDoorBytes);
  return out;
}

StatusOr<Place> decodePlace(std::string_view bytes) {
  if (bytes.size() != kPlaceBytes || !bytes.starts_with(kPlaceMagic))
    return invalidArgument("not the address of a door of the TCP network");
  Place place;
  const auto family = get<uint16_t>(&bytes[4]);
  place.address.v6 = family == 6;
  place.address.port = get<uint16_t>(&bytes[6]);
  std::memcpy(place.address.ip, &bytes[8], sizeof place.address.ip);
  std::memcpy(place.door.data(), &bytes[24], kDoorBytes);
  if ((family != 4 && family != 6) || place.address.port == 0)
    return invalidArgument("the address of a door of the TCP network has no family or port");
  return place;
}

std::string encodeGreeting(const DoorNumber& door, const Challenge& challenge, std::string_view hello,
                           uint32_t version) {
  std::string out(kGreetingMagic);
  out += textOf(version);
  out.append(reinterpret_cast<const char*>(door.data()), door.size());
  out.append(reinterpret_cast<const char*>(challenge.data()), challenge.size());
  out += textOf(static_cast<uint32_t>(hello.size()));
  out += hello;
  return out;
}

Meeting meetingOf(const DoorNumber& door, std::string_view hello, const Challenge& dialler, const Challenge& listener,
                  std::string& said) {
  said.assign(reinterpret_cast<const char*>(door.data()), door.size());
  said += hello;
  return {"link over TCP", kVersion, said, dialler, listener};
}

Status GreetingReader::add(std::span<const std::byte> bytes) {
  bytes_.append(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), wanted()));
  // At once: who speaks another protocol may never say more.
  const size_t magic = std::min(bytes_.size(), kGreetingMagic.size());
  if (std::string_view(bytes_).substr(0, magic) != kGreetingMagic.substr(0, magic))
    return invalidArgument("what comes is not a greeting of this network");
  if (wanted() > 0) return okStatus();
  if (need_ == kPrologueBytes) {
    const auto version = get<uint32_t>(&bytes_[8]);
    if (version != kVersion) return otherVersion(version);
    need_ = kGreetingBytes;
  } else if (need_ == kGreetingBytes) {
    std::memcpy(door_.data(), &bytes_[kPrologueBytes], door_.size());
    std::memcpy(challenge_.data(), &bytes_[kChallengeAt], challenge_.size());
    const auto hello = get<uint32_t>(&bytes_[kHelloSizeAt]);
    if (hello > kMostHelloBytes)
      return invalidArgument(base::strCat("a hello of ", hello, " bytes; at most ", kMostHelloBytes));
    need_ += hello;
  }
  return okStatus();
}

std::string_view GreetingReader::hello() const {
  return std::string_view(bytes_).substr(std::min(kGreetingBytes, bytes_.size()));
}

std::array<std::byte, kAnswerBytes> encodeAnswer(Answer answer) {
  std::array<std::byte, kAnswerBytes> out;
  std::memcpy(out.data(), kAnswerMagic.data(), kAnswerMagic.size());
  put(&out[8], kVersion);
  put(&out[12], static_cast<uint32_t>(answer));
  return out;
}

Status checkPrologue(std::span<const std::byte, kAnswerBytes> bytes) {
  if (std::memcmp(bytes.data(), kAnswerMagic.data(), kAnswerMagic.size()) != 0)
    return invalidArgument("the other end is not one of this network");
  const auto version = get<uint32_t>(&bytes[8]);
  return version == kVersion ? okStatus() : otherVersion(version);
}

Status decodeAnswer(std::span<const std::byte, kAnswerBytes> bytes, Answer awaited) {
  HPU_RETURN_IF_ERROR(checkPrologue(bytes));
  const auto answer = static_cast<Answer>(get<uint32_t>(&bytes[12]));
  if (answer == awaited) return okStatus();
  switch (answer) {
    case Answer::kWelcome:
    case Answer::kProve:
      return invalidArgument("the other end gave an answer out of turn");
    case Answer::kNotWanted:
      return aborted("the other end does not want this link");
    case Answer::kOtherVersion:
      break;  // With the same version: nonsense.
  }
  return invalidArgument("the other end gave an unknown answer");
}

// ---- Messages -----------------------------------------------------------------------------------

void encodeHeader(const Header& header, std::byte* out) {
  put<uint8_t>(out, header.bytes > 0 ? kWriteKind : kFrameKind);
  put<uint8_t>(out + 1, 0);
  put(out + 2, header.frameBytes);
  put(out + 4, header.window.key);
  put(out + 8, header.window.address);
  put(out + 16, header.bytes);
}

void encodeTrailer(bool givenUp, std::byte* out) {
  put<uint64_t>(out, givenUp ? 1 : 0);
}

Status MessageReader::bad(std::string why) {
  state_ = State::kBad;
  why_ = std::move(why);
  kept_ = {};
  return invalidArgument(why_);
}

std::span<const std::byte> MessageReader::gather(size_t bytes, std::span<const std::byte>& input) {
  if (kept_.empty() && input.size() >= bytes) {
    const auto piece = input.first(bytes);
    input = input.subspan(bytes);
    return piece;
  }
  const size_t more = std::min(bytes - kept_.size(), input.size());
  kept_.insert(kept_.end(), input.begin(), input.begin() + static_cast<ptrdiff_t>(more));
  input = input.subspan(more);
  if (kept_.size() < bytes) return {};
  given_ = true;
  return kept_;
}

Status MessageReader::onHeader(std::span<const std::byte> bytes) {
  const auto kind = get<uint8_t>(&bytes[0]);
  header_.frameBytes = get<uint16_t>(&bytes[2]);
  header_.window.key = get<uint32_t>(&bytes[4]);
  header_.window.address = get<uint64_t>(&bytes[8]);
  header_.bytes = get<uint64_t>(&bytes[16]);
  if (bytes[1] != std::byte{0} || (kind != kFrameKind && kind != kWriteKind))
    return bad(base::strCat("a message of unknown kind ", kind));
  if (header_.frameBytes > kMostFrameBytes)
    return bad(base::strCat("a frame of ", header_.frameBytes, " bytes; at most ", kMostFrameBytes));
  if (kind == kFrameKind && (header_.window.key != 0 || header_.window.address != 0 || header_.bytes != 0))
    return bad("a frame that names a window");
  if (kind == kWriteKind && (header_.bytes == 0 || header_.bytes > kMostWriteBytes))
    return bad(base::strCat("a write of ", header_.bytes, " bytes"));
  left_ = header_.bytes;
  state_ = kind == kWriteKind ? State::kData : State::kFrame;
  return okStatus();
}

StatusOr<MessageReader::Item> MessageReader::next(std::span<const std::byte>& input) {
  if (std::exchange(given_, false)) kept_.clear();
  for (;;) {
    switch (state_) {
      case State::kBad:
        return invalidArgument(why_);
      case State::kHeader: {
        const auto bytes = gather(kHeaderBytes, input);
        if (bytes.empty()) return Item{};
        if (Status status = onHeader(bytes); !status.ok()) return status;
        if (std::exchange(given_, false)) kept_.clear();
        if (state_ == State::kData) return Item{Kind::kWrite, {}};
        break;
      }
      case State::kData: {
        if (left_ == 0) {
          state_ = State::kTrailer;
          break;
        }
        if (input.empty()) return Item{};
        const auto bytes = input.first(static_cast<size_t>(std::min<uint64_t>(left_, input.size())));
        input = input.subspan(bytes.size());
        left_ -= bytes.size();
        return Item{Kind::kData, bytes};
      }
      case State::kTrailer: {
        const auto bytes = gather(kTrailerBytes, input);
        if (bytes.empty()) return Item{};
        const auto trailer = get<uint64_t>(bytes.data());
        if (std::exchange(given_, false)) kept_.clear();
        if (trailer > 1) return bad("a write without an end");
        state_ = trailer == 0 ? State::kFrame : State::kHeader;
        if (trailer == 1) return Item{Kind::kGivenUp, {}};
        break;
      }
      case State::kFrame: {
        const auto bytes = header_.frameBytes == 0 ? std::span<const std::byte>{} : gather(header_.frameBytes, input);
        if (bytes.size() < header_.frameBytes) return Item{};
        state_ = State::kHeader;
        return Item{Kind::kFrame, bytes};
      }
    }
  }
}

void MessageReader::tookData(uint64_t bytes) {
  left_ -= std::min(bytes, left_);
}

}  // namespace hpu::collectives::net::tcp
