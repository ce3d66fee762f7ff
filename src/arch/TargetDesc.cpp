// SPDX-License-Identifier: Apache-2.0
// The numbers of Gaudi 1, 2 and 3. Sources, by the tags used below:
//   HAL   hardware abstraction headers of HabanaAI/Intel_Gaudi3_Software (MIT):
//   synapse/src/hal_reader MME   geometry, port and clock facts of the same drop: mme/src/gaudi*,
//   specs/gaudi*, specs_h9/gaudi3 WP    Gaudi 2 and Gaudi 3 white papers (Intel 839363, 817486) and
//   the Hot Chips 2024 slides TPC   Intel Gaudi TPC user guide and HabanaAI/Habana_Custom_Kernel
//   FIT   fitted by us on tests/data/gaudi1_gemm_calibration.csv (docs/performance-model.md says
//   how) MAMF  stas00/ml-engineering, compute/accelerator: measured matmul rates of Gaudi 2 and 3
#include "arch/TargetDesc.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace hpu::arch {
namespace {

// PCIe: 16 lanes, 128b/130b coding, and 256-byte payloads behind 24 bytes of header and framing.
constexpr double pcieBytesPerNs(double gigatransfers) {
  return gigatransfers * 16 / 8 * 128 / 130 * 256 / (256 + 24);
}

TargetDesc makeGaudi1() {
  TargetDesc d;
  d.target = Target::kGaudi1;
  d.name = "gaudi1";
  // MME: four 64 x 64 cores; the batch arrangements give each of the two engines a GEMM of its own.
  d.mmeGeometries = {
      {"2wx2h", 128, 128}, {"4wx1h", 256, 64}, {"1wx4h", 64, 256}, {"2wx1h.b2", 128, 64, 2}, {"1wx2h.b2", 64, 128, 2}};
  // Quarter rate for f32 (MME: cores of 32 x 32); that it is half the rows at two cycles a K is
  // FIT.
  d.mmeTypes = {{ElementType::kBF16, 1, 1}, {ElementType::kF32, 2, 2}};
  d.mmeRollupCycles = 156;   // FIT; the MME library's roll-up time is 128.
  d.mmeFillCycles = 14;      // FIT
  d.mmeDrainCycles = 340;    // FIT: twice a step's least time.
  d.mmeLaunchCycles = 395;   // FIT
  d.mmeStreamStall = 0.038;  // FIT; 922 GB/s of operands against the 894 GB/s of the HAL's DMA rate: 0.031.

  d.numTpcs = 8;            // HAL
  d.tpcLaunchCycles = 700;  // HAL: planner's 1500 cycles a slice of both engines, less the MME's.

  d.hbmBytes = int64_t{32} << 30;           // HAL
  d.hbmBytesPerNs = 1000;                   // Public 1 TB/s ...
  d.hbmEfficiency = 0.95;                   // ... and the planner's 950 (HAL).
  d.sramBytes = (int64_t{20} << 20) - 128;  // specs/gaudi: 20 MB less what the driver keeps.
  d.sramBytesPerNs = 1045;                  // HAL
  d.cacheLineBytes = 128;                   // HAL

  d.numDmas = 5;                              // HAL: mask 0x37
  d.dmaBytesPerNs = 894;                      // HAL
  d.dmaLaunchNs = 300;                        // HAL: 0.3 us observed on Gaudi 2; taken for all.
  d.hostLinkBytesPerNs = pcieBytesPerNs(16);  // WP: Gen4 x16

  // 1.8 GHz: MME. No TPC clock is published; 1.9 is the generic clock of the HAL.
  d.clocks = {
      {"sustained", 1.8, 1.9}, {"shipping", 1.8, 1.9}, {"datasheet", 1.8, 1.9}, {"measured", 1.8, 1.9, 1, 20900}};
  return d;
}

TargetDesc makeGaudi2() {
  TargetDesc d;
  d.target = Target::kGaudi2;
  d.name = "gaudi2";
  // MME: two engines of two 256 x 128 cores. In 4xw and 4xh the ten ports of an engine share eight
  // operand buffers. The parts of the concurrent arrangements are an engine, a core or a 64 x 64
  // corner.
  d.mmeGeometries = {{"2xh", 256, 512},
                     {"2xw", 512, 256},
                     {"4xh", 128, 1024, 1, 1, true},
                     {"4xw", 1024, 128, 1, 1, true},
                     {"2xh.b2", 256, 256, 2},
                     {"4xh.b2", 128, 512, 2, 1, true},
                     {"4xw.b2", 512, 128, 2, 1, true},
                     {"core.b4", 128, 128, 4},
                     {"corner.b8", 64, 64, 8, 1, false, true},
                     {"2xh.k2", 256, 256, 1, 2},
                     {"4xh.k2", 128, 512, 1, 2, true},
                     {"4xw.k2", 512, 128, 1, 2, true},
                     {"core.k4", 128, 128, 1, 4},
                     {"corner.k8", 64, 64, 1, 8, false, true}};
  // fp8 twice and f32 a quarter of bf16 (WP: 865; HAL: least common dimension 64 against 256).
  d.mmeTypes = {{ElementType::kBF16, 1, 1},     {ElementType::kF16, 1, 1}, {ElementType::kF8E4M3Ieee, 0.5, 1},
                {ElementType::kF8E4M3, 0.5, 1},  // Priced alike; the array has the former.
                {ElementType::kF8E5M2, 0.5, 1}, {ElementType::kF32, 4, 1}};
  d.e4m3Type = ElementType::kF8E4M3Ieee;
  // HAL: exponent biases 15, 11, 7, 3.
  d.e4m3Scales = {0x1p-8, 0x1p-4, 1, 0x1p4};
  d.mmeRollupCycles = 256;  // MME
  d.mmeFillCycles = 66;     // From four MAMF points, within 2 %.
  d.mmeDrainCycles = 512;   // As on Gaudi 1: two roll-ups.
  d.mmeLaunchCycles = 395;  // FIT on Gaudi 1: nothing is published for Gaudi 2.

  d.numTpcs = 24;           // HAL
  d.tpcLaunchCycles = 600;  // HAL: 1500 cycles a slice of both engines, less the MME's.

  d.hbmBytes = int64_t{96} << 30;            // HAL
  d.hbmBytesPerNs = 2457.6;                  // HAL: 6 stacks x 128 B x 3.2 GHz
  d.hbmEfficiency = 0.85;                    // HAL: the planner's factor
  d.sramBytes = (int64_t{48} << 20) - 2048;  // specs/gaudi2
  d.sramBytesPerNs = 6553.6;                 // HAL: 32 x 4 x 128 B x 0.4 GHz
  d.cacheLineBytes = 128;                    // HAL

  d.numDmas = 5;                              // HAL
  d.dmaBytesPerNs = 970;                      // HAL
  d.dmaLaunchNs = 300;                        // HAL: least overhead observed
  d.hostLinkBytesPerNs = pcieBytesPerNs(16);  // WP: Gen4 x16, 64 GB/s in both directions

  // 1.65 GHz: MME; 1.8: WP (11 TFLOP/s of vector bf16). 20.9 us a submission: community
  // measurement.
  d.clocks = {
      {"sustained", 1.65, 1.8}, {"shipping", 1.65, 1.8}, {"datasheet", 1.65, 1.8}, {"measured", 1.65, 1.8, 1, 20900}};
  return d;
}

TargetDesc makeGaudi3() {
  TargetDesc d;
  d.target = Target::kGaudi3;
  d.name = "gaudi3";
  // MME: eight engines of 256 x 256; a port feeds a whole engine, so no arrangement is port-bound.
  d.mmeGeometries = {{"2xh", 512, 1024},           {"2xw", 1024, 512},           {"4xh", 256, 2048},
                     {"4xw", 2048, 256},           {"b2.square", 512, 512, 2},   {"b2.tall", 256, 1024, 2},
                     {"b2.wide", 1024, 256, 2},    {"b4.tall", 256, 512, 4},     {"b4.wide", 512, 256, 4},
                     {"b8", 256, 256, 8},          {"b16", 128, 128, 16},        {"k2.square", 512, 512, 1, 2},
                     {"k2.tall", 256, 1024, 1, 2}, {"k2.wide", 1024, 256, 1, 2}, {"k4.tall", 256, 512, 1, 4},
                     {"k4.wide", 512, 256, 1, 4},  {"k8", 256, 256, 1, 8},       {"k32", 128, 128, 1, 32}};
  // WP: fp8 as bf16; fp16 459 and fp32 229 of 1835 (HAL: least common dimension 64 and 32 against
  // 256).
  d.mmeTypes = {{ElementType::kBF16, 1, 1},
                {ElementType::kF8E4M3, 1, 1},
                {ElementType::kF8E5M2, 1, 1},
                {ElementType::kF16, 4, 1},
                {ElementType::kF32, 8, 1}};
  d.e4m3Type = ElementType::kF8E4M3;
  // HAL: any exponent bias of six bits.
  for (int k = -56; k <= 7; ++k) d.e4m3Scales.push_back(std::ldexp(1.0, k));
  d.mmeRollupCycles = 512;  // MME
  d.mmeFillCycles = 66;     // As Gaudi 2.
  d.mmeDrainCycles = 512;   // As Gaudi 2.
  d.mmeLaunchCycles = 395;  // As Gaudi 2.

  d.numTpcs = 64;           // HAL
  d.tpcLaunchCycles = 600;  // HAL: 1500 cycles a slice of both engines, less the MME's.

  d.hbmBytes = int64_t{128} << 30;  // WP
  d.hbmBytesPerNs = 3686.4;         // HAL: 8 stacks x 128 B x 3.6 GHz
  d.hbmEfficiency = 0.85;           // HAL
  d.sramBytes = int64_t{96} << 20;  // WP: the L2 caches
  d.sramBytesPerNs = 12800;         // WP
  d.cacheLineBytes = 256;           // HAL

  d.numDmas = 0;  // HAL: none for compiled graphs
  d.dmaBytesPerNs = 0;
  d.dmaLaunchNs = 300;                        // As Gaudi 2 (host copies).
  d.hostLinkBytesPerNs = pcieBytesPerNs(32);  // WP: Gen5 x16

  // "shipping": MME 1600 MHz; "datasheet": WP's 1835 TFLOP/s; the derate of "sustained" brings the
  // two MAMF points within 1.1 % (without it they are 24 and 22 % too fast).
  d.clocks = {{"sustained", 1.6, 1.6, 0.81},
              {"shipping", 1.6, 1.6},
              {"datasheet", 1.75, 1.75},
              {"measured", 1.6, 1.6, 0.81, 20900}};
  return d;
}

}  // namespace

const MmeTypeRate& TargetDesc::mmeRate(ElementType type) const {
  for (const MmeTypeRate& rate : mmeTypes)
    if (rate.type == type) return rate;
  for (const MmeTypeRate& rate : mmeTypes)
    if (rate.type == ElementType::kF32) return rate;
  return mmeTypes.front();
}

bool TargetDesc::hasMmeType(ElementType type) const {
  bool isE4m3 = type == ElementType::kF8E4M3 || type == ElementType::kF8E4M3Ieee;
  return isE4m3 ? type == e4m3Type : mmeRate(type).type == type;
}

std::string TargetDesc::mmeTypeNames() const {
  std::string names;
  for (const MmeTypeRate& rate : mmeTypes)
    if (hasMmeType(rate.type)) names += (names.empty() ? "" : ", ") + std::string(elementTypeName(rate.type));
  return names;
}

double TargetDesc::mmeCostPerK(ElementType type) const {
  const MmeTypeRate& rate = mmeRate(type);
  return rate.cyclesPerK * static_cast<double>(rate.heightDivisor);
}

int64_t TargetDesc::mmeMacs() const {
  int64_t macs = 0;
  for (const MmeGeometry& g : mmeGeometries) macs = std::max(macs, g.width * g.height * g.batch * g.kSplit);
  return macs;
}

double TargetDesc::mmePeakTflops(const ClockProfile& clock, ElementType type) const {
  return 2.0 * static_cast<double>(mmeMacs()) * clock.mmeGhz / mmeCostPerK(type) / 1e3;
}

double TargetDesc::tpcPeakTflops(const ClockProfile& clock, ElementType type) const {
  int64_t size = std::max<int64_t>(elementSize(type), 1);
  return 2.0 * static_cast<double>(numTpcs * (tpcVectorBytes / size)) * clock.tpcGhz / 1e3;
}

const ClockProfile& TargetDesc::clock(std::string_view profile) const {
  for (const ClockProfile& c : clocks)
    if (c.name == profile) return c;
  return clocks.front();
}

StatusOr<ClockProfile> TargetDesc::findClock(std::string_view profile) const {
  if (profile.empty()) return clocks.front();
  std::string names;
  for (const ClockProfile& c : clocks) {
    if (c.name == profile) return c;
    names += (names.empty() ? "" : ", ") + std::string(c.name);
  }
  return invalidArgument("unknown clock profile '" + std::string(profile) + "' of " + std::string(name) +
                         "; valid profiles are " + names);
}

const TargetDesc& targetDesc(Target target) {
  static const TargetDesc& gaudi1 = *new TargetDesc(makeGaudi1());
  static const TargetDesc& gaudi2 = *new TargetDesc(makeGaudi2());
  static const TargetDesc& gaudi3 = *new TargetDesc(makeGaudi3());
  switch (target) {
    case Target::kGaudi1:
      return gaudi1;
    case Target::kGaudi2:
      return gaudi2;
    case Target::kGaudi3:
      return gaudi3;
  }
  return gaudi2;
}

}  // namespace hpu::arch
