// SPDX-License-Identifier: Apache-2.0
#include "base/Settings.h"

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <shared_mutex>

#include "base/AtFork.h"
#include "base/Format.h"
#include "base/StatusMacros.h"

namespace hpu::settings {
namespace {

constexpr Info make(std::string_view name, Type type, std::string_view value, std::string_view scope,
                    std::string_view sentence) {
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
  return invalidArgument(
      base::strCat(info.name, "=", text, " is not valid: expected ", expected, " (", info.sentence, ")"));
}

Status wrongGetter(const Info& info, std::string_view getter) {
  return internalError(base::strCat(info.name, " is a ", typeName(info.type), " setting and was read with ", getter));
}

StatusOr<int64_t> parseNumber(const Info& entry, const std::string& text) {
  if (entry.type == Type::kBytes) {
    auto bytes = base::parseBytes(text);
    if (!bytes.ok()) return bad(entry, text, "a number of bytes such as 4096, 512M or 2G");
    return *bytes;
  }
  auto value = base::parseInt(text);
  if (!value.ok() || *value < 0) return bad(entry, text, "a whole number that is not negative");
  return *value;
}

StatusOr<bool> parseBool(const Info& entry, const std::string& text) {
  std::string lower = text;
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  if (lower == "1" || lower == "true" || lower == "on" || lower == "yes") return true;
  if (lower == "0" || lower == "false" || lower == "off" || lower == "no") return false;
  return bad(entry, text, "1 or 0 (true/false, on/off, yes/no)");
}

Status checkText(Setting setting, const std::string& text) {
  const Info& entry = info(setting);
  switch (entry.type) {
    case Type::kInt:
    case Type::kBytes:
      return parseNumber(entry, text).status();
    case Type::kBool:
      return parseBool(entry, text).status();
    case Type::kChoice:
      return isChoice(entry.choices, text) ? okStatus() : bad(entry, text, base::strCat("one of ", entry.choices));
    case Type::kString:
      return okStatus();
  }
  return okStatus();
}

/// What set() gave. The flag keeps programs that never call it off the lock.
struct Overrides {
  std::atomic<bool> any{false};
  std::shared_mutex mutex;  // Guards texts.
  std::map<Setting, std::string> texts;
};
Overrides& overrides();

// As a reader, so that a fork waits for writers alone; the child has no other threads, whose reading
// it forgets.
void prepareFork() {
  overrides().mutex.lock_shared();
}
void parentAfterFork() {
  overrides().mutex.unlock_shared();
}
void childAfterFork() {
  new (&overrides().mutex) std::shared_mutex;
}

Overrides& overrides() {
  static auto* instance = [] {
    static constexpr base::ForkHandlers kHandlers = {prepareFork, parentAfterFork, childAfterFork};
    base::atFork(base::ForkRank::kSettings, kHandlers);
    return new Overrides;
  }();
  return *instance;
}

/// Those that decide what code is loaded, or which files are read (errors quote them) or written: of a program that has
/// more rights than whoever started it (set-user-ID, capabilities), the environment does not give them. set() does.
bool guarded(Setting setting) {
  switch (setting) {
    case Setting::HPU_SYNAPSE_COMPILER:
    case Setting::HPU_CACHE:
    case Setting::HPU_TRACE:
    case Setting::HPU_PROFILE_DIR:
    case Setting::HPU_RECIPE_KEYS:
    case Setting::HPU_COMM_TUNER_TABLE:
    case Setting::HPU_COMM_FABRIC:
    case Setting::HPU_COMM_ROCE_PCAP:
      return true;
    default:
      return false;
  }
}

/// The text that was given in this process or by the environment; empty when neither.
std::string givenText(Setting setting) {
  Overrides& own = overrides();
  if (own.any.load(std::memory_order_acquire)) {
    std::shared_lock lock(own.mutex);
    auto found = own.texts.find(setting);
    if (found != own.texts.end()) return found->second;
  }
  const char* name = info(setting).name.data();
  const char* text = guarded(setting) ? ::secure_getenv(name) : std::getenv(name);
  return text ? text : "";
}

std::string shownDefault(const Info& info) {
  return info.defaultText.empty() ? "(empty)" : std::string(info.defaultText);
}

}  // namespace

const std::vector<Info>& all() {
  // Never destroyed: worker threads read settings while the process ends.
  static const auto* list = new std::vector<Info>{
#define HPU_SETTING(name, type, value, scope, sentence) make(#name, Type::type, value, scope, sentence),
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

StatusOr<Setting> find(std::string_view name) {
  for (size_t i = 0; i < all().size(); ++i)
    if (all()[i].name == name) return static_cast<Setting>(i);
  return notFound(base::strCat("there is no setting ", name));
}

Status set(Setting setting, std::string_view text) {
  Overrides& own = overrides();
  std::unique_lock lock(own.mutex);
  if (text.empty()) {
    own.texts.erase(setting);
    return okStatus();
  }
  if (Status status = checkText(setting, std::string(text)); !status.ok()) return status;
  own.texts[setting] = text;
  own.any.store(true, std::memory_order_release);
  return okStatus();
}

bool isSet(Setting setting) {
  return !givenText(setting).empty();
}

std::string rawText(Setting setting) {
  std::string text = givenText(setting);
  return text.empty() ? std::string(info(setting).defaultText) : text;
}

StatusOr<int64_t> getInt(Setting setting) {
  const Info& entry = info(setting);
  if (entry.type != Type::kInt && entry.type != Type::kBytes) return wrongGetter(entry, "getInt");
  return parseNumber(entry, rawText(setting));
}

StatusOr<bool> getBool(Setting setting) {
  const Info& entry = info(setting);
  if (entry.type != Type::kBool) return wrongGetter(entry, "getBool");
  return parseBool(entry, rawText(setting));
}

StatusOr<std::string> getString(Setting setting) {
  const Info& entry = info(setting);
  if (entry.type != Type::kString && entry.type != Type::kChoice) return wrongGetter(entry, "getString");
  std::string text = rawText(setting);
  if (Status status = checkText(setting, text); !status.ok()) return status;
  return text;
}

Status checkAll() {
  std::string problems;
  for (size_t i = 0; i < all().size(); ++i) {
    auto setting = static_cast<Setting>(i);
    Status status = checkText(setting, rawText(setting));
    if (status.ok()) continue;
    if (!problems.empty()) problems += '\n';
    problems += status.message();
  }
  return problems.empty() ? okStatus() : invalidArgument(problems);
}

std::string helpText() {
  std::string text;
  for (const Info& entry : all()) {
    std::string left =
        base::strCat("  ", entry.name, " (", typeName(entry.type), ", default ", shownDefault(entry), ")");
    text += base::strCat(left, "\n      ", entry.sentence,
                         entry.choices.empty() ? "" : base::strCat("; one of ", entry.choices), ".\n");
  }
  return text;
}

std::string markdownTable() {
  std::string text = "| setting | type | default | read by | meaning |\n|---|---|---|---|---|\n";
  for (const Info& entry : all()) {
    std::string choices;
    for (char c : entry.choices) choices += c == '|' ? std::string(", ") : std::string(1, c);
    text +=
        base::strCat("| `", entry.name, "` | ", typeName(entry.type), " | ", shownDefault(entry), " | ", entry.scope,
                     " | ", entry.sentence, choices.empty() ? "" : base::strCat("; one of ", choices), " |\n");
  }
  return text;
}

}  // namespace hpu::settings
