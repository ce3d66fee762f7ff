// SPDX-License-Identifier: Apache-2.0
// Devices, their memory, and what is enqueued on them.
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

  module.def("trace_start", [] { check(trace::start()); });
  module.def("trace_stop", [](const std::string& path) {
    GilReleased released;
    check(trace::stop(path));
  });
  module.def("trace_cancel", &trace::cancel);
}

}  // namespace hpu::python
