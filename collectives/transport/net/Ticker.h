// SPDX-License-Identifier: Apache-2.0
// Ticker: the thread of a process that lets its ranks of several nodes look around a few times a second.
// The one thing to know: it runs as long as there is somebody to call.
#pragma once

#include <chrono>
#include <memory>

namespace hpu::collectives::net {

inline constexpr std::chrono::milliseconds kTick{100};

class Ticking {
 public:
  virtual ~Ticking() = default;
  /// About every kTick; it must not wait. False: it is not to be called any more.
  virtual bool tick() = 0;
};

/// It is kept until it says that it is done. From any thread. False: the host has no thread for it.
bool startTicking(std::shared_ptr<Ticking> what);

}  // namespace hpu::collectives::net
