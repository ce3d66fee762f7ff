// SPDX-License-Identifier: Apache-2.0
#include "pytorch/distributed/Errors.h"

#include <atomic>

namespace hpu_torch {
namespace {
std::atomic<void (*)(const std::string&, bool)> errorHook{nullptr};
std::atomic<void (*)(const std::function<void()>&)> unlocked{nullptr};
}  // namespace

CollectiveError::CollectiveError(std::string text, bool timeout)
    : c10::Error({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, std::move(text)), isTimeout(timeout) {}

void setCollectiveErrorHook(void (*hook)(const std::string& text, bool isTimeout)) {
  errorHook = hook;
}

void raiseCollective(const std::string& text, const hpu::Status& status) {
  const bool isTimeout = status.code() == hpu::StatusCode::kDeadlineExceeded;
  const std::string all = text + ": " + status.message();
  if (auto* hook = errorHook.load()) hook(all, isTimeout);
  throw CollectiveError(all, isTimeout);
}

void setWithoutPythonLock(void (*call)(const std::function<void()>&)) {
  unlocked = call;
}
void withoutPythonLock(const std::function<void()>& function) {
  if (auto* call = unlocked.load()) return call(function);
  function();
}

}  // namespace hpu_torch
