// SPDX-License-Identifier: Apache-2.0
#include "tools/hpu-trace/RunTraced.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "base/File.h"
#include "base/StatusMacros.h"

namespace hpu::tools {
namespace {

using Clock = std::chrono::steady_clock;

/// In the child: never returns. Tells errno through the pipe when the program does not start.
[[noreturn]] void startChild(const CommandRun& run, bool ownGroup, const sigset_t& mask, int pipe,
                             std::vector<char*>& arguments) {
  if (ownGroup) setpgid(0, 0);
  if (run.outputToStderr) dup2(STDERR_FILENO, STDOUT_FILENO);
  for (const auto& [name, value] : run.environment) setenv(name.c_str(), value.c_str(), 1);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  execvp(arguments[0], arguments.data());
  int error = errno;
  ssize_t told = write(pipe, &error, sizeof error);
  _exit(told == sizeof error ? 127 : 126);
}

struct Waiting {
  pid_t child = -1;
  bool ownGroup = false;
  void send(int signal) const { kill(ownGroup ? -child : child, signal); }
};

/// Until the child has ended.
StatusOr<CommandEnd> wait(const Waiting& child, const sigset_t& signals, double timeoutSeconds) {
  constexpr auto kGrace = std::chrono::seconds(5);
  CommandEnd end;
  std::optional<Clock::time_point> deadline;
  if (timeoutSeconds > 0)
    deadline =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeoutSeconds));
  while (true) {
    int status = 0;
    pid_t done = waitpid(child.child, &status, WNOHANG);
    if (done < 0 && errno != EINTR) return base::errnoStatus(errno, "wait for", "the command");
    if (done == child.child) {
      end.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
      end.exitCode = end.signal ? 128 + end.signal : WEXITSTATUS(status);
      // What it left behind would go on after its deadline.
      if (end.timedOut && child.ownGroup) child.send(SIGKILL);
      return end;
    }
    timespec pause{3600, 0};
    if (deadline) {
      auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(*deadline - Clock::now());
      auto ns = std::max<int64_t>(left.count(), 0);
      if (ns == 0) {
        child.send(end.timedOut ? SIGKILL : SIGTERM);
        if (end.timedOut)
          deadline.reset();
        else
          deadline = Clock::now() + kGrace;
        end.timedOut = true;
        continue;
      }
      if (ns / 1'000'000'000 < 3600) pause = {ns / 1'000'000'000, ns % 1'000'000'000};
    }
    siginfo_t info{};
    int got = sigtimedwait(&signals, &info, &pause);
    if (got <= 0 || got == SIGCHLD) continue;
    end.received = got;
    // What the terminal sends (Ctrl-C) reaches a child of the same group by itself.
    if (child.ownGroup || info.si_code != SI_KERNEL) child.send(got);
  }
}

}  // namespace

StatusOr<CommandEnd> runCommand(const CommandRun& run) {
  std::vector<std::string> texts = run.command;
  std::vector<char*> arguments;
  for (std::string& text : texts) arguments.push_back(text.data());
  arguments.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return base::errnoStatus(errno, "make a pipe for", texts[0]);
  // Blocked before the child exists, so that its end cannot be missed.
  sigset_t signals, before;
  sigemptyset(&signals);
  for (int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, &before);
  fflush(nullptr);
  Waiting child;
  // With a deadline the whole group is ended, or what a shell started would stay.
  child.ownGroup = run.timeoutSeconds > 0;
  child.child = fork();
  int forkError = errno;
  if (child.child == 0) startChild(run, child.ownGroup, before, ends[1], arguments);
  close(ends[1]);
  if (child.child > 0 && child.ownGroup) setpgid(child.child, child.child);
  int error = 0;
  ssize_t told = child.child > 0 ? read(ends[0], &error, sizeof error) : 0;
  close(ends[0]);
  StatusOr<CommandEnd> end = child.child < 0 ? StatusOr<CommandEnd>(base::errnoStatus(forkError, "start", texts[0]))
                                             : wait(child, signals, run.timeoutSeconds);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (told == sizeof error) return base::errnoStatus(error, "run", texts[0]);
  return end;
}

}  // namespace hpu::tools
