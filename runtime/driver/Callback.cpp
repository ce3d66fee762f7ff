// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/Callback.h"

#include <string>
#include <utility>

#include "base/Format.h"
#include "hpu/callback.h"

namespace hpu {
namespace {

thread_local Callback tCurrent = Callback::kNone;

/// Where the call is, as a part of the message.
std::string inside(Callback callback) {
  switch (callback) {
    case Callback::kFunction:
      return "inside a function that a stream calls (Stream::callHost, Stream::onDone, Event::onDone)";
    case Callback::kHealthHook:
      return "inside a health hook (Device::setHealthHook)";
    case Callback::kNone:
    case Callback::kWork:
      break;
  }
  return "inside what a device's work calls (external work, and hooks and destructors at the end of work)";
}

}  // namespace

CallbackScope::CallbackScope(Callback what) noexcept : before_(std::exchange(tCurrent, what)) {}

CallbackScope::~CallbackScope() {
  tCurrent = before_;
}

Callback currentCallback() noexcept {
  return tCurrent;
}

Status refuseInCallback(std::string_view call) {
  if (tCurrent == Callback::kNone) return okStatus();
  return failedPrecondition(base::strCat(call, " must not wait for work that is not done ", inside(tCurrent),
                                         ": the work may wait for the very thing that would wait. Enqueue what is to "
                                         "come after it, or wait on a thread of the program's own"));
}

Status refuseWaitInCallback(std::string_view call) {
  return refuseInCallback(call);
}

Status refuseEndingInCallback(std::string_view call) {
  if (tCurrent == Callback::kNone) return okStatus();
  return failedPrecondition(base::strCat(call, " must not be called ", inside(tCurrent),
                                         ": it waits until nothing runs on the device, and would wait for the very "
                                         "thing that calls it. Tell a thread of the program's own to call it"));
}

}  // namespace hpu
