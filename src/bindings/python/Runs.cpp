// SPDX-License-Identifier: Apache-2.0
// Devices, memory and runs.
#include "src/bindings/python/Runs.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/StatusMacros.h"
#include "hpu/node.h"
#include "hpu/trace.h"

namespace hpu::python {
namespace {

int64_t bytesOf(const py::array& array) {
  return static_cast<int64_t>(array.nbytes());
}

void checkArrays(const std::vector<py::array>& arrays, const std::vector<TensorInfo>& tensors, bool written) {
  if (arrays.size() != tensors.size()) throw py::value_error("a run takes an array for each input and output");
  for (size_t i = 0; i < arrays.size(); ++i) {
    bool dense = (arrays[i].flags() & py::array::c_style) != 0 && (!written || arrays[i].writeable());
    if (!dense || bytesOf(arrays[i]) != tensors[i].type.bytes())
      throw py::value_error("the array of '" + tensors[i].name + "' is not dense memory of " +
                            std::to_string(tensors[i].type.bytes()) + " bytes");
  }
}

/// The elements of the inputs that say sizes.
InputValues valuesOf(const Recipe& recipe, const std::vector<py::array>& arrays) {
  InputValues values(arrays.size());
  for (int input : recipe.valueInputs()) {
    const auto i = static_cast<size_t>(input);
    if (i >= arrays.size()) continue;
    const py::array& array = arrays[i];
    for (py::ssize_t e = 0; e < array.size(); ++e) {
      if (array.itemsize() == sizeof(int64_t))
        values[i].push_back(static_cast<const int64_t*>(array.data())[e]);
      else if (array.itemsize() == sizeof(int32_t))
        values[i].push_back(static_cast<const int32_t*>(array.data())[e]);
    }
  }
  return values;
}

/// The recipe's inputs with the shapes of a run; shapes that do not fit are the launch's to refuse.
std::vector<TensorInfo> sized(std::vector<TensorInfo> tensors, const std::vector<Shape>& shapes) {
  if (shapes.size() != tensors.size()) throw py::value_error("a run takes an array for each input and output");
  for (size_t i = 0; i < tensors.size(); ++i)
    if (numElements(tensors[i].type.shape) == kDynamic) tensors[i].type.shape = shapes[i];
  return tensors;
}

/// Buffers that are too small are replaced; work in flight owns what it uses.
Status reserve(Device& device, const std::vector<TensorInfo>& tensors, std::vector<Buffer>& buffers) {
  buffers.resize(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t bytes = std::max<int64_t>(tensors[i].type.bytes(), 1);
    if (buffers[i].valid() && buffers[i].size() >= bytes) continue;
    auto made = device.allocate(bytes, tensors[i].name);
    if (!made.ok()) return made.status();
    buffers[i] = std::move(made).value();
  }
  return okStatus();
}

std::vector<py::object> objectsOf(const std::vector<py::array>& a, const std::vector<py::array>& b) {
  std::vector<py::object> objects(a.begin(), a.end());
  objects.insert(objects.end(), b.begin(), b.end());
  return objects;
}

/// In the order of node::Fault.
constexpr const char* kFaults[node::kNumFaults] = {"corrected_ecc", "uncorrected_ecc", "non_fatal_event",
                                                   "fatal_event",   "endless_command", "lost_heartbeat",
                                                   "thermal"};

void inject(const OpenDevice& open, const std::string& name, int count) {
  std::string names;
  for (int i = 0; i < node::kNumFaults; ++i) {
    names += (i ? ", " : "") + std::string(kFaults[i]);
    if (name == kFaults[i]) return check(node::inject(open.device.info().index, static_cast<node::Fault>(i), count));
  }
  throw StatusError(invalidArgument("there is no fault '" + name + "'; the faults are " + names));
}

}  // namespace

Lane::Lane(const Device& device, const std::string& name)
    : process_(getpid()), stream_(take(Stream::create(device, {.name = name}))) {}

Lane::~Lane() {
  settle();
  // The work may still read and write this memory.
  for (Work& work : inFlight_) orphans().push_back(std::move(work));
}

std::list<Lane::Work>& Lane::orphans() {
  static auto* const all = new std::list<Work>;
  return *all;
}

Event Lane::enqueue(const std::function<Status(Stream&)>& enqueue, std::vector<py::object> kept) {
  if (process_ != getpid())
    throw StatusError(failedPrecondition("the device was opened by the process " + std::to_string(process_) +
                                         ", from which this one was forked; open one here"));
  settle();
  Event done;
  Status status;
  {
    GilReleased released;
    std::lock_guard<std::mutex> lock(mutex_);
    status = enqueue(stream_);
    Status recorded = stream_.record(done);
    if (status.ok()) status = recorded;
  }
  inFlight_.push_back({done, std::move(kept)});
  check(status);
  return done;
}

void Lane::settle() {
  if (process_ != getpid()) return;
  while (!inFlight_.empty() && inFlight_.front().done.isDone()) inFlight_.pop_front();
  orphans().remove_if([](const Work& work) { return work.done.isDone(); });
}

bool Request::done() const {
  return outcome_.has_value() || done_.isDone();
}

void Request::wait(std::optional<double> seconds) {
  if (!outcome_) {
    Status status = waitFor(done_, seconds, what_);
    if (status.code() == StatusCode::kDeadlineExceeded) {
      if (!done_.isDone()) throw StatusError(status);
      status = waitFor(done_, {}, what_);  // Done since: not in vain, whatever it came to.
    }
    outcome_ = status;
    lane_->settle();
  }
  check(*outcome_);
}

void Request::notify(uint64_t token) const {
  Completions& completions = Completions::ofProcess();
  GilReleased released;
  check(done_.onDone([&completions, token](const Status&) { completions.add(token); }));
}

Program::Program(std::shared_ptr<OpenDevice> device, const Recipe& recipe)
    : device_(std::move(device)), recipe_(recipe) {
  GilReleased released;
  auto start = std::chrono::steady_clock::now();
  executable_ = take(Executable::load(device_->device, recipe_));
  loadMs_ = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  if (recipe_.dims().empty()) {
    check(reserve(device_->device, recipe_.inputs(), inputs_));
    check(reserve(device_->device, recipe_.outputs(), outputs_));
  }
  lane_ = std::make_shared<Lane>(device_->device, recipe_.name());
}

std::vector<TensorInfo> Program::outputsFor(const std::vector<Shape>& inputs, const InputValues& values) const {
  return take(executable_.outputs(inputs, values));
}

Event Program::enqueueRun(const std::vector<py::array>& inputs, const std::vector<py::array>& outputs,
                          const std::vector<Shape>& given, const Held& held, const Event* marks) {
  const bool fixed = recipe_.dims().empty();
  const std::vector<Shape> shapes = fixed ? std::vector<Shape>() : given;
  const InputValues values = fixed ? InputValues() : valuesOf(recipe_, inputs);
  std::vector<TensorInfo> inputInfos = fixed ? recipe_.inputs() : sized(recipe_.inputs(), shapes);
  std::vector<TensorInfo> outputInfos = fixed ? recipe_.outputs() : outputsFor(shapes, values);
  const std::vector<StateInfo> states = recipe_.states();
  if (held.size() != states.size()) throw py::value_error("a run takes the memory of each state");
  // Nothing is copied to and from states.
  for (const StateInfo& state : states) inputInfos[state.input].type.shape = outputInfos[state.output].type.shape = {0};
  checkArrays(inputs, inputInfos, false);
  checkArrays(outputs, outputInfos, true);
  std::vector<const void*> from;
  std::vector<void*> to;
  for (const py::array& input : inputs) from.push_back(input.data());
  for (const py::array& output : outputs) to.push_back(const_cast<void*>(output.data()));
  auto enqueue = [&](Stream& stream) -> Status {
    auto mark = [&](tools::RunMark which) { return marks ? stream.record(marks[which]) : okStatus(); };
    Status status = reserve(device_->device, inputInfos, inputs_);
    if (status.ok()) status = reserve(device_->device, outputInfos, outputs_);
    if (status.ok()) status = mark(tools::kRunStart);
    for (size_t i = 0; status.ok() && i < from.size(); ++i)
      if (int64_t bytes = inputInfos[i].type.bytes()) status = stream.copyToDevice(inputs_[i], from[i], bytes);
    if (status.ok()) status = mark(tools::kRunUploaded);
    std::vector<Buffer> in = inputs_, out = outputs_;
    for (size_t i = 0; status.ok() && i < states.size(); ++i)
      in[states[i].input] = out[states[i].output] = held[i]->buffer;
    if (status.ok()) status = executable_.launch(stream, in, out, shapes, values);
    if (status.ok()) status = mark(tools::kRunLaunched);
    for (size_t i = 0; status.ok() && i < to.size(); ++i)
      if (int64_t bytes = outputInfos[i].type.bytes()) status = stream.copyToHost(to[i], outputs_[i], bytes);
    if (status.ok()) status = mark(tools::kRunDownloaded);
    return status;
  };
  return lane_->enqueue(enqueue, objectsOf(inputs, outputs));
}

std::shared_ptr<Request> Program::run(const std::vector<py::array>& inputs, const std::vector<py::array>& outputs,
                                      const std::vector<Shape>& shapes, const Held& states) {
  return std::make_shared<Request>(lane_, enqueueRun(inputs, outputs, shapes, states, nullptr), what());
}

std::shared_ptr<Request> Program::launch(const std::vector<std::shared_ptr<DeviceBuffer>>& inputs,
                                         const std::vector<std::shared_ptr<DeviceBuffer>>& outputs,
                                         const std::vector<Shape>& inputShapes, const InputValues& values) {
  std::vector<Buffer> from, to;
  for (const auto& input : inputs) from.push_back(input->buffer);
  for (const auto& output : outputs) to.push_back(output->buffer);
  Event done =
      lane_->enqueue([&](Stream& stream) { return executable_.launch(stream, from, to, inputShapes, values); }, {});
  return std::make_shared<Request>(lane_, done, what());
}

std::string Program::profile(const std::vector<py::array>& inputs, const std::vector<py::array>& outputs,
                             const std::vector<Shape>& shapes, const Held& states, int iterations, int warmup,
                             int top) {
  auto runOnce = [&](const Event* marks) {
    checkSignals();  // A short wait does not.
    return waitFor(enqueueRun(inputs, outputs, shapes, states, marks), {}, what());
  };
  tools::RunTimes times = take(tools::timeRuns(device_->device, warmup, iterations, runOnce));
  tools::Json json = tools::Json::object();
  json.set("program", recipe_.name()).set("target", targetName(recipe_.target())).set("load_ms", loadMs_);
  tools::addTimes(json, times, recipe_.target());
  tools::Json& summary = json["trace"];
  if (Status started = trace::start(); started.ok()) {
    struct Cancel {
      ~Cancel() {
        if (armed) trace::cancel();
      }
      bool armed = true;
    } cancel;
    check(runOnce(nullptr));
    trace::Recording recording = take(trace::stop());
    cancel.armed = false;
    summary = summaryOf(std::move(recording), top);
  } else if (started.code() != StatusCode::kFailedPrecondition) {
    check(started);
  }
  return json.dump(-1);
}

namespace {

/// Calls `copy` for each run of the array, and waits for all of them.
void copyRuns(const DeviceBuffer& self, const py::array& array, std::optional<double> seconds,
              const std::vector<int64_t>& offsets, int64_t run,
              const std::function<Status(Stream&, int64_t at, int64_t bytes, int64_t offset)>& copy) {
  const int64_t bytes = bytesOf(array);
  if (bytes == 0) return;
  if (!offsets.empty() && run * static_cast<int64_t>(offsets.size()) != bytes)
    throw StatusError(invalidArgument("the runs are not those of the array"));
  Event done = self.owner->lane->enqueue(
      [&](Stream& stream) {
        if (offsets.empty()) return copy(stream, 0, bytes, 0);
        for (size_t i = 0; i < offsets.size(); ++i)
          HPU_RETURN_IF_ERROR(copy(stream, static_cast<int64_t>(i) * run, run, offsets[i]));
        return okStatus();
      },
      {array});
  check(waitFor(done, seconds, "the copy"));
}

}  // namespace

void bindRuns(py::module_& module) {
  py::class_<Request, std::shared_ptr<Request>>(module, "Request")
      .def("done", &Request::done)
      .def("wait", &Request::wait)
      .def("notify", &Request::notify);

  py::class_<OpenDevice, std::shared_ptr<OpenDevice>>(module, "Device")
      .def(py::init([](int index, const std::string& target, const std::string& driver, int threads, int64_t hbm) {
        DeviceOptions options;
        options.index = index;
        options.target = take(parseTarget(target));
        options.driver = driver;
        options.threads = threads;
        options.hbmBytes = hbm;
        auto made = std::make_shared<OpenDevice>();
        {
          GilReleased released;
          made->device = take(Device::open(options));
        }
        made->lane = std::make_shared<Lane>(made->device, "copies");
        return made;
      }))
      .def("info",
           [](const OpenDevice& open) {
             const DeviceInfo& info = open.device.info();
             return py::dict(py::arg("driver") = info.driver, py::arg("name") = info.name,
                             py::arg("target") = std::string(targetName(info.target)), py::arg("index") = info.index,
                             py::arg("hbm_bytes") = info.hbmBytes, py::arg("sram_bytes") = info.sramBytes,
                             py::arg("module_id") = info.moduleId, py::arg("pci_address") = info.pciAddress);
           })
      .def("memory",
           [](const OpenDevice& open) {
             MemoryInfo memory = open.device.memoryInfo();
             return py::dict(py::arg("total_bytes") = memory.totalBytes, py::arg("used_bytes") = memory.usedBytes,
                             py::arg("peak_bytes") = memory.peakBytes,
                             py::arg("largest_free_bytes") = memory.largestFreeBytes,
                             py::arg("allocations") = memory.allocations);
           })
      .def("counters",
           [](const OpenDevice& open) {
             DeviceCounters counters = open.device.counters();
             py::dict busy;
             for (int e = 0; e < kNumEngines; ++e)
               busy[py::str(std::string(engineName(static_cast<Engine>(e))))] = counters.busyNs[e];
             return py::dict(py::arg("busy_ns") = busy, py::arg("device_ns") = counters.deviceNs,
                             py::arg("launches") = counters.launches, py::arg("commands") = counters.commands,
                             py::arg("h2d_bytes") = counters.h2dBytes, py::arg("d2h_bytes") = counters.d2hBytes);
           })
      .def("reset",
           [](OpenDevice& open) {
             GilReleased released;
             check(open.device.reset());
           })
      .def("inject", &inject, py::call_guard<GilReleased>())
      .def("allocate", [](const std::shared_ptr<OpenDevice>& open, int64_t bytes, const std::string& label) {
        GilReleased released;
        return std::make_shared<DeviceBuffer>(DeviceBuffer{open, take(open->device.allocate(bytes, label))});
      });

  py::class_<DeviceBuffer, std::shared_ptr<DeviceBuffer>>(module, "Buffer")
      .def("address", [](const DeviceBuffer& self) { return self.buffer.address(); })
      .def("size", [](const DeviceBuffer& self) { return self.buffer.size(); })
      .def("clear",
           [](const DeviceBuffer& self) {
             Event done = self.owner->lane->enqueue(
                 [&](Stream& stream) { return stream.fill(self.buffer, 0, self.buffer.size()); }, {});
             check(waitFor(done, {}, "the fill"));
           })
      // The array at the buffer's start, or in runs of so many bytes at these offsets, one behind the other.
      .def(
          "write",
          [](const DeviceBuffer& self, const py::array& array, std::optional<double> seconds,
             const std::vector<int64_t>& offsets, int64_t run) {
            const auto* from = static_cast<const std::byte*>(array.data());
            copyRuns(self, array, seconds, offsets, run,
                     [&](Stream& stream, int64_t at, int64_t bytes, int64_t offset) {
                       return stream.copyToDevice(self.buffer, from + at, bytes, offset);
                     });
          },
          py::arg("array"), py::arg("seconds"), py::arg("offsets") = std::vector<int64_t>(), py::arg("run") = 0)
      .def(
          "read",
          [](const DeviceBuffer& self, const py::array& array, std::optional<double> seconds,
             const std::vector<int64_t>& offsets, int64_t run) {
            auto* to = static_cast<std::byte*>(const_cast<void*>(array.data()));
            copyRuns(self, array, seconds, offsets, run,
                     [&](Stream& stream, int64_t at, int64_t bytes, int64_t offset) {
                       return stream.copyToHost(to + at, self.buffer, bytes, offset);
                     });
          },
          py::arg("array"), py::arg("seconds"), py::arg("offsets") = std::vector<int64_t>(), py::arg("run") = 0);

  py::class_<Program, std::shared_ptr<Program>>(module, "Program")
      .def(py::init<std::shared_ptr<OpenDevice>, const Recipe&>())
      .def("outputs", [](const Program& program, const std::vector<Shape>& inputs,
                         const InputValues& values) { return describe(program.outputsFor(inputs, values)); })
      .def("run", &Program::run)
      .def("launch", &Program::launch)
      .def("profile", &Program::profile)
      .def("load_ms", &Program::loadMs);

  module.def("trace_start", [] { check(trace::start()); });
  module.def("trace_stop", [](const std::string& path) {
    GilReleased released;
    check(trace::stop(path));
  });
  module.def("trace_cancel", &trace::cancel);
}

}  // namespace hpu::python
