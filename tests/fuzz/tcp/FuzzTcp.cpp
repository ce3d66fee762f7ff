// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes that come over a connection of the TCP network are an error or well-formed, the same in
// whatever pieces they come, and write nothing but open windows.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "collectives/transport/net/TcpWindows.h"
#include "collectives/transport/net/TcpWire.h"

namespace {

using namespace hpu::collectives::net;
using namespace hpu::collectives::net::tcp;

constexpr size_t kWindow = 1000, kGuard = 64;

void knownKeys(std::span<uint32_t> keys) {
  for (uint32_t& key : keys) key = 0x5945'4b2e;
}

/// A link's input without its socket: what it was told, as text.
class Receiver {
 public:
  Receiver() : memory_(kGuard + 2 * kWindow + kGuard, std::byte{'.'}) {
    windows_.open(&memory_[kGuard], kWindow);
    windows_.close(windows_.open(&memory_[kGuard + kWindow], kWindow));
  }

  /// `straight`: a part of the data goes past the reader, as when a socket is read into the window.
  void take(std::span<const std::byte> bytes, bool straight) {
    while (status_.ok()) {
      if (straight && reader_.dataLeft() > 0 && windows_.target() && !bytes.empty()) {
        const auto size = static_cast<size_t>(std::min<uint64_t>(reader_.dataLeft(), bytes.size()));
        std::memcpy(windows_.target(), bytes.data(), size);
        windows_.took(size);
        reader_.tookData(size);
        bytes = bytes.subspan(size);
      }
      auto item = reader_.next(bytes);
      if (!item.ok()) return fail(item.status());
      switch (item->kind) {
        case MessageReader::Kind::kNothing:
          if (!bytes.empty()) abort();
          return;
        case MessageReader::Kind::kWrite:
          if (reader_.header().bytes == 0) abort();
          told_ += "write;";
          if (hpu::Status status = windows_.begin(reader_.header()); !status.ok()) return fail(status);
          break;
        case MessageReader::Kind::kData:
          if (windows_.target()) std::memcpy(windows_.target(), item->bytes.data(), item->bytes.size());
          windows_.took(item->bytes.size());
          break;
        case MessageReader::Kind::kGivenUp:
          told_ += "given up;";
          windows_.end();
          break;
        case MessageReader::Kind::kFrame:
          if (item->bytes.size() > kMostFrameBytes) abort();
          told_ += "frame " + std::string(reinterpret_cast<const char*>(item->bytes.data()), item->bytes.size()) + ";";
          windows_.end();
          break;
      }
    }
  }
  /// All but what the first window had: untouched.
  void check() const {
    for (size_t i = 0; i < memory_.size(); ++i)
      if ((i < kGuard || i >= kGuard + kWindow) && memory_[i] != std::byte{'.'}) abort();
  }
  bool operator==(const Receiver& other) const {
    return told_ == other.told_ && memory_ == other.memory_ && status_.message() == other.status_.message();
  }

 private:
  void fail(const hpu::Status& status) {
    if (status.code() != hpu::StatusCode::kInvalidArgument || status.message().empty()) abort();
    status_ = status;
  }

  std::vector<std::byte> memory_;
  TcpWindows windows_{knownKeys};
  MessageReader reader_;
  std::string told_;
  hpu::Status status_;
};

void greet(std::span<const std::byte> bytes, size_t piece) {
  GreetingReader reader;
  size_t most = 0;
  while (reader.wanted() > 0) {
    const size_t size = std::min({reader.wanted(), piece, bytes.size()});
    if (size == 0) return;
    hpu::Status status = reader.add(bytes.first(size));
    if (!status.ok()) {
      if (status.message().empty()) abort();
      return;
    }
    bytes = bytes.subspan(size);
    most += size;
  }
  if (reader.hello().size() > kMostHelloBytes || most > 64 + kMostHelloBytes) abort();
  if (encodeGreeting(reader.door(), reader.challenge(), reader.hello()).size() != most) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  // The first byte says in what pieces the rest comes.
  const size_t piece = data[0] % 64 + size_t{1};
  const bool straight = (data[0] & 64) != 0;
  std::vector<std::byte> bytes(size - 1);
  if (size > 1) std::memcpy(bytes.data(), data + 1, size - 1);
  greet(bytes, piece);
  std::array<std::byte, kAnswerBytes> answer{};
  std::copy_n(bytes.begin(), std::min(bytes.size(), answer.size()), answer.begin());
  (void)decodeAnswer(answer);
  (void)decodeAnswer(answer, Answer::kProve);
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (auto place = decodePlace(text); place.ok() && encodePlace(*place) != text) abort();

  Receiver whole, pieces;
  whole.take(bytes, false);
  for (std::span<const std::byte> rest(bytes); !rest.empty();) {
    const auto part = rest.first(std::min(piece, rest.size()));
    rest = rest.subspan(part.size());
    pieces.take(part, straight);
  }
  whole.check();
  pieces.check();
  if (!(whole == pieces)) abort();
  return 0;
}
