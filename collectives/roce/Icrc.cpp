// SPDX-License-Identifier: Apache-2.0
#include "collectives/roce/Icrc.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "collectives/roce/Packet.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hpu::roce {
namespace {

// The polynomial of Ethernet (IEEE 802.3), bits reversed.
constexpr uint32_t kPolynomial = 0xEDB88320;
constexpr size_t kSlices = 8;

/// kTables[n][byte]: the remainder of a byte that n more bytes follow.
constexpr auto kTables = [] {
  std::array<std::array<uint32_t, 256>, kSlices> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ (rest & 1 ? kPolynomial : 0);
    tables[0][byte] = rest;
  }
  for (size_t n = 1; n < kSlices; ++n)
    for (size_t byte = 0; byte < 256; ++byte)
      tables[n][byte] = tables[n - 1][byte] >> 8 ^ tables[0][tables[n - 1][byte] & 0xFF];
  return tables;
}();

/// Of the inner register: not inverted before and after.
uint32_t update(uint32_t rest, const uint8_t* at, size_t bytes) {
  for (; bytes >= kSlices; at += kSlices, bytes -= kSlices) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    word ^= rest;
    rest = 0;
    for (size_t n = 0; n < kSlices; ++n) rest ^= kTables[kSlices - 1 - n][word >> (8 * n) & 0xFF];
  }
  for (; bytes > 0; ++at, --bytes) rest = rest >> 8 ^ kTables[0][(rest ^ *at) & 0xFF];
  return rest;
}

#if defined(__x86_64__)

/// x^n modulo the polynomial, bits reversed, as the 33-bit factor that reversed carry-less products need: what moves a
/// 64-bit half over n bits further on.
constexpr uint64_t powerOf(int n) {
  uint32_t rest = 1u << 31;  // x^0.
  for (int i = 0; i < n; ++i) rest = rest >> 1 ^ (rest & 1 ? kPolynomial : 0);
  return uint64_t{rest} << 1;
}

constexpr size_t kFoldFrom = 128;

/// Folds 64 bytes at a time into 16, and leaves those and what is left to the tables: a polynomial stays the same
/// modulo the divisor when its upper part is multiplied by what the power above it leaves.
__attribute__((target("pclmul,sse4.1"))) uint32_t updateByProducts(uint32_t rest, const uint8_t* at, size_t bytes) {
  auto load = [](const uint8_t* from) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)); };
  // The lower half lies before the upper one in the stream, so it is moved further.
  auto fold = [](__m128i value, __m128i by, __m128i next) __attribute__((target("pclmul,sse4.1"))) {
    return _mm_xor_si128(next,
                         _mm_xor_si128(_mm_clmulepi64_si128(value, by, 0x00), _mm_clmulepi64_si128(value, by, 0x11)));
  };
  constexpr uint64_t kBy64[] = {powerOf(512 + 32), powerOf(512 - 32)};
  constexpr uint64_t kBy16[] = {powerOf(128 + 32), powerOf(128 - 32)};
  const __m128i by64 = _mm_set_epi64x(static_cast<int64_t>(kBy64[1]), static_cast<int64_t>(kBy64[0]));
  const __m128i by16 = _mm_set_epi64x(static_cast<int64_t>(kBy16[1]), static_cast<int64_t>(kBy16[0]));
  __m128i part[4];
  for (size_t i = 0; i < 4; ++i) part[i] = load(at + 16 * i);
  part[0] = _mm_xor_si128(part[0], _mm_cvtsi32_si128(static_cast<int>(rest)));
  at += 64;
  bytes -= 64;
  for (; bytes >= 64; at += 64, bytes -= 64)
    for (size_t i = 0; i < 4; ++i) part[i] = fold(part[i], by64, load(at + 16 * i));
  __m128i all = part[0];
  for (size_t i = 1; i < 4; ++i) all = fold(all, by16, part[i]);
  for (; bytes >= 16; at += 16, bytes -= 16) all = fold(all, by16, load(at));
  alignas(16) uint8_t folded[16];
  _mm_store_si128(reinterpret_cast<__m128i*>(folded), all);
  return update(update(0, folded, sizeof folded), at, bytes);
}

#endif

uint32_t updateFastest(uint32_t rest, const uint8_t* at, size_t bytes) {
#if defined(__x86_64__)
  static const bool multiplies = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  if (multiplies && bytes >= kFoldFrom) return updateByProducts(rest, at, bytes);
#endif
  return update(rest, at, bytes);
}

void putBig(uint8_t* at, uint16_t value) {
  at[0] = static_cast<uint8_t>(value >> 8);
  at[1] = static_cast<uint8_t>(value);
}

}  // namespace

uint32_t crc32(uint32_t crc, const void* data, size_t bytes) {
  return ~updateFastest(~crc, static_cast<const uint8_t*>(data), bytes);
}

uint32_t crc32ByTables(uint32_t crc, const void* data, size_t bytes) {
  return ~update(~crc, static_cast<const uint8_t*>(data), bytes);
}

namespace {

constexpr size_t kBthBytes = 12, kBthChanges = 4;  // The byte with the marks of congestion.

/// Of what stands before a datagram of so many bytes, its ICRC among them: the place of the local routing header, which
/// RoCE v2 has not, IP and UDP.
uint32_t crcOfHeaders(const Route& route, size_t datagramBytes) {
  constexpr size_t kOnes = 8, kV4 = 20, kV6 = 40, kUdp = 8;
  std::array<uint8_t, kOnes + kV6 + kUdp> head;
  head.fill(0xFF);
  uint8_t* at = head.data() + kOnes;
  const size_t udpBytes = kUdp + datagramBytes;
  if (route.isV6) {
    at[0] = 0x6F;  // The version; traffic class and flow label may change, as the hop limit.
    putBig(at + 4, static_cast<uint16_t>(udpBytes));
    at[6] = 17;
    std::copy(route.source.begin(), route.source.end(), at + 8);
    std::copy(route.destination.begin(), route.destination.end(), at + 24);
    at += kV6;
  } else {
    at[0] = 0x45;
    putBig(at + 2, static_cast<uint16_t>(kV4 + udpBytes));
    putBig(at + 4, route.identification);
    putBig(at + 6, route.mayFragment ? 0 : 0x4000);
    at[9] = 17;  // Type of service, time to live and checksum may change.
    std::copy_n(route.source.begin(), 4, at + 12);
    std::copy_n(route.destination.begin(), 4, at + 16);
    at += kV4;
  }
  putBig(at, route.sourcePort);
  putBig(at + 2, route.destinationPort);
  putBig(at + 4, static_cast<uint16_t>(udpBytes));
  at += kUdp;
  return crc32(0, head.data(), static_cast<size_t>(at - head.data()));
}

void putIcrc(std::span<uint8_t> datagram, uint32_t icrc) {
  for (size_t i = 0; i < kIcrcBytes; ++i)
    datagram[datagram.size() - kIcrcBytes + i] = static_cast<uint8_t>(icrc >> (8 * i));
}
uint32_t icrcIn(std::span<const uint8_t> datagram) {
  uint32_t there = 0;
  for (size_t i = 0; i < kIcrcBytes; ++i) there |= uint32_t{datagram[datagram.size() - kIcrcBytes + i]} << (8 * i);
  return there;
}

}  // namespace

uint32_t icrcOf(const Route& route, std::span<const uint8_t> bytes) {
  std::array<uint8_t, kBthBytes> head;
  const size_t bth = std::min(bytes.size(), kBthBytes);
  std::copy_n(bytes.begin(), bth, head.begin());
  if (bth > kBthChanges) head[kBthChanges] = 0xFF;
  const uint32_t crc = crc32(crcOfHeaders(route, bytes.size() + kIcrcBytes), head.data(), bth);
  return crc32(crc, bytes.data() + bth, bytes.size() - bth);
}

uint32_t RouteIcrc::icrc(std::span<uint8_t> datagram) {
  const Head* head = nullptr;
  for (const Head& one : heads_)
    if (one.bytes == datagram.size()) head = &one;
  if (!head) {
    Head& made = heads_[oldest_++ % heads_.size()];
    made = {datagram.size(), crcOfHeaders(route_, datagram.size())};
    head = &made;
  }
  // In one piece, which is what makes it fast.
  const size_t covered = datagram.size() - kIcrcBytes;
  if (covered <= kBthChanges) return crc32(head->crc, datagram.data(), covered);
  const uint8_t changes = std::exchange(datagram[kBthChanges], 0xFF);
  const uint32_t crc = crc32(head->crc, datagram.data(), covered);
  datagram[kBthChanges] = changes;
  return crc;
}

void RouteIcrc::seal(std::span<uint8_t> datagram) {
  putIcrc(datagram, icrc(datagram));
}

bool RouteIcrc::check(std::span<uint8_t> datagram) {
  return datagram.size() >= kIcrcBytes && icrcIn(datagram) == icrc(datagram);
}

void sealIcrc(const Route& route, std::span<uint8_t> datagram) {
  putIcrc(datagram, icrcOf(route, datagram.first(datagram.size() - kIcrcBytes)));
}

bool checkIcrc(const Route& route, std::span<const uint8_t> datagram) {
  return datagram.size() >= kIcrcBytes &&
         icrcIn(datagram) == icrcOf(route, datagram.first(datagram.size() - kIcrcBytes));
}

}  // namespace hpu::roce
