// SPDX-License-Identifier: Apache-2.0
// RankRunner: one rank's part of cases, on its device and communicator, checked. The one thing to
// know: every case runs twice, and the bytes around the operands must stay as they were.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "Case.h"
#include "Oracle.h"
#include "hpu/collectives.h"
#include "hpu/device.h"
#include "hpu/stream.h"

namespace hpu::collectives::testing {

struct RankReport {
  std::string wrong;    ///< Empty when the case passed.
  bool broken = false;  ///< A call failed: the communicator is of no more use.
  uint64_t hash = 0;    ///< Of all outputs.
};

/// One thread.
class RankRunner {
 public:
  /// Errors: of the device.
  static StatusOr<RankRunner> create(const Communicator& communicator, const Device& device);
  RankReport run(const Case& c);

 private:
  RankRunner(const Communicator& communicator, const Device& device) : communicator_(communicator), device_(device) {}
  struct Operands {
    int64_t input = 0, output = 0;  ///< Bytes into the region.
    int64_t bytes = 0;              ///< Of the region.
  };
  Operands place(const Case& c) const;
  /// The calls of one stream; addresses of operands that this rank does not have are 0.
  Status call(const Case& c, const Oracle& oracle, uint64_t input, uint64_t output, const Stream& stream);
  Status once(const Case& c, std::vector<std::vector<std::byte>>& images);

  Communicator communicator_;
  Device device_;
  Buffer arena_;
  std::vector<Stream> streams_;
};

/// The cases, all of the same number of ranks, with the ranks as threads of this process on devices
/// 0, 1, .. of the node. What is wrong, by case; empty where all is well. A communicator that a
/// case has broken is replaced.
std::vector<std::string> runAsThreads(const std::vector<Case>& cases);
/// What ranks' reports of one case say together.
std::string combine(const Case& c, const std::vector<RankReport>& reports);

/// The devices of the node that the tests of this process share.
const std::vector<Device>& testDevices();

}  // namespace hpu::collectives::testing
