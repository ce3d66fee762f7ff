// SPDX-License-Identifier: Apache-2.0
// hpu_torch._C: what the package hpu_torch calls. It has no state of its own, and names devices and streams by numbers;
// the package gives them their classes.
#include <ATen/ops/empty.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Storage.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/tensor_dtypes.h>

#include <map>

#include "hpu/node.h"
#include "hpu_torch/autocast.h"
#include "hpu_torch/hpu_torch.h"
#include "pytorch/device/CachingAllocator.h"
#include "pytorch/device/Copy.h"
#include "pytorch/device/Fallback.h"
#include "pytorch/device/Memory.h"
#include "pytorch/device/Streams.h"
#include "pytorch/insight/Profiler.h"
#include "pytorch/python/Distributed.h"
#include "pytorch/record/Capture.h"
#include "pytorch/record/CompileLog.h"
#include "pytorch/record/Programs.h"
#include "pytorch/record/Recorder.h"
#include "pytorch/record/Relocate.h"
#include "pytorch/record/Scope.h"
#include "pytorch/record/Table.h"

namespace {

using namespace hpu_torch;  // NOLINT: this file is its Python side.
using NoGil = py::call_guard<py::gil_scoped_release>;

/// PyTorch's exceptions without the C++ backtrace that what() has.
void translate(std::exception_ptr error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (PythonCollectiveError& e) {
    PyErr_SetString(e.python_type(), e.what());
  } catch (const c10::OutOfMemoryError& e) {
    PyErr_SetString(py::module_::import("torch.cuda").attr("OutOfMemoryError").ptr(), e.what_without_backtrace());
  } catch (const c10::NotImplementedError& e) {
    PyErr_SetString(PyExc_NotImplementedError, e.what_without_backtrace());
  } catch (const c10::ValueError& e) {
    PyErr_SetString(PyExc_ValueError, e.what_without_backtrace());
  } catch (const c10::TypeError& e) {
    PyErr_SetString(PyExc_TypeError, e.what_without_backtrace());
  } catch (const c10::IndexError& e) {
    PyErr_SetString(PyExc_IndexError, e.what_without_backtrace());
  } catch (const c10::Error& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what_without_backtrace());
  }
}

std::vector<std::string>& libraryFolders() {
  static std::vector<std::string>& folders = *new std::vector<std::string>;
  return folders;
}

/// The line of the program that the thread is at: the innermost one that is no library's.
std::string pythonCallSite() {
  if (!Py_IsInitialized() || _Py_IsFinalizing() || !PyGILState_GetThisThreadState()) return "";
  py::gil_scoped_acquire gil;
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  std::string innermost;
  while (frame) {
    auto code = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
    const auto file = py::cast<std::string>(code.attr("co_filename"));
    const std::string place = file + ":" + std::to_string(PyFrame_GetLineNumber(frame));
    bool isLibrary = false;
    for (const std::string& folder : libraryFolders()) isLibrary = isLibrary || file.rfind(folder, 0) == 0;
    if (innermost.empty() || !isLibrary) innermost = place;
    PyFrameObject* back = isLibrary ? PyFrame_GetBack(frame) : nullptr;
    Py_DECREF(frame);
    frame = back;
  }
  return innermost.empty() ? "autograd's backward" : innermost;
}

c10::DeviceIndex index(int device) {
  return checkedIndex(static_cast<c10::DeviceIndex>(device));
}

py::dict describeDevice(int device) {
  const hpu::DeviceOptions options = optionsOf(index(device));
  hpu::node::Answer<hpu::node::NodeStatus> node = hpu::node::query();
  if (!node.ok()) raise(node.status(), "asking for the devices of the node");
  py::dict info;
  for (const hpu::node::DeviceStatus& one : node->devices) {
    if (options.moduleId >= 0 ? static_cast<int>(one.moduleId) != options.moduleId : one.index != options.index)
      continue;
    info["name"] = one.name;
    info["target"] = std::string(hpu::targetName(one.target));
    info["total_memory"] = one.totalBytes;
    info["module_id"] = one.moduleId;
    info["pci_address"] = one.pciAddress;
    info["uuid"] = one.uuid;
  }
  if (OpenDevice* opened = openOrNull(index(device))) info["total_memory"] = opened->device.info().hbmBytes;
  return info;
}

MemoryStats memoryStats(int device) {
  OpenDevice* opened = openOrNull(index(device));
  return opened ? opened->memory->stats() : MemoryStats{};
}

py::list memorySnapshot(int device) {
  OpenDevice* opened = openOrNull(index(device));
  py::list segments;
  if (!opened) return segments;
  static const char* const states[] = {"used", "waiting for streams", "free"};
  for (const SegmentInfo& segment : opened->memory->snapshot()) {
    py::list blocks;
    for (const BlockInfo& block : segment.blocks)
      blocks.append(py::dict(py::arg("address") = block.address, py::arg("size") = block.bytes,
                             py::arg("requested_size") = block.asked, py::arg("stream") = block.stream,
                             py::arg("state") = states[static_cast<int>(block.state)]));
    segments.append(py::dict(py::arg("device") = static_cast<int>(index(device)), py::arg("address") = segment.address,
                             py::arg("total_size") = segment.bytes,
                             py::arg("segment_type") = segment.isSmall ? "small" : "large",
                             py::arg("blocks") = blocks));
  }
  return segments;
}

py::dict counts() {
  py::dict result;
  for (const auto& [op, count] : fallbackCounts()) {
    py::dict sites;
    for (const auto& [site, calls] : count.sites) sites[py::str(site)] = calls;
    result[py::str(op)] = py::dict(py::arg("calls") = count.calls, py::arg("sites") = sites);
  }
  return result;
}

void bindGraphs(py::module_& m) {
  py::class_<CapturedGraph, std::shared_ptr<CapturedGraph>>(m, "CapturedGraph")
      .def(py::init([] {
        // Its memory may end here, and tensors take Python's lock at their end.
        return std::shared_ptr<CapturedGraph>(new CapturedGraph, [](CapturedGraph* graph) {
          graph->reset();
          delete graph;
        });
      }))
      .def("begin", &CapturedGraph::begin, NoGil())
      .def("end", &CapturedGraph::end, NoGil())
      .def("reset", &CapturedGraph::reset, NoGil())
      .def("replay", &CapturedGraph::replay, NoGil())
      .def("is_captured", &CapturedGraph::isCaptured)
      .def("steps", &CapturedGraph::steps)
      .def("uses", [](const CapturedGraph& graph,
                      const at::Tensor& tensor) { return graph.uses(tensor.storage().unsafeGetStorageImpl()); })
      .def("memory", [](const CapturedGraph& graph) {
        const CapturedGraph::Memory memory = graph.memory();
        return py::dict(py::arg("kept") = memory.kept, py::arg("workspace") = memory.workspace);
      });
  py::class_<RelocatedGraph>(m, "RelocatedGraph")
      .def(py::init<CapturedGraph&, const std::vector<at::Tensor>&, const std::vector<at::Tensor>&>())
      .def("fits", &RelocatedGraph::fits)
      .def("run", &RelocatedGraph::run, NoGil())
      .def("steps", &RelocatedGraph::steps);
  py::class_<RecordingScope>(m, "RecordingScope").def(py::init()).def("end", &RecordingScope::end, NoGil());
  m.def("is_capturing", [](int device) { return isCapturing(index(device)); });
}

void bindDevices(py::module_& m) {
  m.def("device_count", [] { return static_cast<int>(deviceCount()); });
  m.def("why_no_device", [] { return whyNoDevice(); });
  m.def("current_device", [] { return static_cast<int>(currentDevice()); });
  m.def("set_device", [](int device) { setCurrentDevice(index(device)); });
  m.def("checked_index", [](int device) { return static_cast<int>(index(device)); });
  m.def("open", [](int device) { open(index(device)); }, NoGil());
  m.def("is_open", [](int device) { return openOrNull(index(device)) != nullptr; });
  m.def("is_forked_child", [] { return isForkedChild(); });
  m.def("describe_device", &describeDevice);
  m.def("synchronize", [](int device) { synchronizeDevice(device); }, NoGil());
}

void bindStreams(py::module_& m) {
  m.def("current_stream", [](int device) { return currentStreamId(index(device)); });
  m.def("set_stream", [](int device, int64_t id) { setCurrentStreamId(index(device), id); });
  m.def("pool_stream", [](int device, bool high) { return open(index(device)).streams->fromPool(high); }, NoGil());
  m.def(
      "stream_query",
      [](int device, int64_t id) {
        OpenDevice* opened = openOrNull(index(device));
        return !opened || opened->streams->query(id);
      },
      NoGil());
  m.def(
      "stream_synchronize",
      [](int device, int64_t id) {
        if (OpenDevice* opened = openOrNull(index(device))) {
          flush(opened->index, "synchronize");
          opened->streams->synchronize(id);
        }
      },
      NoGil());
  py::class_<TorchEvent>(m, "Event")
      .def(py::init([](bool timed) {
        TorchEvent event;
        event.timed = timed;
        return event;
      }))
      .def_readonly("device", &TorchEvent::device)
      .def(
          "record", [](TorchEvent& event, int device, int64_t stream) { record(event, index(device), stream); },
          NoGil())
      .def(
          "wait", [](TorchEvent& event, int device, int64_t stream) { block(event, index(device), stream); }, NoGil())
      .def(
          "query", [](TorchEvent& event) { return query(event); }, NoGil())
      .def(
          "synchronize", [](TorchEvent& event) { synchronize(event); }, NoGil())
      .def("elapsed_time", [](TorchEvent& start, TorchEvent& end) { return elapsedMs(start, end); }, NoGil());
}

void bindMemory(py::module_& m) {
  py::class_<MemoryStats>(m, "MemoryStats")
      .def_readonly("limit", &MemoryStats::limit)
      .def_readonly("used", &MemoryStats::used)
      .def_readonly("used_peak", &MemoryStats::usedPeak)
      .def_readonly("reserved", &MemoryStats::reserved)
      .def_readonly("reserved_peak", &MemoryStats::reservedPeak)
      .def_readonly("allocations", &MemoryStats::allocations)
      .def_readonly("frees", &MemoryStats::frees)
      .def_readonly("largest", &MemoryStats::largest)
      .def_readonly("device_allocations", &MemoryStats::deviceAllocations)
      .def_readonly("device_frees", &MemoryStats::deviceFrees)
      .def_readonly("active_blocks", &MemoryStats::activeBlocks)
      .def_readonly("active_segments", &MemoryStats::activeSegments)
      .def_readonly("waiting", &MemoryStats::waiting)
      .def_readonly("retries", &MemoryStats::retries)
      .def_readonly("failures", &MemoryStats::failures);
  m.def("memory_stats", &memoryStats);
  m.def("memory_snapshot", &memorySnapshot);
  m.def("reset_peak_memory", [](int device) {
    if (OpenDevice* opened = openOrNull(index(device))) opened->memory->resetPeaks();
  });
  m.def("empty_cache", [](int device) { return emptyCache(device); }, NoGil());
  m.def("mem_get_info", [](int device) {
    const hpu::MemoryInfo info = open(index(device)).device.memoryInfo();
    return std::make_pair(info.totalBytes - info.usedBytes, info.totalBytes);
  });
  m.def("pinned_bytes", [] { return pinnedBytes(); });
}

/// A tensor of the bytes of a Python storage, in place. (PyTorch's own conversions of storages do not know hpu.)
at::Tensor bytesOf(const py::object& object) {
  TORCH_CHECK_TYPE(torch::isStorage(object.ptr()), "expected an UntypedStorage");
  const auto storage = c10::Storage(
      c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(reinterpret_cast<THPStorage*>(object.ptr())->cdata));
  return at::empty({0}, at::TensorOptions().dtype(at::kByte).device(storage.device())).set_(storage);
}

void bindRest(py::module_& m) {
  m.def("default_generator", [](int device) { return deviceGenerator(device); });
  m.def("make_generator", [](int device) { return createGenerator(device); });
  m.def("manual_seed_all", [](uint64_t seed) { manualSeed(seed); });
  m.def("bytes_of", &bytesOf);
  m.def("replace_", [](const at::Tensor& tensor, const at::Tensor& values) { replaceTensor(tensor, values); });

  m.def("set_place_on_cpu", [](const std::string& ops) { setPlaceOnCpu(ops); });
  m.def("place_on_cpu", [] { return placeOnCpu(); });
  m.def("fallback_counts", &counts);
  m.def("reset_fallback_counts", [] { resetFallbackCounts(); });
  m.def("flush", [](int device) { flush(device < 0 ? -1 : index(device), "mark_step"); }, NoGil());
  m.def("set_lazy", [](bool lazy) { setLazy(lazy); }, NoGil());
  m.def("is_lazy", [] { return isLazy(); });
  m.def("set_max_nodes", [](int64_t nodes) { setMaxNodes(nodes); });
  m.def("inject_compile_faults", &injectCompileFaults, py::arg("most_nodes") = 0, py::arg("op") = "");
  m.def("record_counts", [] {
    const RecordCounts counts = recordCounts();
    return py::dict(py::arg("nodes") = counts.nodes, py::arg("graphs") = counts.graphs,
                    py::arg("compiles") = counts.compiles, py::arg("cache_hits") = counts.hits,
                    py::arg("compile_ms") = static_cast<double>(counts.compileNs) / 1e6,
                    py::arg("largest_graph") = counts.largestGraph, py::arg("split_graphs") = counts.splitGraphs,
                    py::arg("signatures") = counts.signatures, py::arg("flushes") = counts.flushes,
                    py::arg("refused") = counts.refused);
  });
  m.def("compile_records", [] {
    py::list records;
    for (const CompileRecord& one : compileRecords())
      records.append(py::dict(py::arg("what") = one.what, py::arg("why") = one.why, py::arg("free_sizes") = one.isFree,
                              py::arg("ops") = one.nodes, py::arg("ms") = static_cast<double>(one.ns) * 1e-6));
    return records;
  });
  m.def("reset_record_counts", [] { resetRecordCounts(); });
  m.def("table", [] { return tableNames(); });
  m.def("table_limits", [] {
    std::map<std::string, std::string> limits;
    for (const Limit& limit : tableLimits()) limits[std::string(limit.names)] = std::string(limit.text);
    return limits;
  });
  m.def("set_library_folders", [](std::vector<std::string> folders) { libraryFolders() = std::move(folders); });
  m.def("copy_counts", [] {
    const CopyCounters& counters = copyCounters();
    return py::dict(py::arg("to_device") = counters.toDevice.load(), py::arg("to_host") = counters.toHost.load(),
                    py::arg("on_device") = counters.onDevice.load(),
                    py::arg("between_devices") = counters.betweenDevices.load(),
                    py::arg("over_host") = counters.overHost.load());
  });
}

void bindAutocast(py::module_& m) {
  m.def("autocast_enabled", [] { return isAutocastEnabled(); });
  m.def("set_autocast_enabled", [](bool enabled) { setAutocastEnabled(enabled); });
  m.def("autocast_dtype", [] {
    return py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(torch::getTHPDtype(autocastType())));
  });
  m.def("set_autocast_dtype", [](const py::object& type) {
    TORCH_CHECK_TYPE(THPDtype_Check(type.ptr()), "expected a torch.dtype");
    setAutocastType(reinterpret_cast<THPDtype*>(type.ptr())->scalar_type);
  });
  m.def("clear_autocast_cache", [] { clearAutocastCache(); });
  m.def("autocast_lists", [] {
    const AutocastLists lists = autocastLists();
    return py::make_tuple(lists.lower, lists.fp32, lists.promote);
  });
  m.def("set_autocast_lists",
        [](std::vector<std::string> lower, std::vector<std::string> fp32, std::vector<std::string> promote) {
          setAutocastLists({std::move(lower), std::move(fp32), std::move(promote)});
        });
}

py::list traceEvents(const hpu::trace::Recording& recording) {
  std::map<std::pair<int32_t, uint32_t>, hpu::trace::TrackName> tracks;
  const auto names = hpu::trace::trackNames(recording);
  if (!names.ok()) raise(names.status(), "reading the recording");
  for (const hpu::trace::TrackName& track : *names) tracks[{track.device, track.track}] = track;
  const auto events = hpu::trace::events(recording);
  if (!events.ok()) raise(events.status(), "reading the recording");
  py::list list;
  for (const hpu::trace::Event& event : *events) {
    if (event.kind != hpu::trace::Event::Kind::kSpan) continue;
    py::dict arguments;
    for (const hpu::trace::Argument& argument : event.arguments) arguments[py::str(argument.key)] = argument.text;
    const hpu::trace::TrackName& track = tracks[{event.device, event.track}];
    list.append(py::dict(
        py::arg("name") = event.name, py::arg("category") = event.category, py::arg("device") = event.device,
        py::arg("track") = track.name, py::arg("start_us") = static_cast<double>(event.startPs) / 1e6,
        py::arg("duration_us") = static_cast<double>(event.durationPs) / 1e6, py::arg("arguments") = arguments));
  }
  return list;
}

void bindProfiler(py::module_& m) {
  using hpu::trace::Recording;
  py::class_<Recording>(m, "Recording")
      .def_readonly("dropped", &Recording::dropped)
      .def(
          "save",
          [](const Recording& recording, const std::string& path) {
            check(hpu::trace::save(recording, path), "writing the trace");
          },
          NoGil())
      .def("events", &traceEvents);
  m.def(
      "start_profile",
      [](int level, bool withShapes, bool withNames) {
        startProfile(static_cast<hpu::trace::Level>(level), withShapes, withNames);
      },
      NoGil());
  m.def("stop_profile", &stopProfile, NoGil());
  m.def("set_scope", [](const std::string& name) { setScope(name); });
}

}  // namespace

PYBIND11_MODULE(_C, m) {
  py::register_local_exception_translator(&translate);
  bindDevices(m);
  bindGraphs(m);
  bindStreams(m);
  bindMemory(m);
  bindRest(m);
  bindAutocast(m);
  bindProfiler(m);
  bindDistributed(m);
  setCallSite(&pythonCallSite);
}
