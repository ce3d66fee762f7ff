// SPDX-License-Identifier: Apache-2.0
#include "tools/common/CompileFlags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hpu::tools {
namespace {

using ::testing::HasSubstr;
using Variants = std::vector<std::map<std::string, int64_t>>;

TEST(ParseSpecialize, CombinesTheSizesOfEachDimension) {
  EXPECT_EQ(parseSpecialize("seq=128").value(), (Variants{{{"seq", 128}}}));
  EXPECT_EQ(parseSpecialize("seq=128,512").value(), (Variants{{{"seq", 128}}, {{"seq", 512}}}));
  EXPECT_EQ(parseSpecialize("batch=1,seq=128").value(), (Variants{{{"batch", 1}, {"seq", 128}}}));
  EXPECT_EQ(parseSpecialize("batch=1,4,seq=128,512").value(), (Variants{{{"batch", 1}, {"seq", 128}},
                                                                        {{"batch", 1}, {"seq", 512}},
                                                                        {{"batch", 4}, {"seq", 128}},
                                                                        {{"batch", 4}, {"seq", 512}}}));
  EXPECT_EQ(parseSpecialize("past=0").value(), (Variants{{{"past", 0}}}));
}

TEST(ParseSpecialize, SaysWhatIsNoSize) {
  for (const char* text : {"", "seq", "128", "seq=", "seq=128,", "seq=a", "seq=-1", "seq=128,,512"})
    EXPECT_THAT(parseSpecialize(text).status().message(), HasSubstr("--specialize")) << text;
  EXPECT_THAT(parseSpecialize("seq=1,batch=2,seq=3").status().message(), HasSubstr("'seq' is named twice"));
  EXPECT_THAT(parseSpecialize("a=1,2,3,4,5,6,7,8,9,b=1,2,3,4,5,6,7,8").status().message(), HasSubstr("more than 64"));
}

}  // namespace
}  // namespace hpu::tools
