// SPDX-License-Identifier: Apache-2.0
// LastError: what a thread's calls of the C APIs failed with last, SynapseAI's and HCCL's apart.
// The one thing to know: exit handlers and destructors of statics call the library too, and find it.
#pragma once

#include <string>

#include "habanalabs/synapse_common_types.h"

namespace hpu::synapse {

class FailureText {
 public:
  /// "function: text".
  void set(const char* function, const char* text) noexcept;
  bool any() const { return plain_ || !text_.empty(); }
  /// Until the next set().
  const char* text() const { return plain_ ? plain_ : text_.c_str(); }

 private:
  std::string text_;
  const char* plain_ = nullptr;  ///< Instead of it, when there was no memory for it.
};

struct LastError {
  synStatus status = synSuccess;
  FailureText synapse, hccl;
  std::string hcclKept;  ///< What an HCCL function gave as a text of its own.
};
/// The calling thread's.
LastError& lastError();

}  // namespace hpu::synapse
