// SPDX-License-Identifier: Apache-2.0
// perThread: an object of each thread that can be used as long as the thread runs.
// The one thing to know: C++ destroys the main thread's thread_local objects before exit handlers
// and the destructors of statics run, and programs release their devices there; one that is asked
// for after its end is made anew and then stays.
#pragma once

namespace hpu::base {

/// The calling thread's T. There is one by type: give it a type of your own file (in an anonymous
/// namespace), not std::string.
template <typename T>
T& perThread() {
  // Neither has a destructor, so both are valid at any time.
  thread_local T* object = nullptr;
  thread_local bool ended = false;
  struct End {
    ~End() {
      ended = true;
      T* last = object;
      object = nullptr;
      delete last;
    }
  };
  if (!object) {
    object = new T;
    if (!ended) {
      thread_local End end;
      (void)&end;
    }
  }
  return *object;
}

}  // namespace hpu::base
