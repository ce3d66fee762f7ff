// SPDX-License-Identifier: Apache-2.0
#include "base/Settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

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

}  // namespace
}  // namespace hpu::settings
