// SPDX-License-Identifier: Apache-2.0
// checkEnum: an option that is an enumeration has one of its values.
// The one thing to know: a program may have cast any number to it, and a switch over the values would take that for
// one of them.
//
//   HPU_RETURN_IF_ERROR(checkEnum("DeviceOptions::target", options.target,
//                                 {Target::kGaudi1, Target::kGaudi2, Target::kGaudi3}, targetName));
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include "hpu/status.h"

namespace hpu::base {

/// `name` gives the text of a value. Errors: kInvalidArgument, with the option, its value and those that it may have.
template <typename Enum, typename Name>
Status checkEnum(std::string_view option, Enum value, std::initializer_list<Enum> known, Name name) {
  static_assert(std::is_enum_v<Enum>);
  std::string list;
  for (Enum one : known) {
    if (one == value) return okStatus();
    list += (list.empty() ? "" : ", ") + std::to_string(static_cast<int>(one)) + " (" + std::string(name(one)) + ")";
  }
  return invalidArgument(std::string(option) + " is " + std::to_string(static_cast<int>(value)) +
                         ", which is none of its values; they are " + list);
}

}  // namespace hpu::base
