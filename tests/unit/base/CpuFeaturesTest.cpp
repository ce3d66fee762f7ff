// SPDX-License-Identifier: Apache-2.0
#include "base/CpuFeatures.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace hpu::base {
namespace {

std::set<std::string> kernelFlags() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("flags", 0) != 0) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    std::set<std::string> flags;
    for (std::string word; words >> word;) flags.insert(word);
    return flags;
  }
  return {};
}

TEST(CpuFeatures, AgreeWithTheCompilersRuntime) {
  __builtin_cpu_init();
  const CpuLevel expected = __builtin_cpu_supports("x86-64-v4")   ? CpuLevel::kV4
                            : __builtin_cpu_supports("x86-64-v3") ? CpuLevel::kV3
                                                                  : CpuLevel::kBaseline;
  EXPECT_EQ(detectCpuLevel(), expected);
}

TEST(CpuFeatures, HaveAllThatTheKernelShows) {
  std::set<std::string> flags = kernelFlags();
  if (flags.empty()) GTEST_SKIP() << "no flags in /proc/cpuinfo";
  auto all = [&](std::initializer_list<const char*> names) {
    for (const char* name : names)
      if (!flags.count(name)) return false;
    return true;
  };
  // A kernel may leave flags out that programs can use (virtual machines do so with "abm").
  bool v3 = all({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"});
  bool v4 = v3 && all({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"});
  EXPECT_GE(detectCpuLevel(), v4 ? CpuLevel::kV4 : v3 ? CpuLevel::kV3 : CpuLevel::kBaseline);
}

TEST(CpuFeatures, SettingLowersTheLevelAndNeverRaisesIt) {
  setenv("HPU_MAX_CPU", "baseline", 1);
  EXPECT_EQ(usableCpuLevel().value(), CpuLevel::kBaseline);
  setenv("HPU_MAX_CPU", "x86-64-v3", 1);
  EXPECT_LE(usableCpuLevel().value(), CpuLevel::kV3);
  setenv("HPU_MAX_CPU", "x86-64-v4", 1);
  EXPECT_EQ(usableCpuLevel().value(), detectCpuLevel());
  setenv("HPU_MAX_CPU", "pentium", 1);
  EXPECT_EQ(usableCpuLevel().status().code(), StatusCode::kInvalidArgument);
  unsetenv("HPU_MAX_CPU");
  EXPECT_EQ(usableCpuLevel().value(), detectCpuLevel());
}

TEST(CpuFeatures, ModelNameHasNoPadding) {
  std::string name = cpuModelName();
  ASSERT_FALSE(name.empty());
  EXPECT_NE(name.front(), ' ');
  EXPECT_NE(name.back(), ' ');
}

}  // namespace
}  // namespace hpu::base
