// SPDX-License-Identifier: Apache-2.0
// perThread: an object of each thread that can be used as long as the thread runs.
// The one thing to know: C++ destroys the main thread's thread_local objects before exit handlers
// and the destructors of statics run, and programs release their devices there; one that is asked
// for after its end is made anew and then stays.
//
// They can be reached from a static list, too: in a forked child those of its parent's threads are
// nobody's, and LeakSanitizer does not look into the storage of threads that are not there.
#pragma once

#include <atomic>

namespace hpu::base {
namespace internal {
/// A place for it in the list; it is given back by storing null. Null: the host has no memory.
std::atomic<void*>* listPerThread(void* object) noexcept;
}  // namespace internal

/// The calling thread's T. There is one by type: give it a type of your own file (in an anonymous
/// namespace), not std::string.
template <typename T>
T& perThread() {
  // None has a destructor, so all are valid at any time.
  thread_local T* object = nullptr;
  thread_local std::atomic<void*>* place = nullptr;
  thread_local bool ended = false;
  struct End {
    ~End() {
      ended = true;
      T* last = object;
      object = nullptr;
      if (place) place->store(nullptr, std::memory_order_release);
      delete last;
    }
  };
  if (!object) {
    object = new T;
    place = internal::listPerThread(object);
    if (!ended) {
      thread_local End end;
      (void)&end;
    }
  }
  return *object;
}

}  // namespace hpu::base
