// SPDX-License-Identifier: Apache-2.0
// Predicate: whether a file still fails.
// The one thing to know: each question is a process of its own, so what crashes or hangs ends that process alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hpu/status.h"

namespace hpu::tools {

class Predicate {
 public:
  /// A shell's command, given the file as its last argument: it still fails when the command ends with 0.
  static Predicate ofCommand(std::string command);
  /// hpu-compile crashes (a signal, or exit code 3), hangs, or, with a text, fails with a message that has it. The
  /// program is the one beside this tool.
  static Predicate ofCompilation(std::string program, std::vector<std::string> options, std::string message);

  /// Writes `bytes` to a file with this ending and asks. Errors: a process that cannot be started, a file that cannot
  /// be written.
  StatusOr<bool> fails(const std::string& bytes);

  void setFolder(std::string folder, std::string ending) { folder_ = std::move(folder), ending_ = std::move(ending); }
  void setLimit(int64_t seconds) { limitSeconds_ = seconds; }
  int64_t runs() const { return runs_; }
  /// What the last run wrote.
  const std::string& output() const { return output_; }

 private:
  std::string command_, program_, message_, folder_, ending_, output_;
  std::vector<std::string> options_;
  int64_t limitSeconds_ = 60, runs_ = 0;
};

}  // namespace hpu::tools
