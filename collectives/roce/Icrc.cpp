// SPDX-License-Identifier: Apache-2.0
#include "collectives/roce/Icrc.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/CrcTables.h"
#include "collectives/roce/Packet.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hpu::roce {
namespace {

// The polynomial of Ethernet (IEEE 802.3), bits reversed.
constexpr uint32_t kPolynomial = 0xEDB88320;
using Tables = base::CrcTables<kPolynomial>;

/// Of the inner register: not inverted before and after.
uint32_t update(uint32_t rest, const uint8_t* at, size_t bytes) {
  return Tables::update(rest, at, bytes);
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

constexpr size_t kFoldWideFrom = 512;

/// The same with four products an instruction: folds 256 bytes at a time into 64, and leaves those and what is left to
/// the narrow ones. Where `to` is not null the bytes go there, too: from memory they are loaded once for both.
__attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.1"))) uint32_t updateByWideProducts(uint32_t rest,
                                                                                          const uint8_t* at,
                                                                                          size_t bytes, uint8_t* to) {
  auto load = [&to](const uint8_t* from) __attribute__((target("avx512f"))) {
    const __m512i value = _mm512_loadu_si512(from);
    if (to) {
      _mm512_storeu_si512(to, value);
      to += 64;
    }
    return value;
  };
  auto fold = [](__m512i value, __m512i by, __m512i next) __attribute__((target("avx512f,vpclmulqdq"))) {
    constexpr int kXorOfThree = 0x96;
    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(value, by, 0x00),
                                     _mm512_clmulepi64_epi128(value, by, 0x11), next, kXorOfThree);
  };
  constexpr uint64_t kBy256[] = {powerOf(2048 + 32), powerOf(2048 - 32)};
  constexpr uint64_t kBy64[] = {powerOf(512 + 32), powerOf(512 - 32)};
  const auto pairs = [](const uint64_t* by) __attribute__((target("avx512f"))) {
    return _mm512_broadcast_i32x4(_mm_set_epi64x(static_cast<int64_t>(by[1]), static_cast<int64_t>(by[0])));
  };
  const __m512i by256 = pairs(kBy256), by64 = pairs(kBy64);
  __m512i part[4];
  for (size_t i = 0; i < 4; ++i) part[i] = load(at + 64 * i);
  part[0] = _mm512_xor_si512(part[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(rest))));
  at += 256;
  bytes -= 256;
  for (; bytes >= 256; at += 256, bytes -= 256)
    for (size_t i = 0; i < 4; ++i) part[i] = fold(part[i], by256, load(at + 64 * i));
  __m512i all = part[0];
  for (size_t i = 1; i < 4; ++i) all = fold(all, by64, part[i]);
  for (; bytes >= 64; at += 64, bytes -= 64) all = fold(all, by64, load(at));
  if (to && bytes > 0) {
    memcpy(to, at, bytes);
    at = to;  // The sum is that of the copy, whatever happens to the data meanwhile.
  }
  // 64 bytes that leave the same as all before them.
  alignas(64) uint8_t folded[64];
  _mm512_store_si512(folded, all);
  return update(updateByProducts(0, folded, sizeof folded), at, bytes);
}

#endif

/// Where `to` is not null the bytes go there, too.
uint32_t updateFastest(uint32_t rest, const uint8_t* at, size_t bytes, uint8_t* to = nullptr) {
#if defined(__x86_64__)
  static const bool multiplies = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  static const bool multipliesWide =
      multiplies && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512f");
  if (multipliesWide && bytes >= kFoldWideFrom) return updateByWideProducts(rest, at, bytes, to);
#endif
  if (to && bytes > 0) {
    memcpy(to, at, bytes);
    at = to;
  }
#if defined(__x86_64__)
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

uint32_t crc32Copy(uint32_t crc, void* to, const void* from, size_t bytes) {
  return ~updateFastest(~crc, static_cast<const uint8_t*>(from), bytes, static_cast<uint8_t*>(to));
}

uint32_t crc32ByTables(uint32_t crc, const void* data, size_t bytes) {
  return ~update(~crc, static_cast<const uint8_t*>(data), bytes);
}

namespace {

constexpr size_t kCheckedBthBytes = 12, kBthChanges = 4;  // The byte with the marks of congestion.

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
  std::array<uint8_t, kCheckedBthBytes> head;
  const size_t bth = std::min(bytes.size(), kCheckedBthBytes);
  std::copy_n(bytes.begin(), bth, head.begin());
  if (bth > kBthChanges) head[kBthChanges] = 0xFF;
  const uint32_t crc = crc32(crcOfHeaders(route, bytes.size() + kIcrcBytes), head.data(), bth);
  return crc32(crc, bytes.data() + bth, bytes.size() - bth);
}

uint32_t RouteIcrc::crcBefore(size_t datagramBytes) {
  for (const Head& one : heads_)
    if (one.bytes == datagramBytes) return one.crc;
  Head& made = heads_[oldest_++ % heads_.size()];
  made = {datagramBytes, crcOfHeaders(route_, datagramBytes)};
  return made.crc;
}

uint32_t RouteIcrc::icrc(std::span<uint8_t> datagram) {
  const uint32_t before = crcBefore(datagram.size());
  // In one piece, which is what makes it fast.
  const size_t covered = datagram.size() - kIcrcBytes;
  if (covered <= kBthChanges) return crc32(before, datagram.data(), covered);
  const uint8_t changes = std::exchange(datagram[kBthChanges], 0xFF);
  const uint32_t crc = crc32(before, datagram.data(), covered);
  datagram[kBthChanges] = changes;
  return crc;
}

void RouteIcrc::seal(std::span<uint8_t> datagram) {
  putIcrc(datagram, icrc(datagram));
}

void RouteIcrc::seal(std::span<uint8_t> datagram, size_t headerBytes, std::span<const uint8_t> payload) {
  uint32_t crc = crcBefore(datagram.size());
  const uint8_t changes = std::exchange(datagram[kBthChanges], 0xFF);
  crc = crc32(crc, datagram.data(), headerBytes);
  datagram[kBthChanges] = changes;
  crc = crc32Copy(crc, &datagram[headerBytes], payload.data(), payload.size());
  const size_t behind = headerBytes + payload.size();
  putIcrc(datagram, crc32(crc, &datagram[behind], datagram.size() - kIcrcBytes - behind));
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
