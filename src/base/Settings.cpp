// SPDX-License-Identifier: Apache-2.0
#include "base/Settings.h"

#include <cstdlib>

#include "base/Format.h"
#include "base/StatusMacros.h"

namespace hpu::settings {
namespace {

constexpr Info make(std::string_view name, Type type, std::string_view value,
                    std::string_view scope, std::string_view sentence) {
  Info result{name, type, value, {}, scope, sentence};
  if (type == Type::kChoice) {
    result.choices = value;
    result.defaultText = value.substr(0, value.find('|'));
  }
  return result;
}

bool isChoice(std::string_view choices, std::string_view value) {
  while (true) {
    size_t bar = choices.find('|');
    if (choices.substr(0, bar) == value) return true;
    if (bar == std::string_view::npos) return false;
    choices.remove_prefix(bar + 1);
  }
}

Status bad(const Info& info, std::string_view text, std::string_view expected) {
  return invalidArgument(base::strCat(info.name, "=", text, " is not valid: expected ", expected,
                                      " (", info.sentence, ")"));
}

Status wrongGetter(const Info& info, std::string_view getter) {
  return internalError(base::strCat(info.name, " is a ", typeName(info.type),
                                    " setting and was read with ", getter));
}

Status check(Setting setting) {
  switch (info(setting).type) {
    case Type::kInt:
    case Type::kBytes:
      return getInt(setting).status();
    case Type::kBool:
      return getBool(setting).status();
    case Type::kString:
    case Type::kChoice:
      return getString(setting).status();
  }
  return okStatus();
}

std::string shownDefault(const Info& info) {
  return info.defaultText.empty() ? "(empty)" : std::string(info.defaultText);
}

}  // namespace

const std::vector<Info>& all() {
  // Never destroyed: worker threads read settings while the process ends.
  static const auto* list = new std::vector<Info>{
#define HPU_SETTING(name, type, value, scope, sentence) \
  make(#name, Type::type, value, scope, sentence),
#include "base/Settings.def"
#undef HPU_SETTING
  };
  return *list;
}

const Info& info(Setting setting) {
  return all()[static_cast<size_t>(setting)];
}

std::string_view typeName(Type type) {
  switch (type) {
    case Type::kInt:
      return "int";
    case Type::kBytes:
      return "bytes";
    case Type::kBool:
      return "bool";
    case Type::kString:
      return "string";
    case Type::kChoice:
      return "choice";
  }
  return "unknown";
}

bool isSet(Setting setting) {
  const char* text = std::getenv(info(setting).name.data());
  return text && *text;
}

std::string rawText(Setting setting) {
  const char* text = std::getenv(info(setting).name.data());
  return text && *text ? std::string(text) : std::string(info(setting).defaultText);
}

StatusOr<int64_t> getInt(Setting setting) {
  const Info& entry = info(setting);
  std::string text = rawText(setting);
  if (entry.type == Type::kBytes) {
    auto bytes = base::parseBytes(text);
    if (!bytes.ok()) return bad(entry, text, "a number of bytes such as 4096, 512M or 2G");
    return *bytes;
  }
  if (entry.type != Type::kInt) return wrongGetter(entry, "getInt");
  auto value = base::parseInt(text);
  if (!value.ok() || *value < 0) return bad(entry, text, "a whole number that is not negative");
  return *value;
}

StatusOr<bool> getBool(Setting setting) {
  const Info& entry = info(setting);
  if (entry.type != Type::kBool) return wrongGetter(entry, "getBool");
  std::string text = rawText(setting);
  if (text == "1" || text == "true" || text == "on" || text == "yes") return true;
  if (text == "0" || text == "false" || text == "off" || text == "no") return false;
  return bad(entry, text, "1 or 0 (true/false, on/off, yes/no)");
}

StatusOr<std::string> getString(Setting setting) {
  const Info& entry = info(setting);
  std::string text = rawText(setting);
  if (entry.type == Type::kString) return text;
  if (entry.type != Type::kChoice) return wrongGetter(entry, "getString");
  if (!isChoice(entry.choices, text))
    return bad(entry, text, base::strCat("one of ", entry.choices));
  return text;
}

Status checkAll() {
  std::string problems;
  for (size_t i = 0; i < all().size(); ++i) {
    Status status = check(static_cast<Setting>(i));
    if (status.ok()) continue;
    if (!problems.empty()) problems += '\n';
    problems += status.message();
  }
  return problems.empty() ? okStatus() : invalidArgument(problems);
}

std::string helpText() {
  std::string text;
  for (const Info& entry : all()) {
    std::string left = base::strCat("  ", entry.name, " (", typeName(entry.type), ", default ",
                                    shownDefault(entry), ")");
    text +=
        base::strCat(left, "\n      ", entry.sentence,
                     entry.choices.empty() ? "" : base::strCat("; one of ", entry.choices), ".\n");
  }
  return text;
}

std::string markdownTable() {
  std::string text = "| setting | type | default | read by | meaning |\n|---|---|---|---|---|\n";
  for (const Info& entry : all()) {
    std::string choices;
    for (char c : entry.choices) choices += c == '|' ? std::string(", ") : std::string(1, c);
    text += base::strCat("| `", entry.name, "` | ", typeName(entry.type), " | ",
                         shownDefault(entry), " | ", entry.scope, " | ", entry.sentence,
                         choices.empty() ? "" : base::strCat("; one of ", choices), " |\n");
  }
  return text;
}

}  // namespace hpu::settings
