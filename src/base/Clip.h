// SPDX-License-Identifier: Apache-2.0
// Keeps a message short when it holds names of a file that may be damaged or hostile.
// The one thing to know: beginning and end stay, so that a name and what is said of it are both there.
#pragma once

#include <string>

namespace hpu::base {

/// The text, or its first and last 500 bytes.
inline std::string clipped(std::string text) {
  constexpr size_t kMost = 1000;
  if (text.size() <= kMost) return text;
  return text.substr(0, kMost / 2) + " ... " + text.substr(text.size() - kMost / 2);
}

}  // namespace hpu::base
