// SPDX-License-Identifier: Apache-2.0
#include "base/OptionNames.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace hpu::base {
namespace {

std::string tool(const std::string& message) {
  return inWordsOf(Reader::kCommandLine, message);
}
std::string python(const std::string& message) {
  return inWordsOf(Reader::kPython, message);
}

TEST(OptionNames, EachReaderReadsItsOwnWords) {
  struct Case {
    std::string cpp, written, tool, python;
  };
  const Case cases[] = {
      {optionName("precision"), "CompileOptions::precision", "--precision", "precision"},
      {optionValue("precision", "bf16"), "CompileOptions::precision = bf16", "--precision bf16", "precision=\"bf16\""},
      {optionValue("optLevel", "3"), "CompileOptions::optLevel = 3", "-O3", "opt_level=3"},
      {optionValue("searchEffort", "10"), "CompileOptions::searchEffort = 10", "--search-effort 10",
       "search_effort=10"},
      {optionEntries("dims", {{"batch", "SIZE"}, {"seq len", "8"}}),
       "CompileOptions::dims = {{\"batch\", SIZE}, {\"seq len\", 8}}", "--dim batch=SIZE --dim 'seq len'=8",
       "dims={\"batch\": SIZE, \"seq len\": 8}"},
      {optionShape("image", {"8", "SIZE"}), "CompileOptions::shapes = {{\"image\", {8, SIZE}}}", "--shape image=8xSIZE",
       "shapes={\"image\": (8, SIZE)}"},
      {optionShape("one", {"-1"}), "CompileOptions::shapes = {{\"one\", {-1}}}", "--shape one=-1",
       "shapes={\"one\": (-1,)}"},
      {optionShape("scalar", {}), "CompileOptions::shapes = {{\"scalar\", {}}}",
       "--shape scalar=", "shapes={\"scalar\": ()}"},
      {optionName("stopAfter"), "CompileOptions::stopAfter", "--stop-after", "hpu-compile --stop-after"},
      {supportedOpsCall(), "hpu::supportedOnnxOps()", "hpu-compile --list-ops", "openhpu.supported_ops()"},
      {"fromDlpack: ", "fromDlpack: ", "fromDlpack: ", "from_dlpack: "},
      {"toDlpack: ", "toDlpack: ", "toDlpack: ", "__dlpack__: "},
      {signCall(), "Recipe::signedWith", "hpu-compile --sign", "Recipe.signed_with"},
      {compileCall("", {optionValue("target", "gaudi3"), optionValue("cpu", "native")}),
       "hpu::compileFile(MODEL, CompileOptions::target = gaudi3, CompileOptions::cpu = native)",
       "hpu-compile MODEL --target gaudi3 --cpu native", "openhpu.compile(MODEL, target=\"gaudi3\", cpu=\"native\")"},
      {compileCall("my model.onnx"), "hpu::compileFile(\"my model.onnx\")", "hpu-compile 'my model.onnx'",
       "openhpu.compile(\"my model.onnx\")"},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(one.cpp, one.written);
    EXPECT_EQ(tool("do it with " + one.cpp + ", or not"), "do it with " + one.tool + ", or not");
    EXPECT_EQ(python("(" + one.cpp + ")" + one.cpp), "(" + one.python + ")" + one.python);
  }
}

TEST(OptionNames, NamesOfAModelMayHaveAnyCharacters) {
  const std::string text = optionEntries("dims", {{"a\"b\\c'd}, {", "2"}});
  EXPECT_EQ(tool(text), "--dim 'a\"b\\c'\\''d}, {'=2");
  EXPECT_EQ(python(text), "dims={\"a\\\"b\\\\c'd}, {\": 2}");
}

TEST(OptionNames, VeryManyEntriesAndLongNamesAreCut) {
  std::vector<OptionEntry> many(100, {"n", "SIZE"});
  EXPECT_TRUE(tool(optionEntries("dims", many)).ends_with("--dim n=SIZE ..."));
  EXPECT_TRUE(python(optionEntries("dims", many)).ends_with("\"n\": SIZE, ...}"));
  EXPECT_LT(optionEntries("dims", {100, {std::string(1 << 16, 'x'), "1"}}).size(), 2000u);
}

TEST(OptionNames, WhatIsNotUnderstoodStays) {
  for (const char* text :
       {"", "h", "Compile", "CompileOptions::", "CompileOptions::nothing = 5", "CompileOptions::dims = {{\"a",
        "CompileOptions::dims = ", "hpu::compileFile(", "hpu::compileFile(MODEL, 5)", "Recipe::load"}) {
    EXPECT_EQ(tool(text), text);
    EXPECT_EQ(python(text), text);
  }
  // Any part of a message, as clipping leaves it, and any damage.
  const std::string whole =
      "x " + optionEntries("dims", {{"batch", "SIZE"}}) + compileCall("a", {optionValue("cpu", "native")});
  std::mt19937 random(7);
  for (size_t begin = 0; begin < whole.size(); ++begin)
    for (size_t end = begin; end <= whole.size(); ++end) {
      std::string part = whole.substr(begin, end - begin);
      EXPECT_LE(tool(part).size(), part.size() + 20);
      if (!part.empty()) part[random() % part.size()] = static_cast<char>(random());
      EXPECT_LE(python(part).size(), part.size() + 20);
    }
}

}  // namespace
}  // namespace hpu::base
