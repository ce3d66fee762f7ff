// SPDX-License-Identifier: Apache-2.0
// Telemetry: what a monitor shows of a device beside what node::query tells: facts of the board, clocks, and
// what happened between two samples of one device. libhlml and hpu-smi are built on it.
// The one thing to know: utilisation and throughput are over simulated time; power, temperature and energy
// are modelled from utilisation (docs/hpu-smi.md has the model), never measured.
//
//   auto before = hpu::node::query(0), after = hpu::node::query(0);  // Some time apart.
//   printf("%.0f %%\n", 100 * hpu::telemetry::read(*before, *after).utilization);
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hpu/node.h"
#include "hpu/status.h"
#include "hpu/target.h"
#include "hpu/types.h"

namespace hpu::telemetry {

/// What does not change about the boards of a target. Sources are in runtime/telemetry/Board.cpp.
struct Board {
  std::string_view name;     ///< "HL-225".
  uint32_t pciDeviceId = 0;  ///< Vendor in the upper half, device in the lower: 0x1da31020.
  int pcieGeneration = 0, pcieLanes = 0;
  double pcieGigatransfers = 0;  ///< A lane, in GT/s.
  int ports = 0;                 ///< Ethernet ports, numbered from 0.
  uint64_t portMask = 0;
  uint64_t externalPortMask = 0;  ///< Those that leave the box: together the device's rail.
  double portGigabits = 0;
  double idleWatts = 0, capWatts = 0;
  double idleCelsius = 0, celsiusPerWatt = 0;

  bool hasPort(int port) const { return port >= 0 && port < 64 && (portMask >> port & 1); }
  bool isExternal(int port) const { return hasPort(port) && (externalPortMask >> port & 1); }
  /// Links between two devices of one box: all internal ports shared evenly by seven peers.
  int linksPerPeer() const;
};

/// Lives for ever; any thread.
HPU_API const Board& board(Target target);

/// Megahertz. The SoC clock is the MME's, as hl-smi shows it on HL-225 boards; the maximum is without the
/// profile's derate.
struct Clocks {
  double mme = 0, tpc = 0, mmeMax = 0, tpcMax = 0;
  std::string profile;
  bool derated() const { return mme < mmeMax; }
};
/// An empty profile is the target's first. Errors: kInvalidArgument (the target has no such profile).
HPU_API StatusOr<Clocks> clocks(Target target, std::string_view profile = {});

/// What two samples of one device say.
struct Readings {
  /// The window in simulated and in host nanoseconds. `sinceAcquired`: no simulated time has passed since the
  /// first sample although work is queued, or the device changed its owner or was reset in between; the window
  /// then begins with the acquisition.
  int64_t deviceNs = 0, hostNs = 0;
  bool sinceAcquired = false;
  double engine[kNumEngines] = {};                  ///< Busy share of the window, 0..1.
  double utilization = 0;                           ///< That of the busiest engine.
  double watts = 0, celsius = 0;                    ///< Modelled.
  double joules = 0;                                ///< Modelled, since the acquisition, over simulated time.
  double receivedPerSecond = 0, sentPerSecond = 0;  ///< Bytes to and from the device a simulated second.
  bool powerThrottled = false;                      ///< The clock profile has a derate, and the MME was busy.
  bool thermalThrottled = false;                    ///< A thermal fault was injected since the acquisition.
};

/// Any thread. The samples are of the same device, `before` the older one.
HPU_API Readings read(const node::DeviceStatus& before, const node::DeviceStatus& after);
/// As above with the acquisition as the first sample.
HPU_API Readings readSinceAcquired(const node::DeviceStatus& status);

/// Simulated nanoseconds since the acquisition in which the MME ran below its maximum clock.
HPU_API int64_t powerViolationNs(const node::DeviceStatus& status);

/// Fixed by the device's uuid and the port; locally administered (02:...), so no vendor's address.
HPU_API std::array<uint8_t, 6> macAddress(const node::DeviceStatus& status, int port);

/// Whether the port's link is up: of a device that is not lost internal ports, and external ones while it has ranks of
/// communicators of several nodes.
HPU_API bool linkUp(const node::DeviceStatus& status, int port);

/// The device at the other end of an internal port, by index: ports in their order, linksPerPeer() of them for each
/// other device in the order of indices. -1: an external port, or none.
HPU_API int portPeer(const node::DeviceStatus& status, int port);

struct PortCounter {
  std::string_view name;  ///< "tx_bytes"; lives for ever.
  uint64_t value = 0;
};
/// What a port has carried and met, in a fixed order, the same names for every port. What a link carries is spread
/// evenly over its ports, the rest on the first ones; they are busy together. What the network has met is a process's,
/// and is shown at external ports; the simulated cables inside the box lose nothing. Empty: no such port.
HPU_API std::vector<PortCounter> portCounters(const node::DeviceStatus& status, int port);
/// "retransmitted"; "unknown" for a number that is none.
HPU_API std::string_view networkCounterName(node::NetworkCounter counter);

}  // namespace hpu::telemetry
