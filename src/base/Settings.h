// SPDX-License-Identifier: Apache-2.0
// The registry of environment settings: every variable that OpenHPU reads is a line of
// Settings.def. The one thing to know: values are read at each call, and a bad value is an error
// that names the variable, the value and what is valid; it is never silently replaced.
//
//   HPU_ASSIGN(int64_t timeoutMs, hpu::settings::getInt(hpu::Setting::HPU_WAIT_TIMEOUT_MS));
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hpu/status.h"

namespace hpu {

/// One enumerator per line of Settings.def, named as the environment variable.
enum class Setting : int {
#define HPU_SETTING(name, type, value, scope, sentence) name,
#include "base/Settings.def"
#undef HPU_SETTING
};

namespace settings {

enum class Type : uint8_t { kInt, kBytes, kBool, kString, kChoice };

struct Info {
  std::string_view name;
  Type type;
  std::string_view defaultText;  ///< Of a kChoice: the default alone.
  std::string_view choices;      ///< Of a kChoice: "a|b|c", the default first; else empty.
  std::string_view scope;
  std::string_view sentence;
};

/// All settings in the order of Settings.def.
const std::vector<Info>& all();
const Info& info(Setting setting);
/// "int", "bytes", "bool", "string", "choice".
std::string_view typeName(Type type);

/// The setting of that name. Errors: kNotFound.
StatusOr<Setting> find(std::string_view name);
/// Gives the setting a value in this process, in place of the environment; an empty text takes it back. Any
/// thread may call. Errors: kInvalidArgument as the getters have it, and nothing changes.
Status set(Setting setting, std::string_view text);

/// What set() gave, else the environment's text when set and not empty, else the default.
std::string rawText(Setting setting);
/// True when set() or the environment gives a value.
bool isSet(Setting setting);

/// Errors of all: kInvalidArgument naming the variable, its value and the valid ones. Using the
/// getter of another type is kInternal.
StatusOr<int64_t> getInt(Setting setting);  ///< >= 0; also for kBytes.
StatusOr<bool> getBool(Setting setting);
StatusOr<std::string> getString(Setting setting);  ///< Also for kChoice, checked against the choices.

/// Checks every setting that is set, so that a program can report all bad ones at its start; the
/// message has a line for each.
Status checkAll();

/// A table for --help: name, type, default, sentence; one setting a line.
std::string helpText();
/// The same as a Markdown table for the docs.
std::string markdownTable();

}  // namespace settings
}  // namespace hpu
