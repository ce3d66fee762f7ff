// SPDX-License-Identifier: Apache-2.0
#include "base/Thread.h"

#include <gtest/gtest.h>
#include <pthread.h>

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

TEST(Thread, TakesWhatCanOnlyBeMoved) {
  int got = 0;
  startThread("hpu-test", [value = std::make_unique<int>(7), &got] { got = *value; }).join();
  EXPECT_EQ(got, 7);
}

}  // namespace
}  // namespace hpu::base
