// SPDX-License-Identifier: Apache-2.0
// The recorder: aten calls on hpu tensors become nodes of a pending graph, which runs when its results are wanted.
// The one thing to know: results have their memory at once, and only their contents come later; who reads or writes
// memory of the device in another way flushes first. In eager mode each call is a graph of its own.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/Scalar.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "hpu_torch/api.h"
#include "pytorch/record/Flush.h"

namespace hpu_torch {

/// The kernel of all ops at the key HPU: records the call, or places it on the CPU when the table has no row for it or
/// its types cannot be computed (cpuFallback, which counts or refuses).
void recordCall(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// dst takes src's values, as a node. False: not recorded (types that the device does not compute).
bool recordCopy(const at::Tensor& src, const at::Tensor& dst);
/// All elements of dst take the value, as a node. False: not recorded.
bool recordFill(const at::Tensor& dst, const at::Scalar& value);

/// flush() when the pending graph reads or writes the storage.
void flushStorage(const c10::Storage& storage, const char* why);

/// Of the calling thread: above 0, calls become nodes whatever the mode.
void addRecordingScope(int change) noexcept;

class CapturedGraph;
/// From now on what the stream is given is recorded for the graph. What was recorded before runs first. Throws when the
/// device captures already.
void beginCapture(c10::DeviceIndex device, c10::StreamId stream, std::shared_ptr<CapturedGraph> graph);
/// `flushes`: what is still recorded belongs to the graph, else it is dropped.
void endCapture(c10::DeviceIndex device, const CapturedGraph* graph, bool flushes);
/// The graph that the calling thread's current stream captures; null: none.
std::shared_ptr<CapturedGraph> capturingGraph(c10::DeviceIndex device) noexcept;
/// Whether calls on the thread's current stream become nodes, and do not run at once.
bool isRecording(c10::DeviceIndex device) noexcept;

HPU_TORCH_API void setLazy(bool lazy);  ///< Flushes first. PT_HPU_LAZY_MODE=1 is lazy from the beginning.
HPU_TORCH_API bool isLazy();
/// A pending graph of that many nodes runs by itself (PT_HPU_MAX_COMPOUND_OP_SIZE; 4096).
HPU_TORCH_API void setMaxNodes(int64_t nodes);

struct RecordCounts {
  int64_t nodes = 0, graphs = 0;  ///< Recorded, launched.
  int64_t compiles = 0, hits = 0;
  int64_t compileNs = 0;
  int64_t largestGraph = 0;                    ///< Nodes.
  int64_t splitGraphs = 0;                     ///< That could not be compiled as one, and ran in parts.
  int64_t signatures = 0;                      ///< Kinds of calls of the process: never reset.
  std::map<std::string, int64_t> flushes;      ///< By reason.
  std::map<std::string, std::string> refused;  ///< Calls that cannot be compiled, and why.
};
HPU_TORCH_API RecordCounts recordCounts();
HPU_TORCH_API void resetRecordCounts();

}  // namespace hpu_torch
