// SPDX-License-Identifier: Apache-2.0
// copyText: text for callers that give a buffer, as C APIs do.
// The one thing to know: it copies all of it or nothing.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace hpu::base {

/// Copies `text` and a zero behind it to `out`, which has `bytes`. False: it does not fit.
inline bool copyText(std::string_view text, char* out, uint64_t bytes) {
  if (text.size() >= bytes) return false;
  std::memcpy(out, text.data(), text.size());
  out[text.size()] = '\0';
  return true;
}

}  // namespace hpu::base
