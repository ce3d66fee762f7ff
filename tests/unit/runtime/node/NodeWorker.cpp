// SPDX-License-Identifier: Apache-2.0
// A process that owns a device and does as it is told: one line of a command on stdin, one line of
// an answer on stdout. In the mode "run" it computes and checks all the time between commands.
//   node_worker [--index N] [--target NAME] [--run] [--own-network]
#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "TinyProgram.h"
#include "hpu/device.h"
#include "hpu/executable.h"
#include "hpu/stream.h"

namespace hpu {
namespace {

constexpr int64_t kCount = 50000;
constexpr int kPauseMs = 2;

struct Worker {
  Device device;
  Stream stream;
  Executable copy;
  Buffer in, out, marked;
  std::mt19937 random{std::random_device{}()};
  int64_t rounds = 0, wrong = 0;
  std::string failure;

  Status open(const DeviceOptions& options) {
    auto opened = Device::open(options);
    if (!opened.ok()) return opened.status();
    device = *opened;
    auto created = Stream::create(device);
    if (!created.ok()) return created.status();
    stream = *created;
    auto loaded = Executable::load(device, testing::toRecipe(testing::copyProgram(kCount, 2, options.target)));
    if (!loaded.ok()) return loaded.status();
    copy = *loaded;
    for (Buffer* buffer : {&in, &out, &marked}) {
      auto allocated = device.allocate(kCount * 4, "worker");
      if (!allocated.ok()) return allocated.status();
      *buffer = *allocated;
    }
    return okStatus();
  }

  void round() {
    std::vector<int32_t> data(kCount), result(kCount, -1);
    for (auto& x : data) x = static_cast<int32_t>(random());
    Status status = stream.copyToDevice(in, data.data(), kCount * 4);
    if (status.ok()) status = copy.launch(stream, {in}, {out});
    if (status.ok()) status = stream.copyToHost(result.data(), out, kCount * 4);
    if (status.ok()) status = stream.synchronize();
    ++rounds;
    if (status.ok() && data != result) status = internalError("wrong numbers");
    if (status.ok()) return;
    failure = status.message();
    ++wrong;
  }

  std::string fillMarked(int value) {
    std::vector<int32_t> data(kCount, value);
    Status status = stream.copyToDevice(marked, data.data(), kCount * 4);
    if (status.ok()) status = stream.synchronize();
    return status.ok() ? "at " + std::to_string(marked.address()) : "error " + status.message();
  }

  std::string readMarked() {
    std::vector<int32_t> data(kCount);
    Status status = stream.copyToHost(data.data(), marked, kCount * 4);
    if (status.ok()) status = stream.synchronize();
    return status.ok() ? std::to_string(data[0]) + " " + std::to_string(data[kCount - 1]) : "error " + status.message();
  }

  void close() {
    in = out = marked = Buffer();
    copy = Executable();
    stream = Stream();
    device = Device();
  }
};

int openDescriptors() {
  int count = -1;  // The one of the listing itself.
  DIR* folder = ::opendir("/proc/self/fd");
  while (::readdir(folder)) ++count;
  ::closedir(folder);
  return count - 2;  // "." and "..".
}

/// A child that does nothing until it is killed, and never execs.
std::string forkChild() {
  pid_t child = ::fork();
  if (child == 0) {
    ::close(0);
    ::close(1);
    while (true) ::pause();
  }
  return "child " + std::to_string(child);
}

void say(const std::string& line) {
  std::string text = line + "\n";
  if (::write(1, text.data(), text.size()) < 0) std::_Exit(2);
}

/// False: end.
bool obey(Worker& worker, const std::string& command) {
  if (command == "quit") {
    worker.close();
    say("bye");
    return false;
  }
  if (command == "check") {
    say("rounds " + std::to_string(worker.rounds) + " wrong " + std::to_string(worker.wrong) + " " + worker.failure);
  } else if (command == "round") {
    worker.failure.clear();
    worker.round();
    say(worker.failure.empty() ? "right" : worker.failure);
  } else if (command == "close") {
    worker.close();
    say("closed");
  } else if (command == "reset") {
    Status status = worker.device.reset();
    say(status.ok() ? "reset" : status.message());
  } else if (command == "fork") {
    say(forkChild());
  } else if (command == "starve" || command == "relax") {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = command == "starve" ? 3 : limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    say("done");
  } else if (command == "processor") {
    timespec now{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    say(std::to_string(now.tv_sec * 1000 + now.tv_nsec / 1000000));
  } else if (command == "descriptors") {
    say(std::to_string(openDescriptors()));
  } else if (command.rfind("mark ", 0) == 0) {
    say(worker.fillMarked(std::atoi(command.c_str() + 5)));
  } else if (command == "read") {
    say(worker.readMarked());
  } else {
    say("error unknown command");
  }
  return true;
}

int run(int argc, char** argv) {
  DeviceOptions options;
  options.hbmBytes = 64 << 20;
  bool always = false;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--run") always = true;
    if (word == "--own-network" && ::unshare(CLONE_NEWNET) != 0) {
      say("error no network namespace");
      return 1;
    }
    if (word == "--index" && i + 1 < argc) options.index = std::atoi(argv[++i]);
    if (word == "--target" && i + 1 < argc) options.target = parseTarget(argv[++i]).value();
  }
  Worker worker;
  Status status = worker.open(options);
  if (!status.ok()) {
    say("error " + std::string(statusCodeName(status.code())) + " " + status.message());
    return 1;
  }
  say("ready " + std::to_string(worker.device.info().index));
  std::string pending;
  while (true) {
    if (always) worker.round();
    pollfd event{0, POLLIN, 0};
    if (::poll(&event, 1, always ? kPauseMs : -1) <= 0) continue;
    char buffer[256];
    ssize_t count = ::read(0, buffer, sizeof buffer);
    if (count <= 0) return 0;
    pending.append(buffer, static_cast<size_t>(count));
    for (size_t end; (end = pending.find('\n')) != std::string::npos; pending.erase(0, end + 1))
      if (!obey(worker, pending.substr(0, end))) return worker.wrong == 0 ? 0 : 1;
  }
}

}  // namespace
}  // namespace hpu

int main(int argc, char** argv) {
  return hpu::run(argc, argv);
}
