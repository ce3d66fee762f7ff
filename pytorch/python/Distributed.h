// SPDX-License-Identifier: Apache-2.0
// The part of hpu_torch._C that hpu_torch.distributed calls. Included by Module.cpp alone: one unit has Python's
// headers.
#pragma once

#include <pybind11/chrono.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include "pytorch/distributed/Errors.h"
#include "pytorch/distributed/ProcessGroupHCCL.h"

namespace hpu_torch {

struct CollectiveErrorTypes {
  PyObject *error = nullptr, *timeout = nullptr;  ///< Live as long as the process.
};
inline CollectiveErrorTypes& collectiveErrorTypes() {
  static CollectiveErrorTypes& types = *new CollectiveErrorTypes;
  return types;
}

/// PyTorch's own functions turn it into the Python class that it names.
struct PythonCollectiveError final : torch::PyTorchError {
  PythonCollectiveError(const std::string& text, bool isTimeout) : PyTorchError(text), isTimeout(isTimeout) {}
  PyObject* python_type() override { return isTimeout ? collectiveErrorTypes().timeout : collectiveErrorTypes().error; }
  bool isTimeout;
};

inline void translateCollectiveError(std::exception_ptr error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (PythonCollectiveError& e) {
    PyErr_SetString(e.python_type(), e.what());
  }
}

/// Process groups, works and errors are classes of torch.distributed's own module: it is imported first.
inline void bindDistributed(py::module_& m) {
  py::module_::import("torch.distributed");
  py::class_<ProcessGroupHCCL, c10d::ProcessGroup, c10::intrusive_ptr<ProcessGroupHCCL>>(m, "ProcessGroupHCCL")
      .def(py::init([](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                       const std::chrono::milliseconds& timeout, const std::string& name) {
             return c10::make_intrusive<ProcessGroupHCCL>(store, rank, size, timeout, name);
           }),
           py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout"), py::arg("name") = "0",
           py::call_guard<py::gil_scoped_release>());
  m.def("set_collective_errors", [](const py::object& error, const py::object& timeout) {
    collectiveErrorTypes() = {error.inc_ref().ptr(), timeout.inc_ref().ptr()};
    setCollectiveErrorHook(
        [](const std::string& text, bool isTimeout) { throw PythonCollectiveError(text, isTimeout); });
  });
  py::register_exception_translator(&translateCollectiveError);
  setWithoutPythonLock([](const std::function<void()>& function) {
    if (!Py_IsInitialized() || _Py_IsFinalizing() || !PyGILState_Check()) return function();
    py::gil_scoped_release unlocked;
    function();
  });
}

}  // namespace hpu_torch
