// SPDX-License-Identifier: Apache-2.0
#include "base/Grown.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace hpu::base {
namespace {

/// A struct of three releases: the program's may be any of them, the library's is the last.
struct First {
  std::string name = "none";
  int32_t size = 7;
};
struct Second {
  std::string name = "none";
  int32_t size = 7;
  std::vector<int> list{1, 2};
};
struct Third {
  std::string name = "none";
  int32_t size = 7;
  std::vector<int> list{1, 2};
  std::map<std::string, int> map;
  std::function<int()> call = [] { return 5; };
};

template <typename Old>
StatusOr<Grown<Third>> known(const Old& old) {
  return grown("Third", reinterpret_cast<const Third&>(old), sizeof(Old), &Third::name, &Third::size, &Third::list,
               &Third::map, &Third::call);
}

TEST(Grown, FieldsThatTheProgramDoesNotKnowHaveTheirDefaults) {
  // Memory of its own: a read beyond it is seen by AddressSanitizer.
  auto first = std::make_unique<First>();
  first->name = "a name that is not in the string itself";
  first->size = 9;
  auto now = known(*first);
  ASSERT_TRUE(now.ok()) << now.status().message();
  EXPECT_EQ((*now)->name, first->name);
  EXPECT_EQ((*now)->size, 9);
  EXPECT_EQ((*now)->list, (std::vector<int>{1, 2}));
  EXPECT_TRUE((*now)->map.empty());
  EXPECT_EQ((*now)->call(), 5);

  auto second = std::make_unique<Second>();
  second->list = {4};
  now = known(*second);
  ASSERT_TRUE(now.ok()) << now.status().message();
  EXPECT_EQ((*now)->name, "none");
  EXPECT_EQ((*now)->list, (std::vector<int>{4}));
  EXPECT_EQ((*now)->call(), 5);
}

TEST(Grown, OneThatIsCompleteIsTheProgramsOwn) {
  Third third;
  third.map["x"] = 1;
  auto now = known(third);
  ASSERT_TRUE(now.ok()) << now.status().message();
  EXPECT_EQ(&**now, &third);
}

TEST(Grown, AProgramOfANewerReleaseIsToldSo) {
  struct Fourth : Third {
    int64_t more = 0;
  } fourth;
  auto now = known(fourth);
  ASSERT_FALSE(now.ok());
  EXPECT_EQ(now.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(now.status().message().find("newer OpenHPU"), std::string::npos) << now.status().message();
}

}  // namespace
}  // namespace hpu::base
