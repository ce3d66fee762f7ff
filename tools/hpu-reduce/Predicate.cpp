// SPDX-License-Identifier: Apache-2.0
#include "tools/hpu-reduce/Predicate.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "base/File.h"
#include "base/StatusMacros.h"

namespace hpu::tools {
namespace {

constexpr size_t kMostOutput = 1 << 20;

struct Ended {
  int status = 0;
  bool isTooLate = false;
  std::string output;
};

StatusOr<Ended> runProgram(const std::vector<std::string>& arguments, int64_t limitSeconds) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return resourceExhausted(std::string("cannot make a pipe: ") + strerror(errno));
  std::vector<char*> raw;
  for (const std::string& argument : arguments) raw.push_back(const_cast<char*>(argument.c_str()));
  raw.push_back(nullptr);
  const pid_t child = ::fork();
  if (child < 0) {
    ::close(ends[0]), ::close(ends[1]);
    return resourceExhausted(std::string("cannot start a process: ") + strerror(errno));
  }
  if (child == 0) {
    ::setpgid(0, 0);
    ::dup2(ends[1], 1), ::dup2(ends[1], 2);
    ::execvp(raw[0], raw.data());
    ::_exit(127);
  }
  ::setpgid(child, child);
  ::close(ends[1]);
  Ended ended;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(limitSeconds);
  char buffer[4096];
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      ended.isTooLate = true;
      break;
    }
    pollfd readable{ends[0], POLLIN, 0};
    const int ready = ::poll(&readable, 1, static_cast<int>(std::min<int64_t>(left.count(), 1000)));
    if (ready < 0 && errno != EINTR) break;
    if (ready <= 0) continue;
    const ssize_t got = ::read(ends[0], buffer, sizeof buffer);
    if (got <= 0) break;
    if (ended.output.size() < kMostOutput) ended.output.append(buffer, static_cast<size_t>(got));
  }
  ::close(ends[0]);
  if (ended.isTooLate) ::kill(-child, SIGKILL);
  while (::waitpid(child, &ended.status, 0) < 0 && errno == EINTR) {
  }
  return ended;
}

/// For a shell, in single quotes.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

Predicate Predicate::ofCommand(std::string command) {
  Predicate made;
  made.command_ = std::move(command);
  return made;
}

Predicate Predicate::ofCompilation(std::string program, std::vector<std::string> options, std::string message) {
  Predicate made;
  made.program_ = std::move(program);
  made.options_ = std::move(options);
  made.message_ = std::move(message);
  return made;
}

StatusOr<bool> Predicate::fails(const std::string& bytes) {
  ++runs_;
  const std::string path = folder_ + "/candidate" + ending_;
  HPU_RETURN_IF_ERROR(base::writeFileAtomic(path, bytes.data(), bytes.size()));
  std::vector<std::string> arguments;
  if (!command_.empty()) {
    arguments = {"/bin/sh", "-c", command_ + " " + quoted(path)};
  } else {
    arguments = {program_, path, "--quiet", "-o", "/dev/null"};
    arguments.insert(arguments.end(), options_.begin(), options_.end());
  }
  HPU_ASSIGN(const Ended ended, runProgram(arguments, limitSeconds_));
  output_ = ended.output;
  const bool exited = WIFEXITED(ended.status);
  const int code = exited ? WEXITSTATUS(ended.status) : -1;
  if (code == 127) return notFound("'" + (command_.empty() ? program_ : command_) + "' cannot be run");
  if (!command_.empty()) return !ended.isTooLate && exited && code == 0;
  if (!message_.empty()) return exited && code != 0 && ended.output.find(message_) != std::string::npos;
  return ended.isTooLate || !exited || code == 3;
}

}  // namespace hpu::tools
