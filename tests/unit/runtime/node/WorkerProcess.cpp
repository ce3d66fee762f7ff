// SPDX-License-Identifier: Apache-2.0
#include "WorkerProcess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

extern char** environ;

namespace hpu::testing {
namespace {
constexpr int kDeadlineMs = 60000;
}  // namespace

WorkerProcess::WorkerProcess(const std::vector<std::string>& arguments, const std::vector<std::string>& environment) {
  int toWorker[2], fromWorker[2];
  if (::pipe2(toWorker, O_CLOEXEC) != 0 || ::pipe2(fromWorker, O_CLOEXEC) != 0) return;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, toWorker[0], 0);
  posix_spawn_file_actions_adddup2(&actions, fromWorker[1], 1);
  std::vector<std::string> words = {HPU_NODE_WORKER};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv, env;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<std::string> settings = environment;
  // Tests look into it and hit it with faults; what needs no consent comes first: the first of a name counts.
  settings.push_back("HPU_NODE_CONSENT=all");
  for (std::string& setting : settings) env.push_back(setting.data());
  for (char** entry = environ; *entry; ++entry) {
    std::string name = std::string(*entry).substr(0, std::string(*entry).find('=') + 1);
    bool replaced = false;
    for (const std::string& setting : environment) replaced |= setting.rfind(name, 0) == 0;
    if (!replaced) env.push_back(*entry);
  }
  env.push_back(nullptr);
  if (::posix_spawn(&pid_, HPU_NODE_WORKER, &actions, nullptr, argv.data(), env.data()) != 0) pid_ = -1;
  posix_spawn_file_actions_destroy(&actions);
  ::close(toWorker[0]);
  ::close(fromWorker[1]);
  in_ = toWorker[1];
  out_ = fromWorker[0];
  if (pid_ > 0) hello_ = readLine();
  if (std::sscanf(hello_.c_str(), "ready %d", &index_) != 1) index_ = -1;
}

WorkerProcess::~WorkerProcess() {
  if (pid_ > 0) kill();
  ::close(in_);
  ::close(out_);
}

std::string WorkerProcess::readLine() {
  while (true) {
    if (size_t end = pending_.find('\n'); end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return line;
    }
    pollfd event{out_, POLLIN, 0};
    if (::poll(&event, 1, kDeadlineMs) <= 0) return {};
    char buffer[4096];
    ssize_t count = ::read(out_, buffer, sizeof buffer);
    if (count <= 0) return {};
    pending_.append(buffer, static_cast<size_t>(count));
  }
}

std::string WorkerProcess::ask(const std::string& command) {
  std::string line = command + "\n";
  ::signal(SIGPIPE, SIG_IGN);
  if (::write(in_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) return {};
  return readLine();
}

void WorkerProcess::signal(int number) const {
  if (pid_ > 0) ::kill(pid_, number);
}

void WorkerProcess::stop() {
  signal(SIGSTOP);
  int status = 0;
  ::waitpid(pid_, &status, WUNTRACED);
}

int WorkerProcess::reap() {
  int status = 0;
  if (::waitpid(pid_, &status, 0) != pid_) return -1;
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void WorkerProcess::kill() {
  signal(SIGKILL);
  reap();
}

int WorkerProcess::quit() {
  ask("quit");
  return pid_ > 0 ? reap() : -1;
}

}  // namespace hpu::testing
