// SPDX-License-Identifier: Apache-2.0
// Facts of the boards. Sources, by the tags used below:
//   SMI   outputs of hl-smi that users published: names, power caps, idle readings, PCI ids
//   WP    Gaudi 2 and Gaudi 3 white papers (Intel 839363, 817486): host link, network
//   DRV   the habanalabs driver of Linux: PCI device ids
//   NET   connectivity of the eight-device boxes: which ports leave the box
// Gaudi 1's PCI id is DRV; that of Gaudi 2 is both.
#include <bit>
#include <cmath>

#include "arch/TargetDesc.h"
#include "base/Hash.h"
#include "base/StatusMacros.h"
#include "hpu/telemetry.h"

namespace hpu::telemetry {
namespace {

/// SMI: two HL-225 of one box showed 25 C at 81 W and 35 C at 525 W. Nothing like it is published for the
/// other boards, which get the same slope.
constexpr double kCelsiusPerWatt = 10.0 / 444;

constexpr Board kGaudi1 = {.name = "HL-205",
                           .pciDeviceId = 0x1da31000,  // DRV
                           .pcieGeneration = 4,        // WP
                           .pcieLanes = 16,
                           .pcieGigatransfers = 16,
                           .ports = 10,
                           .portMask = 0x3ff,
                           .externalPortMask = 1 << 1 | 1 << 8 | 1 << 9,  // NET
                           .portGigabits = 100,
                           .idleWatts = 102,  // SMI
                           .capWatts = 350,
                           .idleCelsius = 35,
                           .celsiusPerWatt = kCelsiusPerWatt};

constexpr Board kGaudi2 = {.name = "HL-225",
                           .pciDeviceId = 0x1da31020,  // SMI
                           .pcieGeneration = 4,        // WP
                           .pcieLanes = 16,
                           .pcieGigatransfers = 16,
                           .ports = 24,
                           .portMask = 0xffffff,
                           .externalPortMask = 1 << 8 | 1 << 22 | 1 << 23,  // NET
                           .portGigabits = 100,
                           .idleWatts = 90,  // SMI: 82 to 99
                           .capWatts = 600,
                           .idleCelsius = 26,
                           .celsiusPerWatt = kCelsiusPerWatt};

constexpr Board kGaudi3 = {.name = "HL-325",
                           .pciDeviceId = 0x1da31060,  // DRV
                           .pcieGeneration = 5,        // WP
                           .pcieLanes = 16,
                           .pcieGigatransfers = 32,
                           .ports = 24,
                           .portMask = 0xffffff,
                           .externalPortMask = 1 << 8 | 1 << 22 | 1 << 23,  // As Gaudi 2.
                           .portGigabits = 200,
                           .idleWatts = 264,  // SMI
                           .capWatts = 900,
                           .idleCelsius = 36,
                           .celsiusPerWatt = kCelsiusPerWatt};

}  // namespace

int Board::linksPerPeer() const {
  return std::popcount(portMask & ~externalPortMask) / (node::kDevices - 1);
}

const Board& board(Target target) {
  switch (target) {
    case Target::kGaudi1:
      return kGaudi1;
    case Target::kGaudi2:
      return kGaudi2;
    case Target::kGaudi3:
      return kGaudi3;
  }
  return kGaudi2;
}

StatusOr<Clocks> clocks(Target target, std::string_view profile) {
  HPU_ASSIGN(arch::ClockProfile found, arch::targetDesc(target).findClock(profile));
  Clocks clocks;
  clocks.profile = found.name;
  clocks.mmeMax = std::round(found.mmeGhz * 1000);
  clocks.tpc = clocks.tpcMax = std::round(found.tpcGhz * 1000);
  clocks.mme = std::round(found.mmeGhz * found.mmeDerate * 1000);
  return clocks;
}

std::array<uint8_t, 6> macAddress(const node::DeviceStatus& status, int port) {
  uint64_t hash = base::hash64(status.uuid);
  auto byte = [&](int i) { return static_cast<uint8_t>(hash >> (8 * i)); };
  return {0x02, byte(0), byte(1), byte(2), byte(3), static_cast<uint8_t>(port)};
}

}  // namespace hpu::telemetry
