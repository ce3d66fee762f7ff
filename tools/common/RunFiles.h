// SPDX-License-Identifier: Apache-2.0
// RunFiles: the files that a run reads and writes, so that no output is written over an input or another output.
// The one thing to know: files are told apart by what they are, not by their paths (links, "./"); devices and pipes may
// be used for anything.
#pragma once

#include <string>
#include <vector>

#include "hpu/status.h"

namespace hpu::tools {

/// Owned by one thread.
class RunFiles {
 public:
  /// Errors: kInvalidArgument when the file is one of the outputs.
  Status read(const std::string& path);
  /// Errors: kInvalidArgument when the file is one of the inputs, or another output. `again`: the same path may be
  /// named once more.
  Status write(const std::string& path, bool again);
  bool empty() const { return files_.empty(); }

 private:
  /// A file of the run, as it was named.
  struct Named {
    std::string identity, path;
    bool written;
  };
  std::vector<Named> files_;
};

}  // namespace hpu::tools
