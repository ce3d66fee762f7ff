// SPDX-License-Identifier: Apache-2.0
#include "base/OptionNames.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/Clip.h"
#include "base/Format.h"

namespace hpu::base {
namespace {

constexpr std::string_view kOptions = "CompileOptions::", kCompile = "hpu::compileFile(", kModel = "MODEL";

/// A field of hpu::CompileOptions in other front ends.
struct Row {
  std::string_view field;
  std::string_view flag;    ///< Of hpu-compile.
  std::string_view python;  ///< The parameter of openhpu.compile; empty: it has none.
  bool isText = false;      ///< A single value is a string in Python.
};
constexpr std::array kRows = {
    Row{"target", "--target", "target", true},
    Row{"precision", "--precision", "precision", true},
    Row{"optLevel", "-O", "opt_level"},
    Row{"shapes", "--shape", "shapes"},
    Row{"dims", "--dim", "dims"},
    Row{"states", "--state", "states"},
    Row{"dimBounds", "--dim", ""},
    Row{"specialize", "--specialize", ""},
    Row{"searchEffort", "--search-effort", "search_effort"},
    Row{"unrollLimit", "--unroll-limit", "unroll_limit"},
    Row{"plugins", "--plugin", "plugins", true},
    Row{"stopAfter", "--stop-after", "", true},
    Row{"startFrom", "--start-from", "", true},
    Row{"dumpDir", "--dump-phases", "", true},
    Row{"dumpConstants", "--dump-constants", ""},
    Row{"reports", "--report", "reports", true},
    Row{"cacheDir", "--cache", "cache", true},
    Row{"cpu", "--cpu", "cpu", true},
    Row{"explain", "--explain", "explain", true},
    Row{"keepF32", "--keep-f32", "keep_f32", true},
    Row{"ranges", "--calibrate", "ranges"},
};

/// Calls without arguments that matter, and functions that messages begin with.
struct Call {
  std::string_view cpp, tool, python;
};
constexpr Call kSupportedOps = {"hpu::supportedOnnxOps()", "hpu-compile --list-ops", "openhpu.supported_ops()"};
constexpr Call kSign = {"Recipe::signedWith", "hpu-compile --sign", "Recipe.signed_with"};
constexpr Call kFromDlpack = {"fromDlpack: ", "fromDlpack: ", "from_dlpack: "};
constexpr Call kToDlpack = {"toDlpack: ", "toDlpack: ", "__dlpack__: "};

const Row* rowOf(std::string_view field) {
  auto row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& one) { return one.field == field; });
  return row == kRows.end() ? nullptr : &*row;
}

/// In double quotes, as C++ and Python have them.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string forShell(std::string_view text) {
  const auto isPlain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-./:+,@%").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), isPlain)) return std::string(text);
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// What is left of a message; each function takes its piece, or nothing.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : left_(text) {}
  std::string_view left() const { return left_; }

  bool take(std::string_view piece) {
    if (!left_.starts_with(piece)) return false;
    left_.remove_prefix(piece.size());
    return true;
  }
  std::string_view word() {
    size_t size = 0;
    const auto isWord = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    };
    while (size < left_.size() && isWord(left_[size])) ++size;
    std::string_view found = left_.substr(0, size);
    left_.remove_prefix(size);
    return found;
  }
  std::optional<std::string> string() {
    if (!left_.starts_with('"')) return std::nullopt;
    std::string text;
    for (size_t i = 1; i < left_.size(); ++i) {
      if (left_[i] == '"') {
        left_.remove_prefix(i + 1);
        return text;
      }
      if (left_[i] == '\\' && i + 1 < left_.size()) ++i;
      text += left_[i];
    }
    return std::nullopt;
  }

 private:
  std::string_view left_;
};

struct Entry {
  std::string name;
  std::vector<std::string_view> values;
  bool isShape = false;
};

struct Option {
  const Row* row = nullptr;
  std::string_view value;  ///< Empty: none.
  std::vector<Entry> entries;
  bool isCut = false;  ///< There are more entries.
};

/// `{"name", 8}` or `{"name", {8, SIZE}}`.
std::optional<Entry> takeEntry(Scanner& scanner) {
  Entry entry;
  if (!scanner.take("{")) return std::nullopt;
  std::optional<std::string> name = scanner.string();
  if (!name || !scanner.take(", ")) return std::nullopt;
  entry.name = std::move(*name);
  entry.isShape = scanner.take("{");
  if (!entry.isShape || !scanner.take("}")) {
    do {
      std::string_view value = scanner.word();
      if (value.empty()) return std::nullopt;
      entry.values.push_back(value);
    } while (entry.isShape && scanner.take(", "));
    if (entry.isShape && !scanner.take("}")) return std::nullopt;
  }
  if (!scanner.take("}")) return std::nullopt;
  return entry;
}

std::optional<Option> takeOption(Scanner& scanner) {
  Option option;
  if (!scanner.take(kOptions)) return std::nullopt;
  option.row = rowOf(scanner.word());
  if (!option.row) return std::nullopt;
  if (!scanner.take(" = ")) return option;
  if (!scanner.take("{")) {
    option.value = scanner.word();
    return option.value.empty() ? std::nullopt : std::optional(option);
  }
  do {
    option.isCut = scanner.take("...");
    if (option.isCut) break;
    std::optional<Entry> entry = takeEntry(scanner);
    if (!entry) return std::nullopt;
    option.entries.push_back(std::move(*entry));
  } while (scanner.take(", "));
  return scanner.take("}") ? std::optional(option) : std::nullopt;
}

std::string joined(const std::vector<std::string_view>& values, std::string_view separator) {
  std::string text;
  for (std::string_view value : values) text += strCat(text.empty() ? "" : separator, value);
  return text;
}

std::string forCommandLine(const Option& option) {
  const std::string flag(option.row->flag);
  if (!option.value.empty()) return flag + (flag.starts_with("--") ? " " : "") + std::string(option.value);
  std::string text;
  for (const Entry& entry : option.entries)
    text += strCat(text.empty() ? "" : " ", flag, " ", forShell(entry.name), "=", joined(entry.values, "x"));
  if (text.empty()) return flag;
  return option.isCut ? text + " ..." : text;
}

std::string forPython(const Option& option) {
  if (option.row->python.empty()) return "hpu-compile " + forCommandLine(option);
  const std::string name(option.row->python);
  if (!option.value.empty())
    return name + "=" + (option.row->isText ? quoted(option.value) : std::string(option.value));
  if (option.entries.empty()) return name;
  std::string text;
  for (const Entry& entry : option.entries) {
    std::string value = joined(entry.values, ", ");
    if (entry.isShape) value = "(" + value + (entry.values.size() == 1 ? ",)" : ")");
    text += strCat(text.empty() ? "" : ", ", quoted(entry.name), ": ", value);
  }
  return strCat(name, "={", text, option.isCut ? ", ...}" : "}");
}

std::string inWordsOf(Reader reader, const Option& option) {
  return reader == Reader::kPython ? forPython(option) : forCommandLine(option);
}

/// `hpu::compileFile("a.onnx", CompileOptions::target = gaudi2)`.
std::optional<std::string> takeCompileCall(Scanner& scanner, Reader reader) {
  if (!scanner.take(kCompile)) return std::nullopt;
  const bool python = reader == Reader::kPython;
  std::string text = python ? "openhpu.compile(" : "hpu-compile ";
  if (scanner.take(kModel)) {
    text += kModel;
  } else {
    std::optional<std::string> path = scanner.string();
    if (!path) return std::nullopt;
    text += python ? quoted(*path) : forShell(*path);
  }
  while (scanner.take(", ")) {
    std::optional<Option> option = takeOption(scanner);
    if (!option) return std::nullopt;
    text += (python ? ", " : " ") + inWordsOf(reader, *option);
  }
  if (!scanner.take(")")) return std::nullopt;
  return python ? text + ")" : text;
}

/// What begins here, in the reader's words.
std::optional<std::string> takePiece(Scanner& scanner, Reader reader) {
  for (const Call& call : {kSupportedOps, kSign, kFromDlpack, kToDlpack})
    if (scanner.take(call.cpp)) return std::string(reader == Reader::kPython ? call.python : call.tool);
  if (scanner.left().starts_with(kCompile)) return takeCompileCall(scanner, reader);
  std::optional<Option> option = takeOption(scanner);
  return option ? std::optional(inWordsOf(reader, *option)) : std::nullopt;
}

}  // namespace

std::string optionName(std::string_view field) {
  return strCat(kOptions, field);
}

std::string optionValue(std::string_view field, std::string_view value) {
  return strCat(kOptions, field, " = ", value);
}

std::string optionEntries(std::string_view field, const std::vector<OptionEntry>& entries) {
  constexpr size_t kMost = 64, kMostBytes = 800;  // Of a model that may be damaged or hostile.
  std::string text;
  size_t i = 0;
  for (; i < std::min(entries.size(), kMost) && text.size() < kMostBytes; ++i)
    text += strCat(i ? ", " : "", "{", quoted(clipped(entries[i].first)), ", ", entries[i].second, "}");
  return strCat(kOptions, field, " = {", text, i < entries.size() ? ", ...}" : "}");
}

std::string optionShape(std::string_view input, const std::vector<std::string>& sizes) {
  return optionEntries("shapes", {{std::string(input), "{" + join(sizes) + "}"}});
}

std::string compileCall(std::string_view path, const std::vector<std::string>& options) {
  std::string text = strCat(kCompile, path.empty() ? std::string(kModel) : quoted(path));
  for (const std::string& option : options) text += ", " + option;
  return text + ")";
}

std::string supportedOpsCall() {
  return std::string(kSupportedOps.cpp);
}

std::string signCall() {
  return std::string(kSign.cpp);
}

std::string inWordsOf(Reader reader, std::string_view message) {
  std::string text;
  text.reserve(message.size());
  while (!message.empty()) {
    // All pieces begin with one of these letters.
    const size_t next = message.find_first_of("CRhft");
    text += message.substr(0, next);
    if (next == std::string_view::npos) break;
    message.remove_prefix(next);
    Scanner scanner(message);
    if (std::optional<std::string> piece = takePiece(scanner, reader)) {
      text += *piece;
      message = scanner.left();
    } else {
      text += message.front();
      message.remove_prefix(1);
    }
  }
  return text;
}

}  // namespace hpu::base
