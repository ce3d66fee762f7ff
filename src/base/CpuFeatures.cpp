// SPDX-License-Identifier: Apache-2.0
#include "base/CpuFeatures.h"

#include <algorithm>
#include <cstring>

#include "base/Settings.h"
#include "base/StatusMacros.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace hpu::base {
namespace {
#if defined(__x86_64__)

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf = 0) {
  Registers r;
  if (!__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx)) return {};
  return r;
}

uint64_t enabledStates() {
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

constexpr bool hasAll(uint64_t value, uint64_t mask) {
  return (value & mask) == mask;
}

// Bits of Intel's Software Developer's Manual, volume 2A, CPUID, and of the x86-64 psABI's level
// table.
constexpr unsigned kLeaf1Ecx =
    bit_FMA | bit_MOVBE | bit_OSXSAVE | bit_AVX | bit_F16C | bit_SSE4_2 | bit_SSE4_1 | bit_SSSE3 | bit_POPCNT;
constexpr unsigned kLeaf7V3 = bit_BMI | bit_AVX2 | bit_BMI2;
constexpr unsigned kLeaf7V4 = bit_AVX512F | bit_AVX512DQ | bit_AVX512CD | bit_AVX512BW | bit_AVX512VL;
constexpr unsigned kExtendedLzcnt = 1u << 5;  // CPUID 0x80000001 ECX.
constexpr uint64_t kXcr0Avx = 0x6;            // XMM and YMM.
constexpr uint64_t kXcr0Avx512 = 0xe6;        // ... and opmask, ZMM_Hi256, Hi16_ZMM.

CpuLevel detect() {
  Registers leaf1 = cpuid(1), leaf7 = cpuid(7), extended = cpuid(0x80000001u);
  if (!hasAll(leaf1.ecx, kLeaf1Ecx) || !hasAll(leaf7.ebx, kLeaf7V3) || !hasAll(extended.ecx, kExtendedLzcnt))
    return CpuLevel::kBaseline;
  uint64_t states = enabledStates();
  if (!hasAll(states, kXcr0Avx)) return CpuLevel::kBaseline;
  if (hasAll(leaf7.ebx, kLeaf7V4) && hasAll(states, kXcr0Avx512)) return CpuLevel::kV4;
  return CpuLevel::kV3;
}

#else
CpuLevel detect() {
  return CpuLevel::kBaseline;
}
#endif
}  // namespace

std::string_view cpuLevelName(CpuLevel level) {
  switch (level) {
    case CpuLevel::kBaseline:
      return "x86-64";
    case CpuLevel::kV3:
      return "x86-64-v3";
    case CpuLevel::kV4:
      return "x86-64-v4";
  }
  return "x86-64";
}

CpuLevel detectCpuLevel() {
  static const CpuLevel level = detect();
  return level;
}

StatusOr<CpuLevel> usableCpuLevel() {
  HPU_ASSIGN(std::string most, settings::getString(Setting::HPU_MAX_CPU));
  CpuLevel limit = most == "baseline" ? CpuLevel::kBaseline : most == "x86-64-v3" ? CpuLevel::kV3 : CpuLevel::kV4;
  return std::min(limit, detectCpuLevel());
}

std::string cpuModelName() {
#if defined(__x86_64__)
  if (cpuid(0x80000000u).eax >= 0x80000004u) {
    char text[49] = {};
    for (unsigned i = 0; i < 3; ++i) {
      Registers r = cpuid(0x80000002u + i);
      std::memcpy(text + 16 * i, &r, 16);
    }
    std::string name(text);
    size_t first = name.find_first_not_of(' ');
    if (first != std::string::npos) return name.substr(first, name.find_last_not_of(' ') - first + 1);
  }
#endif
  return "unknown CPU";
}

}  // namespace hpu::base
