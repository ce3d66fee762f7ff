// SPDX-License-Identifier: Apache-2.0
// Failures of collectives as exceptions that say which collective of which group failed on which rank.
// The one thing to know: a collective that fails is found by what waits next for its stream or its results, so the
// wait's exception is turned into the collective's here.
#pragma once

#include <c10/util/Exception.h>

#include <functional>
#include <string>

#include "hpu/status.h"
#include "hpu_torch/api.h"

namespace hpu_torch {

/// Of C++ programs; Python has classes of its own (setCollectiveErrorHook).
class HPU_TORCH_API CollectiveError : public c10::Error {
 public:
  CollectiveError(std::string text, bool isTimeout);
  bool isTimeout;
};

/// Called in place of throwing a CollectiveError; throws. Set once, by hpu_torch._C.
HPU_TORCH_API void setCollectiveErrorHook(void (*hook)(const std::string& text, bool isTimeout));
[[noreturn]] void raiseCollective(const std::string& text, const hpu::Status& status);

/// Calls what it is given without Python's lock, when the thread has it. Set once, by hpu_torch._C.
HPU_TORCH_API void setWithoutPythonLock(void (*call)(const std::function<void()>&));
void withoutPythonLock(const std::function<void()>& function);

}  // namespace hpu_torch
