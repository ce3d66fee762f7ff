// SPDX-License-Identifier: Apache-2.0
// CallbackScope: marks the time that a thread is inside of something that the runtime calls: a function or a hook of
// the program, or what happens around a device's work. The one thing to know: a wait for work there may wait for
// itself, so every wait asks refuseInCallback(), and a device is not closed on such a thread (DeviceState).
#pragma once

#include <cstdint>
#include <string_view>

#include "hpu/status.h"

namespace hpu {

enum class Callback : uint8_t {
  kNone,        ///< The thread is the program's own.
  kFunction,    ///< A function that a stream calls (Stream::callHost, Stream::onDone, Event::onDone).
  kHealthHook,  ///< Device::setHealthHook.
  kWork,        ///< A device's work: external work, and what is let go or told at the end of any work.
};

/// Of the calling thread; scopes may be nested, and the innermost one counts.
class CallbackScope {
 public:
  explicit CallbackScope(Callback what) noexcept;
  ~CallbackScope();
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;

 private:
  const Callback before_;
};

/// What the calling thread is inside of.
Callback currentCallback() noexcept;

/// For calls that wait for work which is not done. Errors: kFailedPrecondition inside of a callback, naming the call,
/// where it was called, and what to do instead. Other libraries ask the same of refuseWaitInCallback (hpu/callback.h).
Status refuseInCallback(std::string_view call);
/// The same for a call that waits for all that runs on a device to end, whatever it is.
Status refuseEndingInCallback(std::string_view call);

}  // namespace hpu
