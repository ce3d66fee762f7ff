// SPDX-License-Identifier: Apache-2.0
// The extension module openhpu._core: what the Python package openhpu is made of.
#include "src/bindings/python/Core.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>

#include "base/OptionNames.h"
#include "base/Thread.h"
#include "hpu/version.h"

namespace hpu::python {
namespace {

/// How long a signal may stay unnoticed by a wait.
constexpr int64_t kSliceMs = 50;

/// Jobs whose callers may be gone.
struct Jobs {
  std::mutex mutex;
  std::condition_variable ended;
  int running = 0;
  pid_t process = getpid();
};
Jobs& jobs() {
  // Never destroyed: a job may end while the process does.
  static Jobs* const all = new Jobs;
  return *all;
}

py::list valuesOf(const std::vector<UnsupportedNode::Value>& values) {
  py::list made;
  for (const UnsupportedNode::Value& value : values) made.append(py::make_tuple(value.name, value.type));
  return made;
}

void raise(const StatusError& error) {
  py::object work = py::none();
  if (const WorkFailure* failure = error.status.work())
    work = py::dict(py::arg("device") = failure->device, py::arg("stream") = failure->stream,
                    py::arg("operation") = failure->operation, py::arg("label") = failure->label,
                    py::arg("node") = failure->node);
  py::list unsupported;
  const auto forPython = [](const std::string& text) { return base::inWordsOf(base::Reader::kPython, text); };
  for (const UnsupportedNode& node : error.unsupported)
    unsupported.append(py::dict(py::arg("op") = node.op, py::arg("node") = node.node,
                                py::arg("reason") = forPython(node.reason),
                                py::arg("domain") = node.domain.empty() ? "ai.onnx" : node.domain,
                                py::arg("opset") = node.opset, py::arg("inputs") = valuesOf(node.inputs),
                                py::arg("outputs") = valuesOf(node.outputs), py::arg("help") = forPython(node.help)));
  // Messages quote names from files, which need not be UTF-8.
  const std::string text = forPython(error.status.message());
  auto message = py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
  py::object made =
      py::module_::import("openhpu._errors")
          .attr("from_status")(std::string(statusCodeName(error.status.code())), message, work, unsupported);
  PyErr_SetObject(py::type::of(made).ptr(), made.ptr());
}

}  // namespace

void checkSignals() {
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

void Completions::add(uint64_t token) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    tokens_.push_back(token);
  }
  changed_.notify_one();
}

std::vector<uint64_t> Completions::next() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || !tokens_.empty(); });
  return closed_ ? std::vector<uint64_t>() : std::exchange(tokens_, {});
}

void Completions::close() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

Completions& Completions::ofProcess() {
  static Completions* all = new Completions;
  static pid_t process = getpid();
  // Of a forked child's parent, a thread may hold the lock.
  if (process != getpid()) {
    all = new Completions;
    process = getpid();
  }
  return *all;
}

void runInterruptibly(std::function<void()> job) {
  struct Outcome {
    bool done = false;
    std::exception_ptr failure;
  };
  Jobs& all = jobs();
  auto outcome = std::make_shared<Outcome>();
  {
    GilReleased released;
    std::lock_guard<std::mutex> lock(all.mutex);
    if (all.process != getpid()) {
      // A forked child has none of its parent's threads.
      all.process = getpid();
      all.running = 0;
    }
    base::startThread("hpu-python", [outcome, &all, job = std::move(job)] {
      try {
        job();
      } catch (...) {
        outcome->failure = std::current_exception();
      }
      std::lock_guard<std::mutex> ending(all.mutex);
      outcome->done = true;
      --all.running;
      all.ended.notify_all();
    }).detach();
    ++all.running;
  }
  while (true) {
    {
      GilReleased released;
      std::unique_lock<std::mutex> lock(all.mutex);
      if (all.ended.wait_for(lock, std::chrono::milliseconds(kSliceMs), [&] { return outcome->done; })) break;
    }
    checkSignals();
  }
  if (outcome->failure) std::rethrow_exception(outcome->failure);
}

void finishJobs() {
  Jobs& all = jobs();
  if (all.process != getpid()) return;
  while (true) {
    {
      GilReleased released;
      std::unique_lock<std::mutex> lock(all.mutex);
      if (all.ended.wait_for(lock, std::chrono::milliseconds(kSliceMs), [&] { return all.running == 0; })) return;
    }
    if (PyErr_CheckSignals() != 0) {
      // Interrupted once more: libraries cannot be torn down below a thread that compiles.
      fflush(nullptr);
      _exit(130);
    }
  }
}

bool waitInSlices(const base::Deadline& deadline, const std::function<bool(int64_t)>& wait) {
  while (true) {
    {
      GilReleased released;
      if (wait(std::min(deadline.remainingMs(), kSliceMs))) return true;
    }
    if (deadline.expired()) return false;
    checkSignals();
  }
}

Status waitFor(const Event& event, std::optional<double> seconds, const std::string& what) {
  int64_t milliseconds = -1;
  if (seconds) milliseconds = static_cast<int64_t>(std::clamp(*seconds, 0.0, 1e9) * 1000 + 0.5);
  const base::Deadline deadline = take(base::Deadline::fromMs(milliseconds));
  Status status;
  const bool done = waitInSlices(deadline, [&](int64_t ms) {
    status = event.synchronize(ms);
    if (status.code() != StatusCode::kDeadlineExceeded) return true;
    if (!event.isDone()) return false;
    // Done since the wait ended, or failed with the code of a wait that ended: an event that is done says which.
    status = event.synchronize(ms);
    return true;
  });
  if (done) return status;
  char text[64];
  snprintf(text, sizeof text, " is not done after %.3g s", static_cast<double>(deadline.totalMs()) / 1e3);
  return deadlineExceeded(what + text + "; it goes on, and can be waited for again");
}

ElementType elementTypeOf(const std::string& name) {
  for (int i = 1; i <= static_cast<int>(ElementType::kF8E4M3Ieee); ++i)
    if (name == elementTypeName(static_cast<ElementType>(i))) return static_cast<ElementType>(i);
  throw py::value_error("unknown element type '" + name + "'");
}

TensorType tensorTypeOf(const std::string& dtype, const Shape& shape) {
  return {elementTypeOf(dtype), shape};
}

py::list describe(const std::vector<TensorInfo>& tensors) {
  py::list list;
  for (const TensorInfo& tensor : tensors) {
    py::tuple shape(tensor.type.shape.size());
    for (size_t d = 0; d < shape.size(); ++d)
      if (int64_t size = tensor.type.shape[d]; size == kDynamic)
        shape[d] = py::none();
      else
        shape[d] = size;
    list.append(py::make_tuple(tensor.name, std::string(elementTypeName(tensor.type.element)), shape));
  }
  return list;
}

}  // namespace hpu::python

PYBIND11_MODULE(_core, module) {
  using namespace hpu::python;
  module.doc() = "The public C++ API of OpenHPU, for the package openhpu; use that.";
  module.attr("version") = HPU_VERSION_STRING;
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const StatusError& error) {
      raise(error);
    }
  });
  module.def("finish_jobs", &finishJobs);
  module.def("next_done", [] {
    Completions& completions = Completions::ofProcess();
    GilReleased released;
    return completions.next();
  });
  module.def("close_done", [] { Completions::ofProcess().close(); });
  bindCompile(module);
  bindRuns(module);
  bindProgram(module);
  bindFigures(module);
  bindDlpack(module);
}
