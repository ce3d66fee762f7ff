// SPDX-License-Identifier: Apache-2.0
// OptionNames: how messages name the options of a compilation.
// The one thing to know: the libraries write the C++ API's names (`CompileOptions::dims = {{"batch", SIZE}}`), with the
// functions of this header; the tools and the Python package, whose users give the same options otherwise, pass each
// message through `inWordsOf` (`--dim batch=SIZE`, `dims={"batch": SIZE}`).
//
//   return invalidArgument(strCat("choose another ", optionName("precision"), " or ", optionName("target")));
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hpu::base {

/// "CompileOptions::precision". The field is one of the table in OptionNames.cpp.
std::string optionName(std::string_view field);
/// "CompileOptions::precision = bf16". The value is a word.
std::string optionValue(std::string_view field, std::string_view value);

/// The name of an input or a dimension, and its value: a word, or sizes in braces ("{8, SIZE}").
using OptionEntry = std::pair<std::string, std::string>;
/// "CompileOptions::dims = {{"batch", SIZE}, {"length", 8}}". Long names are clipped; of very many entries the last are
/// left out ("...").
std::string optionEntries(std::string_view field, const std::vector<OptionEntry>& entries);
/// "CompileOptions::shapes = {{"image", {8, SIZE}}}", the sizes as texts.
std::string optionShape(std::string_view input, const std::vector<std::string>& sizes);

/// The advice to compile: "hpu::compileFile("a.onnx", CompileOptions::target = gaudi2)", with options of optionValue().
/// An empty path is "MODEL".
std::string compileCall(std::string_view path, const std::vector<std::string>& options = {});
/// "hpu::supportedOnnxOps()".
std::string supportedOpsCall();
/// "Recipe::signedWith".
std::string signCall();

/// Those who read messages.
enum class Reader {
  kCommandLine,  ///< `--dim batch=SIZE`, quoted for a shell where that is needed.
  kPython,       ///< `dims={"batch": SIZE}`: parameters of openhpu.compile.
};

/// The message with options and calls as its reader gives them. What is not understood (what was cut short, say) stays
/// as it is. Any thread may call.
std::string inWordsOf(Reader reader, std::string_view message);

}  // namespace hpu::base
