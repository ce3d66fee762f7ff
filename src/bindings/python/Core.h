// SPDX-License-Identifier: Apache-2.0
// What the files of the extension module openhpu._core share: Status as exceptions, waits that Ctrl-C ends, and types.
// The one thing to know: nothing here waits while it holds Python's lock (the GIL), and nothing that belongs to Python
// is touched without it.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/Deadline.h"
#include "hpu/compiler.h"
#include "hpu/event.h"
#include "hpu/status.h"
#include "hpu/types.h"
#include "src/bindings/python/GilReleased.h"

namespace hpu::python {

namespace py = pybind11;

/// A Status on its way to Python, where it becomes an openhpu.Error.
struct StatusError : std::exception {
  explicit StatusError(Status status, std::vector<UnsupportedNode> unsupported = {})
      : status(std::move(status)), unsupported(std::move(unsupported)) {}
  const char* what() const noexcept override { return status.message().c_str(); }
  Status status;
  std::vector<UnsupportedNode> unsupported;
};

inline void check(const Status& status) {
  if (!status.ok()) throw StatusError(status);
}
template <typename T>
T take(StatusOr<T> value) {
  check(value.status());
  return std::move(value).value();
}

/// Runs `job` on a thread of its own and waits for it without the GIL. When a signal's handler raises (Ctrl-C), so does
/// this, and the job goes on alone; finishJobs() waits for such jobs when the process ends.
void runInterruptibly(std::function<void()> job);
void finishJobs();

/// Calls what Python's signal handlers are due to do. Throws what they raise.
void checkSignals();

/// The tokens of what is done, for the one thread of the package that wakes those who await it (openhpu/_awaiting.py).
/// So no thread of the runtime ever waits for the GIL. Any thread may call, with or without the GIL.
class Completions {
 public:
  void add(uint64_t token);
  /// Waits, without the GIL; empty when it was closed.
  std::vector<uint64_t> next();
  void close();
  /// Of this process; never destroyed, as work that is dropped when the process ends is told, too. With the GIL.
  static Completions& ofProcess();

 private:
  std::mutex mutex_;  ///< Guards the following.
  std::condition_variable changed_;
  std::vector<uint64_t> tokens_;
  bool closed_ = false;
};

/// Calls `wait(ms)` without the GIL until it says that what it waits for is over (true), or the deadline has passed
/// (false); Python's signal handlers in between.
bool waitInSlices(const base::Deadline& deadline, const std::function<bool(int64_t)>& wait);

/// Waits for an event without the GIL, at most `seconds` (none: HPU_WAIT_TIMEOUT_MS); signals as above. The message of
/// kDeadlineExceeded names `what`.
Status waitFor(const Event& event, std::optional<double> seconds, const std::string& what);

/// The element type of a name ("bf16"). Errors: ValueError.
ElementType elementTypeOf(const std::string& name);
TensorType tensorTypeOf(const std::string& dtype, const Shape& shape);

/// (name, dtype, shape) of each; free dimensions are None.
py::list describe(const std::vector<TensorInfo>& tensors);

void bindCompile(py::module_& module);
void bindRuns(py::module_& module);
void bindProgram(py::module_& module);
void bindFigures(py::module_& module);
void bindDlpack(py::module_& module);

}  // namespace hpu::python
