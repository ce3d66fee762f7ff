// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes that come over a bootstrap's socket are an error or well-formed messages.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "collectives/bootstrap/Address.h"
#include "collectives/bootstrap/Coordinator.h"
#include "collectives/bootstrap/Values.h"
#include "collectives/bootstrap/Wire.h"

namespace {

using namespace hpu::collectives;

void decode(const wire::Frame& frame) {
  if (auto hello = wire::decodeHello(frame.payload); hello.ok()) {
    if (hello->rank < 0 || hello->rank >= hello->ranks || hello->ranks > wire::kMaxRanks) abort();
    for (char c : hello->host)
      if (c < ' ' || c > '~') abort();
    // What was understood means the same again.
    auto again = wire::decodeHello(wire::encodeHello(*hello));
    if (!again.ok() || again->rank != hello->rank || again->host != hello->host || again->node != hello->node ||
        again->process != hello->process || again->challenge != hello->challenge)
      abort();
  } else if (hello.status().message().empty()) {
    abort();
  }
  if (auto known = wire::decodeIntroduction(frame); known.ok())
    for (char c : known->host)
      if (c < ' ' || c > '~') abort();
  if (frame.version != wire::kVersion && frame.type != wire::MessageType::kHello &&
      frame.type != wire::MessageType::kDecline && frame.type != wire::MessageType::kError)
    abort();
  (void)wire::decodePeerHello(frame.payload);
  if (auto bytes = wire::decode32(frame.payload); bytes.ok() && wire::encode32(*bytes) != frame.payload) abort();
  if (auto missing = decodeMissing(frame.payload); missing.ok()) {
    if (encodeMissing(*missing).size() > frame.payload.size()) abort();
    (void)missingText(*missing);
  }
  constexpr size_t kPlaces = 64, kMost = 10000;
  if (const auto part = decodePart(frame.payload, kPlaces, kMost); part.ok()) {
    size_t bytes = 0;
    for (const auto& [place, value] : part->values) {
      if (place < 0 || static_cast<size_t>(place) >= kPlaces) abort();
      bytes += value.size();
    }
    if (bytes > kMost) abort();
  }
  (void)decodeRoster(frame.payload, kPlaces);
  wire::Reader in(frame.payload);
  (void)in.status();
  (void)in.text(wire::kMaxNameBytes);
  (void)in.text(wire::kMaxValueBytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  // The first byte says in what pieces the rest comes.
  size_t piece = data[0] % 64 + size_t{1};
  wire::Parser parser;
  if (data[0] & 128) parser.setLimit(wire::kMaxPayloadBytes);
  size_t frames = 0;
  for (size_t at = 1; at < size; at += piece) {
    parser.append(reinterpret_cast<const char*>(data) + at, std::min(piece, size - at));
    for (;;) {
      auto frame = parser.next();
      if (!frame.ok()) {
        if (frame.status().message().empty() || parser.next().ok()) abort();
        return 0;
      }
      if (!frame->has_value()) break;
      if (++frames * wire::kHeaderBytes > size) abort();
      decode(**frame);
    }
  }
  UniqueId id;
  std::memcpy(id.bytes, data, std::min(size, sizeof id.bytes));
  (void)decodeId(id);
  (void)parseAddress(std::string_view(reinterpret_cast<const char*>(data), size), "it");
  return 0;
}
