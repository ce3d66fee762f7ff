// SPDX-License-Identifier: Apache-2.0
#include "ChildProcess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace hpu::collectives::testing {

ChildProcess::ChildProcess(const std::string& program, const std::vector<std::string>& arguments) {
  ::signal(SIGPIPE, SIG_IGN);
  int in[2], out[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) {
    std::perror("pipe");
    std::abort();
  }
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    // Only what may be called between fork and exec of a program with threads.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(126);
    ::dup2(in[0], 0);
    ::dup2(out[1], 1);
    ::execv(program.c_str(), argv.data());
    ::_exit(127);
  }
  if (pid_ < 0) {
    std::perror("fork");
    std::abort();
  }
  ::close(in[0]);
  ::close(out[1]);
  in_ = in[1];
  out_ = out[0];
}

ChildProcess::~ChildProcess() {
  if (!reaped_) {
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  ::close(in_);
  ::close(out_);
}

bool ChildProcess::tell(const std::string& line) {
  const std::string text = line + "\n";
  for (size_t at = 0; at < text.size();) {
    ssize_t written = ::write(in_, text.data() + at, text.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += static_cast<size_t>(written);
  }
  return true;
}

std::optional<std::string> ChildProcess::line(Clock::time_point until) {
  for (;;) {
    if (size_t end = pending_.find('\n'); end != std::string::npos) {
      std::string result = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return result;
    }
    if (ended_) return std::nullopt;
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd wanted{out_, POLLIN, 0};
    int ready = ::poll(&wanted, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    char buffer[4096];
    ssize_t got = ::read(out_, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      ended_ = true;
    else
      pending_.append(buffer, static_cast<size_t>(got));
  }
}

void ChildProcess::signal(int number) const {
  if (!reaped_) ::kill(pid_, number);
}

std::string ChildProcess::wait(Clock::time_point until) {
  while (!reaped_) {
    int status = 0;
    pid_t got = ::waitpid(pid_, &status, WNOHANG);
    if (got == pid_) {
      reaped_ = true;
      how_ = WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                 : "exit " + std::to_string(WEXITSTATUS(status));
    } else if (Clock::now() >= until) {
      return "";
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  return how_;
}

}  // namespace hpu::collectives::testing
