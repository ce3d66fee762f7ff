// SPDX-License-Identifier: Apache-2.0
#include "base/Thread.h"

#include <gtest/gtest.h>
#include <immintrin.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

namespace hpu::base {
namespace {

/// The flags (proc(5), smaps) of the mapping with that address; empty where the kernel has none.
std::string flagsOf(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long long begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &begin, &end) == 2) inside = begin <= at && at < end;
    if (inside && line.rfind("VmFlags:", 0) == 0) return line + " ";
  }
  return {};
}

TEST(Thread, HasItsNameAndAStackOfSmallPages) {
  std::string name, flags;
  startThread("hpu-test", [&] {
    char text[16] = {};
    ::pthread_getname_np(::pthread_self(), text, sizeof text);
    name = text;
    flags = flagsOf(__builtin_frame_address(0));
  }).join();
  EXPECT_EQ(name, "hpu-test");
  std::ifstream hugePages("/sys/kernel/mm/transparent_hugepage/enabled");
  if (!hugePages || flags.empty()) GTEST_SKIP() << "a kernel without transparent huge pages";
  EXPECT_NE(flags.find(" nh "), std::string::npos) << flags;
}

TEST(Thread, LeavesSignalsToTheProgramFromItsFirstMoment) {
  // One that is pending for the process is delivered to any thread that does not block it.
  sigset_t usr1, before;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &usr1, &before), 0);
  static std::atomic<int> delivered;
  delivered = 0;
  struct sigaction count{}, old{};
  count.sa_handler = [](int) { ++delivered; };
  ASSERT_EQ(::sigaction(SIGUSR1, &count, &old), 0);
  ::kill(::getpid(), SIGUSR1);
  ASSERT_EQ(::pthread_sigmask(SIG_UNBLOCK, &usr1, nullptr), 0);
  EXPECT_EQ(delivered, 1);
  sigset_t mask;
  for (int i = 0; i < 20; ++i) startThread("hpu-test", [&] { ::pthread_sigmask(SIG_BLOCK, nullptr, &mask); }).join();
  for (int signal : {SIGINT, SIGTERM, SIGUSR1, SIGALRM, SIGPROF, SIGCHLD}) EXPECT_TRUE(sigismember(&mask, signal));
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT})
    EXPECT_FALSE(sigismember(&mask, signal)) << signal;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  EXPECT_FALSE(sigismember(&mask, SIGUSR1)) << "the program's thread keeps its own";
  ::sigaction(SIGUSR1, &old, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(Thread, ComputesAsIfItsMakerHadSetNothing) {
  const unsigned saved = _mm_getcsr();
  _mm_setcsr(0x1f80 | 0x8040 | 0x4000);  // FTZ, DAZ, round up.
  unsigned inside = 0;
  startThread("hpu-test", [&] { inside = _mm_getcsr(); }).join();
  _mm_setcsr(saved);
  EXPECT_EQ(inside & ~0x3fu, 0x1f80u);
}

TEST(Thread, TakesWhatCanOnlyBeMoved) {
  int got = 0;
  startThread("hpu-test", [value = std::make_unique<int>(7), &got] { got = *value; }).join();
  EXPECT_EQ(got, 7);
}

}  // namespace
}  // namespace hpu::base
