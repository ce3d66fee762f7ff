// SPDX-License-Identifier: Apache-2.0
// WorkerProcess: a child process that owns a device of the node, as a test sees it.
// The one thing to know: every answer is awaited with a deadline that is far beyond what a loaded
// machine needs; none of them is a measurement.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace hpu::testing {

/// Not thread-safe.
class WorkerProcess {
 public:
  /// Starts it with arguments and environment settings ("NAME=value"). `hello()` is its first line:
  /// "ready INDEX" or "error CODE MESSAGE".
  explicit WorkerProcess(const std::vector<std::string>& arguments = {},
                         const std::vector<std::string>& environment = {});
  /// Kills it when it is still there.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  pid_t pid() const { return pid_; }
  const std::string& hello() const { return hello_; }
  /// The index of its device; -1 when it has none.
  int index() const { return index_; }
  /// Its one line of answer; empty when it is gone.
  std::string ask(const std::string& command);
  void signal(int number) const;
  /// SIGSTOP, then waits until every thread of it stands still. SIGCONT goes on.
  void stop();
  /// SIGKILL, then waits until the kernel has ended it.
  void kill();
  /// Asks it to end and gives its exit code; -1 when it did not end by itself.
  int quit();

 private:
  std::string readLine();
  int reap();
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1;
  std::string pending_, hello_;
  int index_ = -1;
};

}  // namespace hpu::testing
