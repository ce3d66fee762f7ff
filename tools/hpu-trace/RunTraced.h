// SPDX-License-Identifier: Apache-2.0
// Runs a command with settings in its environment, passes signals on to it and ends it at a
// deadline. Ctrl-C is the command's to act on: this process goes on until it has ended. The one thing to know: call it
// from the only thread of the process (it blocks signals).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hpu/status.h"

namespace hpu::tools {

struct CommandRun {
  std::vector<std::string> command;                              ///< Program (searched in PATH) and arguments.
  std::vector<std::pair<std::string, std::string>> environment;  ///< Added to the own one.
  double timeoutSeconds = 0;    ///< Then SIGTERM, and SIGKILL 5 s later; 0: no deadline.
  bool outputToStderr = false;  ///< The command's stdout goes to stderr.
};

struct CommandEnd {
  int exitCode = 0;  ///< Its own; 128 + n when signal n ended it.
  int signal = 0;    ///< 0: it exited.
  bool timedOut = false;
  int received = 0;  ///< The last signal that this process got meanwhile and the command, too; 0: none.
};

/// Errors: kNotFound, kPermissionDenied ... when the command cannot be started.
StatusOr<CommandEnd> runCommand(const CommandRun& run);

}  // namespace hpu::tools
