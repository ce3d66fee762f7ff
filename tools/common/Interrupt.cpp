// SPDX-License-Identifier: Apache-2.0
#include "tools/common/Interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/Format.h"

namespace hpu::tools {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
/// Signals within this time are one request: timeout(1), and whoever signals a process and its group, send two.
constexpr int64_t kOneRequestNs = 250'000'000;

std::atomic<int> gSignal{0};
std::atomic<int64_t> gFirstNs{0};
std::atomic<const Interrupt*> gCurrent{nullptr};  // The innermost.
struct sigaction gBefore[std::size(kSignals)];
bool gTaken[std::size(kSignals)];

int64_t nowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void endNow(int signal) {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
  raise(signal);  // Takes effect when the handler returns, or at once outside of it.
}

std::atomic<int> gEndBy{0};

}  // namespace

void Interrupt::onSignal(int signal) {
  int error = errno;
  int none = 0;
  if (gSignal.compare_exchange_strong(none, signal)) {
    gFirstNs = nowNs();
    const Interrupt* current = gCurrent;
    if (current) (void)!write(STDERR_FILENO, current->message_.data(), current->message_.size());
  } else if (nowNs() - gFirstNs > kOneRequestNs) {
    endNow(signal);
  }
  errno = error;
}

Interrupt::Interrupt(const std::string& what, bool quiet) : outer_(gCurrent) {
  if (!quiet) message_ = "\ninterrupted: " + what + "; again to end at once\n";
  if (!outer_) gSignal = 0;
  gCurrent = this;
  if (outer_) return;  // Its handlers are there.
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    gTaken[i] = sigaction(kSignals[i], nullptr, &gBefore[i]) == 0 && gBefore[i].sa_handler != SIG_IGN;
    if (!gTaken[i]) continue;
    struct sigaction action = {};
    action.sa_handler = &Interrupt::onSignal;
    action.sa_flags = SA_RESTART;
    sigaction(kSignals[i], &action, nullptr);
  }
}

Interrupt::~Interrupt() {
  if (!outer_)
    for (size_t i = 0; i < std::size(kSignals); ++i)
      if (gTaken[i]) sigaction(kSignals[i], &gBefore[i], nullptr);
  gCurrent = outer_;
}

int Interrupt::signal() const {
  return gSignal;
}

StatusOr<AwaitedReader> AwaitedReader::of(const std::string& path, const Interrupt& interrupt) {
  struct stat info;
  // Open files by number are open already.
  if (path.starts_with("/dev/") || path.starts_with("/proc/")) return AwaitedReader(-1);
  while (::stat(path.c_str(), &info) == 0 && S_ISFIFO(info.st_mode)) {
    int fd = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) return AwaitedReader(fd);
    if (errno != ENXIO && errno != EINTR) break;  // Told by who writes.
    if (interrupt.signal() != 0)
      return cancelled(base::strCat("nobody had opened the pipe '", path, "' for reading when ",
                                    signalName(interrupt.signal()), " came"));
    constexpr timespec kPause{0, 20'000'000};
    nanosleep(&kPause, nullptr);
  }
  return AwaitedReader(-1);
}
AwaitedReader::AwaitedReader(AwaitedReader&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
AwaitedReader::~AwaitedReader() {
  if (fd_ >= 0) ::close(fd_);
}

std::string signalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

ExitCode endBySignal(int signal) {
  gEndBy = signal;
  return static_cast<ExitCode>(128 + signal);
}

ExitCode endInterrupted(Tool& tool, int signal, const std::string& what) {
  tool.json().set("interrupted", true).set("signal", signalName(signal));
  tool.note("interrupted by " + signalName(signal) + what);
  return endBySignal(signal);
}

namespace {
/// Registered first, it runs last: behind the end of a recording of HPU_TRACE, which the first device registers.
[[maybe_unused]] const int gRegistered = std::atexit([] {
  if (int signal = gEndBy) {
    fflush(nullptr);
    endNow(signal);
  }
});
}  // namespace

}  // namespace hpu::tools
