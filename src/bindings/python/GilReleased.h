// SPDX-License-Identifier: Apache-2.0
// GilReleased: a scope without Python's lock (the GIL), as py::gil_scoped_release, that a thread may be in when the
// interpreter ends. The one thing to know: Python ends a thread that takes the lock back then by pthread_exit, whose
// unwinding no destructor survives; here such a thread waits instead for the end of the process, holding nothing but
// what its callers hold.
//
//   GilReleased released;                       // Before the locks of the scope, which then are let go first.
//   module.def("next", &next, py::call_guard<GilReleased>());
#pragma once

#include <Python.h>
#include <unistd.h>

namespace hpu::python {

class GilReleased {
 public:
  GilReleased() : state_(PyEval_SaveThread()) {}
  ~GilReleased() {
    if (isFinalizing()) park();
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {
      park();  // The interpreter began to end meanwhile: this is pthread_exit, which nothing may catch and go on.
    }
  }
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

  /// The interpreter ends: no other thread than the one that ends it gets the lock any more.
  static bool isFinalizing() noexcept {
#if PY_VERSION_HEX >= 0x030d0000
    return Py_IsFinalizing() != 0;
#else
    return _Py_IsFinalizing() != 0;
#endif
  }

 private:
  [[noreturn]] static void park() noexcept {
    for (;;) ::pause();
  }

  PyThreadState* const state_;
};

}  // namespace hpu::python
