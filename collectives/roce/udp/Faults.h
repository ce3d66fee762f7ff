// SPDX-License-Identifier: Apache-2.0
// Faults: what a bad network does to arriving datagrams, by a seed, so that a run can be had again.
// The one thing to know: the decision about a datagram depends on the seed and on how many came before it, nothing
// else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "hpu/status.h"

namespace hpu::roce {

struct FaultOptions {
  uint64_t seed = 1;
  double drop = 0, duplicate = 0, corrupt = 0;  ///< Shares of datagrams, 0 to 1.
  bool any() const { return drop > 0 || duplicate > 0 || corrupt > 0; }
};
/// "drop=0.01,corrupt=0.001,seed=7". Errors: kInvalidArgument, with what is wrong and what there is.
StatusOr<FaultOptions> parseFaults(std::string_view text);

class Faults {
 public:
  explicit Faults(const FaultOptions& options) : options_(options) {}
  struct Fate {
    bool drop = false, duplicate = false, corrupt = false;
    size_t bit = 0;  ///< Of a corrupt one: which bit is another one, modulo its length.
  };
  Fate next();

 private:
  FaultOptions options_;
  uint64_t count_ = 0;
};

}  // namespace hpu::roce
