// SPDX-License-Identifier: Apache-2.0
// ChildProcess: a rank in a process of its own, spoken to in lines. The one thing to know: every
// wait has a deadline far beyond what a loaded machine needs, and a child never outlives its
// parent.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace hpu::collectives::testing {

/// One thread.
class ChildProcess {
 public:
  using Clock = std::chrono::steady_clock;
  ChildProcess(const std::string& program, const std::vector<std::string>& arguments);
  /// Kills it when it is still there.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  int outputFd() const { return out_; }
  /// False when it is gone.
  bool tell(const std::string& line);
  /// The next line of its output; nothing when none comes until then, or no more will.
  std::optional<std::string> line(Clock::time_point until);
  /// Its output has ended and all of it was read.
  bool ended() const { return ended_ && pending_.find('\n') == std::string::npos; }
  void signal(int number) const;
  /// Waits for its end: "exit 0", "signal 9", or "" when it still runs then.
  std::string wait(Clock::time_point until);

 private:
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1;
  bool ended_ = false, reaped_ = false;
  std::string pending_, how_;
};

}  // namespace hpu::collectives::testing
