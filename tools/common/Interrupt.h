// SPDX-License-Identifier: Apache-2.0
// Interrupt: Ctrl-C that keeps what was measured. While one lives, the first SIGINT, SIGTERM or SIGHUP only sets a
// flag, so that the work stops after the step in flight; a second one ends the process at once. The one thing to know:
// signals that the process was started to ignore (nohup, jobs of a script) stay ignored.
//
//   Interrupt interrupt("stopping after the run in flight", tool.quiet());
//   for (int i = 0; i < runs && !interrupt.signal(); ++i) ...
//   ... write and print what there is ...
//   if (interrupt.signal()) return endBySignal(interrupt.signal());
#pragma once

#include <string>

#include "tools/common/Cli.h"

namespace hpu::tools {

/// Made and destroyed by the main thread, a later one first. One inside of another has words of its own and the same
/// signal: what came before it was made is a signal for it, too.
class Interrupt {
 public:
  /// The first signal prints "interrupted: `what`; again to end at once" on stderr, unless quiet.
  explicit Interrupt(const std::string& what, bool quiet = false);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  /// The signal that came, or 0. Any thread.
  int signal() const;

 private:
  static void onSignal(int signal);
  std::string message_;
  const Interrupt* outer_;
};

/// Holds a named pipe open that somebody reads, so that writing a file there does not wait for a reader: open(2) would,
/// and go on waiting through signals.
class AwaitedReader {
 public:
  /// Waits for a reader of `path`; returns at once for what is no named pipe. Errors: kCancelled when nobody has come
  /// before the interrupt's signal.
  static StatusOr<AwaitedReader> of(const std::string& path, const Interrupt& interrupt);
  AwaitedReader(AwaitedReader&& other) noexcept;
  AwaitedReader& operator=(AwaitedReader&& other) = delete;
  ~AwaitedReader();

 private:
  explicit AwaitedReader(int fd) : fd_(fd) {}
  int fd_;
};

/// "SIGINT".
std::string signalName(int signal);

/// The end of a process that a signal was for: when main has returned and all has been written, the process is ended by
/// that signal, so that a shell sees 128 + n and stops its loop. Gives 128 + n, for main to return.
ExitCode endBySignal(int signal);
/// The same, and says so: "interrupted by SIGINT" and `what` on stderr, `interrupted` and `signal` in the tool's JSON.
ExitCode endInterrupted(Tool& tool, int signal, const std::string& what);

}  // namespace hpu::tools
