// SPDX-License-Identifier: Apache-2.0
// PCI addresses as people and programs write them.
// The one thing to know: a device's own is "0000:19:00.0"; who names it may leave out the domain, as lspci does, and
// write capitals.
#pragma once

#include <string_view>

namespace hpu::base {

/// Does `given` name the device at `address`?
constexpr bool samePciAddress(std::string_view given, std::string_view address) {
  constexpr std::string_view kDomain = "0000:";
  auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  if (given.size() + kDomain.size() == address.size() && address.substr(0, kDomain.size()) == kDomain)
    address.remove_prefix(kDomain.size());
  if (given.size() != address.size()) return false;
  for (size_t i = 0; i < given.size(); ++i)
    if (lower(given[i]) != lower(address[i])) return false;
  return true;
}

}  // namespace hpu::base
