// SPDX-License-Identifier: Apache-2.0
#include "base/Settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "TemporaryFolder.h"

namespace hpu::settings {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Sets a variable for a scope.
class Env {
 public:
  Env(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Env() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST(Settings, DefaultsAreValidAndNamesUnique) {
  std::set<std::string_view> names;
  for (const Info& entry : all()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_FALSE(entry.sentence.empty());
    EXPECT_FALSE(entry.scope.empty());
    EXPECT_NE(entry.sentence.back(), '.') << "helpText adds the full stop: " << entry.name;
    unsetenv(entry.name.data());
  }
  EXPECT_TRUE(checkAll().ok()) << checkAll().message();
}

TEST(Settings, BytesTakeSuffixes) {
  EXPECT_EQ(getInt(Setting::HPU_SIM_HBM_BYTES).value(), 0);
  Env env("HPU_SIM_HBM_BYTES", "64M");
  EXPECT_TRUE(isSet(Setting::HPU_SIM_HBM_BYTES));
  EXPECT_EQ(getInt(Setting::HPU_SIM_HBM_BYTES).value(), 64 << 20);
}

TEST(Settings, BadValueNamesVariableValueAndWhatIsValid) {
  Env env("HPU_NUM_THREADS", "many");
  Status status = getInt(Setting::HPU_NUM_THREADS).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("HPU_NUM_THREADS=many"));
  EXPECT_THAT(status.message(), HasSubstr("whole number"));
  Env negative("HPU_WAIT_TIMEOUT_MS", "-5");
  EXPECT_FALSE(getInt(Setting::HPU_WAIT_TIMEOUT_MS).ok());
}

TEST(Settings, ChoiceIsCheckedAgainstItsList) {
  EXPECT_EQ(getString(Setting::HPU_LOG_LEVEL).value(), "warning");
  Env good("HPU_LOG_LEVEL", "debug");
  EXPECT_EQ(getString(Setting::HPU_LOG_LEVEL).value(), "debug");
  Env bad("HPU_LOG_LEVEL", "debu");
  EXPECT_THAT(getString(Setting::HPU_LOG_LEVEL).status().message(),
              HasSubstr("one of warning|off|error|info|debug|trace"));
}

TEST(Settings, AllBadOnesAreReportedTogether) {
  Env a("HPU_LOG_LEVEL", "loud");
  Env b("HPU_NUM_THREADS", "x");
  Status status = checkAll();
  EXPECT_THAT(status.message(), HasSubstr("HPU_LOG_LEVEL=loud"));
  EXPECT_THAT(status.message(), HasSubstr("HPU_NUM_THREADS=x"));
}

TEST(Settings, EmptyCountsAsUnset) {
  Env env("HPU_NUM_THREADS", "");
  EXPECT_FALSE(isSet(Setting::HPU_NUM_THREADS));
  EXPECT_EQ(getInt(Setting::HPU_NUM_THREADS).value(), 0);
}

TEST(Settings, WrongGetterIsABugAndSaysSo) {
  EXPECT_EQ(getBool(Setting::HPU_NUM_THREADS).status().code(), StatusCode::kInternal);
  EXPECT_EQ(getInt(Setting::HPU_LOG_LEVEL).status().code(), StatusCode::kInternal);
}

TEST(Settings, HelpAndTableListEverySetting) {
  std::string help = helpText(), table = markdownTable();
  for (const Info& entry : all()) {
    EXPECT_THAT(help, HasSubstr(std::string(entry.name)));
    EXPECT_THAT(table, HasSubstr("`" + std::string(entry.name) + "`"));
  }
  EXPECT_THAT(table, Not(HasSubstr("off|error")));
}

TEST(Settings, AProgramMayGiveAValueInPlaceOfTheEnvironment) {
  ASSERT_TRUE(settings::find("HPU_CACHE_BYTES").ok());
  Setting setting = *settings::find("HPU_CACHE_BYTES");
  EXPECT_EQ(setting, Setting::HPU_CACHE_BYTES);
  setenv("HPU_CACHE_BYTES", "1K", 1);
  ASSERT_TRUE(settings::set(setting, "2K").ok());
  EXPECT_EQ(*settings::getInt(setting), 2048);
  EXPECT_EQ(settings::set(setting, "much").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(*settings::getInt(setting), 2048) << "a bad value changed it";
  ASSERT_TRUE(settings::set(setting, "").ok());
  EXPECT_EQ(*settings::getInt(setting), 1024);
  unsetenv("HPU_CACHE_BYTES");
  EXPECT_FALSE(settings::isSet(setting));
  EXPECT_EQ(settings::find("HPU_NO_SUCH").status().code(), StatusCode::kNotFound);
}

/// What the next test starts with more rights than its caller's.
TEST(Settings, DISABLED_SayWhatTheEnvironmentGives) {
  for (Setting setting : {Setting::HPU_SYNAPSE_COMPILER, Setting::HPU_CACHE, Setting::HPU_TRACE,
                          Setting::HPU_PROFILE_DIR, Setting::HPU_RECIPE_KEYS, Setting::HPU_COMM_TUNER_TABLE,
                          Setting::HPU_COMM_FABRIC, Setting::HPU_COMM_ROCE_PCAP, Setting::HPU_NODE})
    std::printf("%s=%s\n", settings::info(setting).name.data(), settings::rawText(setting).c_str());
  // LeakSanitizer cannot look at a process that may not be traced, and makes that an error when it ends.
  std::fflush(stdout);
  if (::getauxval(AT_SECURE) != 0) ::_exit(0);
}

TEST(Settings, WhatLoadsCodeOrWritesFilesIsNotTakenFromACallerWithFewerRights) {
  if (::geteuid() != 0) GTEST_SKIP() << "a set-user-ID program: needs root, to make one";
  base::TemporaryFolder folder;
  const std::string program = folder.file("setuid");
  std::error_code error;
  std::filesystem::copy_file("/proc/self/exe", program, error);
  ASSERT_FALSE(error) << error.message();
  const std::string in = program.substr(0, program.rfind('/'));
  ASSERT_EQ(::chmod(in.c_str(), 0755), 0);
  ASSERT_EQ(::chown(program.c_str(), 61001, 61001), 0);
  ASSERT_EQ(::chmod(program.c_str(), 04755), 0);
  int out[2];
  ASSERT_EQ(::pipe(out), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(out[1], 1);
    for (const char* name : {"HPU_SYNAPSE_COMPILER", "HPU_CACHE", "HPU_TRACE", "HPU_PROFILE_DIR", "HPU_RECIPE_KEYS",
                             "HPU_COMM_TUNER_TABLE", "HPU_COMM_FABRIC", "HPU_COMM_ROCE_PCAP", "HPU_NODE"})
      ::setenv(name, "evil", 1);
    if (::setresgid(61002, 61002, 61002) != 0 || ::setresuid(61002, 61002, 61002) != 0) ::_exit(98);
    ::execl(program.c_str(), program.c_str(), "--gtest_also_run_disabled_tests",
            "--gtest_filter=Settings.DISABLED_SayWhatTheEnvironmentGives", static_cast<char*>(nullptr));
    ::_exit(97);
  }
  ::close(out[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = ::read(out[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(got));
  ::close(out[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 97) GTEST_SKIP() << "set-user-ID programs do not start here";
  ASSERT_EQ(status, 0) << text;
  if (text.find("HPU_NODE=evil") == std::string::npos) GTEST_SKIP() << "the folder is mounted without set-user-ID";
  for (const char* name : {"HPU_SYNAPSE_COMPILER", "HPU_CACHE", "HPU_TRACE", "HPU_PROFILE_DIR", "HPU_RECIPE_KEYS",
                           "HPU_COMM_TUNER_TABLE", "HPU_COMM_FABRIC", "HPU_COMM_ROCE_PCAP"})
    EXPECT_EQ(text.find(std::string(name) + "=evil"), std::string::npos) << text;
}

}  // namespace
}  // namespace hpu::settings
