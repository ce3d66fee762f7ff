// SPDX-License-Identifier: Apache-2.0
// Suite: the cases that every transport passes, each as what one rank does.
// The one thing to know: a case runs once for each rank, on a thread or in a process of its own, so
// ranks know of each other only what the transport and `gather` tell them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/transport/Transport.h"

namespace hpu::testing {

/// Far beyond what a loaded machine needs: it is a failure, never a measurement.
inline constexpr std::chrono::seconds kPatience{120};

/// A rank of the case.
struct Rank {
  std::shared_ptr<collectives::Transport> transport;
  uint64_t address = 0;  ///< Of this rank's device memory.
  int64_t bytes = 0;     ///< At least kMemoryBytes.
  /// Every rank's text, by rank; waits for all.
  std::function<std::vector<std::string>(const std::string& mine)> gather;
  /// Ends this rank as kill -9 does; may not return.
  std::function<void()> die;
  /// Stops another rank as SIGSTOP does, and lets it go on; empty when the transport cannot see it.
  std::function<void(int rank, bool stopped)> stop;
  bool ownProcess = false;

  collectives::Transport& t() const { return *transport; }
  int rank() const { return transport->rank(); }
  int ranks() const { return transport->ranks(); }
  std::byte* memory(int64_t offset, int64_t size) const {
    return transport->local(address + static_cast<uint64_t>(offset), size);
  }
  void barrier() const { gather(""); }
  /// Sleeps on the transport until `condition`; a failure after kPatience.
  bool await(const char* what, const std::function<bool()>& condition) const;
};
inline constexpr int64_t kMemoryBytes = 4 << 20;

struct Case {
  std::string name;  ///< "order".
  int ranks = 2;
  void (*run)(Rank& rank) = nullptr;
  bool endsRanks = false;   ///< Some rank dies in it.
  bool stopsRanks = false;  ///< Uses Rank::stop.
};

const std::vector<Case>& messageCases();
const std::vector<Case>& recordCases();
const std::vector<Case>& waitCases();
const std::vector<Case>& faultCases();
std::vector<Case> allCases();

/// Bytes that depend on all of it, and a test of them.
void fillPattern(std::byte* data, int64_t bytes, uint64_t seed);
bool hasPattern(const std::byte* data, int64_t bytes, uint64_t seed);

}  // namespace hpu::testing
