// SPDX-License-Identifier: Apache-2.0
#include "pytorch/record/Recorder.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <thread>

#include "pytorch/device/Fallback.h"
#include "pytorch/device/Memory.h"
#include "pytorch/device/Streams.h"
#include "pytorch/record/Calls.h"
#include "pytorch/record/Capture.h"
#include "pytorch/record/Pending.h"
#include "pytorch/record/Programs.h"
#include "pytorch/record/Run.h"
#include "pytorch/record/Scope.h"

namespace hpu_torch {
namespace {

using at::Tensor;

/// What is pending on a device. Lock order: running, then recording. Nothing that may wait for Python's lock is done,
/// and no tensor ends, with `recording`.
struct DeviceRecorder {
  std::recursive_mutex running;  ///< Graphs run one after the other, in the order in which they were recorded.
  std::mutex recording;          ///< Guards `pending`.
  std::unique_ptr<Pending> pending = std::make_unique<Pending>();
  std::atomic<int64_t> size{0};                    ///< Nodes of `pending`.
  std::atomic<int> flushing{0};                    ///< Graphs that were pending and are not launched yet.
  std::shared_ptr<CapturedGraph> capture;          ///< Guarded by `recording`.
  std::atomic<std::thread::id> capturingThread{};  ///< That began `capture`.
  std::atomic<c10::StreamId> capturedStream{-1};   ///< Of `capture`; -1: none.
};

DeviceRecorder& recorderOf(c10::DeviceIndex device) {
  static DeviceRecorder* all = new DeviceRecorder[kMaxDevices];
  return all[device];
}

int64_t settingOr(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::atoll(text) : otherwise;
}
std::atomic<bool>& lazyFlag() {
  static std::atomic<bool>& flag = *new std::atomic<bool>(settingOr("PT_HPU_LAZY_MODE", 0) == 1);
  return flag;
}
std::atomic<int64_t>& maxNodes() {
  static std::atomic<int64_t>& nodes =
      *new std::atomic<int64_t>(std::max<int64_t>(1, settingOr("PT_HPU_MAX_COMPOUND_OP_SIZE", 4096)));
  return nodes;
}

struct Reasons {
  std::mutex mutex;
  std::map<std::string, int64_t> counts;
  std::atomic<int64_t> nodes{0};
};
Reasons& reasons() {
  static Reasons& instance = *new Reasons;
  return instance;
}

thread_local int t_scopes = 0;

/// All that was recorded is launched. (A flush counts its graph before it empties `pending`.)
bool hasNothing(const DeviceRecorder& recorder) {
  return recorder.size.load(std::memory_order_acquire) == 0 && recorder.flushing.load(std::memory_order_acquire) == 0;
}

/// Whether what the calling thread gives its current stream is captured: that of the thread that captures, and of
/// libtorch's threads that run a backward pass, which do not take over the stream of the forward pass. (Whose backward
/// pass it is they do not say: none of another thread may go on at the time.)
bool capturesNow(DeviceRecorder& recorder, c10::DeviceIndex device) {
  const c10::StreamId captured = recorder.capturedStream.load(std::memory_order_acquire);
  if (C10_LIKELY(captured < 0)) return false;
  const c10::StreamId current = currentStreamId(device);
  if (recorder.capturingThread.load(std::memory_order_relaxed) == std::this_thread::get_id())
    return captured == current;
  return (captured == current || current == 0) && torch::autograd::get_current_graph_task_exec_info() != nullptr;
}

/// A graph has no way to wait for the host, nor to be waited for in the middle.
bool canCapture(const std::string& why) {
  for (const char* allowed : {"mark_step", "size", "memory", "another stream", "a view of another type", "resize",
                              "host work", "capture", "recording"})
    if (why == allowed) return true;
  return false;
}
void refuseToCapture(const std::string& why) {
  if (canCapture(why)) return;
  const std::string where = callSite();
  TORCH_CHECK(false, "a graph that is being captured cannot have this: ", why,
              where.empty() ? "" : " (called at " + where + ")",
              ". The host waits for nothing, and reads nothing of the device, between capture_begin and capture_end");
}

/// Places of the tensors in the pending graph.
int slotOf(Pending& graph, const Tensor& tensor, hpu::ElementType type, bool isNew) {
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  auto [found, isFirst] = graph.index.emplace(storage, static_cast<int>(graph.slots.size()));
  if (isFirst) {
    auto held = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage);
    Pending::Slot slot{{}, c10::weak_intrusive_ptr<c10::StorageImpl>(held), type, false, {}, storage->nbytes()};
    if (const Block* block = blockOf(storage->data_ptr())) slot.sizes.assign(block->sizes.begin(), block->sizes.end());
    if (!isNew) slot.kept = std::move(held);
    graph.slots.push_back(std::move(slot));
  }
  return found->second;
}

/// Whether a storage is pending with elements of another type, which a graph has no way to express.
bool hasOtherType(const Pending& graph, const Tensor& tensor, hpu::ElementType type) {
  auto found = graph.index.find(tensor.storage().unsafeGetStorageImpl());
  return found != graph.index.end() && graph.slots[static_cast<size_t>(found->second)].type != type;
}

void append(Pending& graph, const RecordedCall& call, const std::vector<Tensor>& results) {
  const Signature& signature = *call.signature;
  Node node;
  node.signature = call.signature;
  node.scope = currentScope();
  for (size_t i = 0; i < call.operands.size(); ++i)
    node.operands.push_back(
        {slotOf(graph, *call.operands[i], signature.operands[i].type, false), call.operands[i]->storage_offset()});
  for (size_t k = 0; k < signature.results.size(); ++k) {
    const ResultMeta& result = signature.results[k];
    Place place;
    if (result.operand >= 0)
      place = node.operands[static_cast<size_t>(result.operand)];
    else if (result.isDefined)
      place = {slotOf(graph, results[k], result.meta.type, true), 0};
    node.results.push_back(place);
  }
  graph.add(std::move(node), call.numbers);
}

bool writesNothing(const RecordedCall& call) {
  for (const ResultMeta& result : call.signature->results)
    if (result.isDefined && hpu::numElements(result.meta.sizes) > 0) return false;
  for (int operand : call.signature->written)
    if (hpu::numElements(call.signature->operands[static_cast<size_t>(operand)].sizes) > 0) return false;
  return true;
}

Tensor allocate(const TensorMeta& meta, at::ScalarType type) {
  Tensor tensor = at::detail::empty_strided_generic(meta.sizes, meta.strides, allocator(),
                                                    c10::DispatchKeySet(c10::DispatchKey::HPU), type);
  noteSizes(tensor.storage(), meta.sizes, meta.strides);
  return tensor;
}

/// Appends the call, and runs the graph when it is time to.
void submit(const RecordedCall& call, const std::vector<Tensor>& results, c10::DeviceIndex device) {
  if (writesNothing(call)) return;
  DeviceRecorder& recorder = recorderOf(device);
  ++reasons().nodes;
  if (!isRecording(device)) {
    // Of another mode, or of a stream that captures.
    if (recorder.capturedStream.load(std::memory_order_relaxed) < 0) flush(device, "eager");
    return runCall(device, call, results);
  }
  const bool isCaptured = capturesNow(recorder, device);
  const c10::StreamId stream = isCaptured ? recorder.capturedStream.load() : currentStreamId(device);
  while (true) {
    const char* conflict = nullptr;
    {
      std::lock_guard<std::mutex> lock(recorder.recording);
      Pending& graph = *recorder.pending;
      if (!graph.isEmpty() && (graph.stream != stream || graph.isCaptured != isCaptured)) conflict = "another stream";
      for (size_t i = 0; i < call.operands.size() && !conflict; ++i)
        if (hasOtherType(graph, *call.operands[i], call.signature->operands[i].type))
          conflict = "a view of another type";
      if (!conflict) {
        graph.stream = stream;
        graph.isCaptured = isCaptured;
        append(graph, call, results);
        ++recorder.size;
      }
    }
    if (!conflict) break;
    flush(device, conflict);
  }
  if (recorder.size.load(std::memory_order_relaxed) >= maxNodes().load(std::memory_order_relaxed))
    flush(device, "size");
}

void checkOverlaps(const RecordedCall& call) {
  auto checkOne = [&](int written) {
    const Tensor& target = *call.operands[static_cast<size_t>(written)];
    if (!target.is_non_overlapping_and_dense()) at::assert_no_internal_overlap(target);
    for (size_t i = 0; i < call.operands.size(); ++i)
      if (static_cast<int>(i) != written && call.operands[i]->storage().is_alias_of(target.storage()))
        at::assert_no_partial_overlap(target, *call.operands[i]);
  };
  for (const ResultMeta& result : call.signature->results)
    if (result.operand >= 0) checkOne(result.operand);
  for (int written : call.signature->written) checkOne(written);
}

}  // namespace

void beginCapture(c10::DeviceIndex device, c10::StreamId stream, std::shared_ptr<CapturedGraph> graph) {
  flush(device, "capture");
  DeviceRecorder& recorder = recorderOf(device);
  std::lock_guard<std::mutex> lock(recorder.recording);
  TORCH_CHECK(!recorder.capture, "hpu:", static_cast<int>(device), " is capturing a graph on stream ",
              recorder.capturedStream.load(), "; one graph is captured at a time");
  recorder.capture = std::move(graph);
  recorder.capturingThread = std::this_thread::get_id();
  recorder.capturedStream = stream;
}

void endCapture(c10::DeviceIndex device, const CapturedGraph* graph, bool flushes) {
  DeviceRecorder& recorder = recorderOf(device);
  std::lock_guard<std::recursive_mutex> running(recorder.running);
  std::shared_ptr<CapturedGraph> ended;
  std::unique_ptr<Pending> dropped;
  auto end = [&] {
    std::lock_guard<std::mutex> lock(recorder.recording);
    if (recorder.capture.get() != graph) return;
    if (!flushes && recorder.pending->isCaptured) {
      dropped = std::make_unique<Pending>();
      std::swap(dropped, recorder.pending);
      recorder.size = 0;
    }
    ended = std::move(recorder.capture);
    recorder.capture = nullptr;
    recorder.capturedStream = -1;
  };
  if (flushes) {
    try {
      flush(device, "capture");
    } catch (...) {
      end();
      throw;
    }
  }
  end();
}

std::shared_ptr<CapturedGraph> capturingGraph(c10::DeviceIndex device) noexcept {
  DeviceRecorder& recorder = recorderOf(device);
  if (!capturesNow(recorder, device)) return nullptr;
  std::lock_guard<std::mutex> lock(recorder.recording);
  return recorder.capture;
}

bool isRecording(c10::DeviceIndex device) noexcept {
  return isLazy() || t_scopes > 0 || capturesNow(recorderOf(device), device);
}
void addRecordingScope(int change) noexcept {
  t_scopes += change;
}

bool isLazy() {
  return lazyFlag().load(std::memory_order_relaxed);
}
void setLazy(bool lazy) {
  flush(-1, "mode");
  lazyFlag() = lazy;
}
void setMaxNodes(int64_t nodes) {
  TORCH_CHECK_VALUE(nodes >= 1, "a graph has at least one node, not at most ", nodes);
  maxNodes() = nodes;
}

void flush(c10::DeviceIndex device, const char* why) {
  if (device < 0) {
    for (c10::DeviceIndex i = 0; i < kMaxDevices; ++i) flush(i, why);
    return;
  }
  DeviceRecorder& recorder = recorderOf(device);
  if (capturesNow(recorder, device)) refuseToCapture(why);
  if (hasNothing(recorder) || isForkedChild()) return;
  std::unique_ptr<Pending> graph = std::make_unique<Pending>();
  std::shared_ptr<CapturedGraph> capture;
  {
    std::lock_guard<std::recursive_mutex> running(recorder.running);
    {
      std::lock_guard<std::mutex> lock(recorder.recording);
      if (recorder.pending->isEmpty()) return;
      if (recorder.pending->isCaptured) capture = recorder.capture;
      // Another thread waits for work of its own; what is captured is none.
      if (capture && !canCapture(why)) return;
      std::swap(graph, recorder.pending);
      ++recorder.flushing;
      recorder.size = 0;
    }
    struct Launched {
      DeviceRecorder& recorder;
      ~Launched() { --recorder.flushing; }
    } launched{recorder};
    if (isLazy()) {
      std::lock_guard<std::mutex> lock(reasons().mutex);
      ++reasons().counts[why];
    }
    runPending(device, *graph, capture.get());
  }
}

void flushStorage(const c10::Storage& storage, const char* why) {
  if (!storage || !storage.device().is_hpu()) return;
  const c10::DeviceIndex device = storage.device().index();
  DeviceRecorder& recorder = recorderOf(device);
  // What the host reads would be what was there before the graph ran.
  if (capturesNow(recorder, device) && std::string_view(why) == "copy to the host") refuseToCapture(why);
  if (hasNothing(recorder)) return;
  bool isPending;
  {
    std::lock_guard<std::mutex> lock(recorder.recording);
    isPending = recorder.pending->index.count(storage.unsafeGetStorageImpl()) > 0;
  }
  if (isPending) return flush(device, why);
  // Another thread's flush may be compiling what writes it.
  std::lock_guard<std::recursive_mutex> running(recorder.running);
}

void recordCall(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  RecordedCall call;
  if (!describeCall(op, *stack, call)) return cpuFallback(op, stack);
  const Signature& signature = *call.signature;
  if (!signature.written.empty() || call.writesOperands) checkOverlaps(call);
  std::vector<Tensor> results(signature.results.size());
  {
    c10::OptionalDeviceGuard guard;
    if (call.device.index() != currentDevice()) guard.reset_device(call.device);
    for (size_t k = 0; k < results.size(); ++k) {
      const ResultMeta& result = signature.results[k];
      if (result.operand >= 0) {
        results[k] = *call.operands[static_cast<size_t>(result.operand)];
      } else if (result.isDefined) {
        results[k] = allocate(result.meta, scalarTypeOf(result.meta.type));
      }
    }
    submit(call, results, call.device.index());
  }
  const size_t returns = op.schema().returns().size();
  torch::jit::drop(*stack, op.schema().arguments().size());
  for (size_t k = 0; k < returns; ++k) stack->emplace_back(std::move(results[k]));
}

namespace {
bool recordTwo(const char* name, const Tensor& dst, torch::jit::Stack stack) {
  const c10::OperatorHandle op =
      c10::Dispatcher::singleton().findSchemaOrThrow(name, std::string(name) == "aten::fill_" ? "Scalar" : "");
  RecordedCall call;
  if (!describeCall(op, stack, call)) return false;
  c10::DeviceGuard guard(dst.device());
  std::vector<Tensor> results(call.signature->results.size());
  submit(call, results, dst.device().index());
  return true;
}
}  // namespace

bool recordCopy(const Tensor& src, const Tensor& dst) {
  if (src.is_conj() || dst.is_conj() || src.is_neg() || dst.is_neg()) return false;
  return recordTwo("aten::_copy_from", dst, {src, dst, false});
}
bool recordFill(const Tensor& dst, const at::Scalar& value) {
  if (dst.is_conj() || dst.is_neg()) return false;
  return recordTwo("aten::fill_", dst, {dst, value});
}

RecordCounts recordCounts() {
  RecordCounts counts;
  counts.nodes = reasons().nodes;
  {
    std::lock_guard<std::mutex> lock(reasons().mutex);
    counts.flushes = reasons().counts;
  }
  const RunCounters& run = runCounters();
  counts.graphs = run.graphs;
  counts.compiles = run.compiles;
  counts.hits = run.hits;
  counts.compileNs = run.compileNs;
  counts.largestGraph = run.largest;
  counts.splitGraphs = run.split;
  countSignatures(counts);
  return counts;
}
void resetRecordCounts() {
  std::lock_guard<std::mutex> lock(reasons().mutex);
  reasons().counts.clear();
  reasons().nodes = 0;
  RunCounters& run = runCounters();
  for (std::atomic<int64_t>* one : {&run.graphs, &run.compiles, &run.hits, &run.compileNs, &run.largest, &run.split})
    *one = 0;
}

}  // namespace hpu_torch
