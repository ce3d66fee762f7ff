// SPDX-License-Identifier: Apache-2.0
#include "pytorch/record/Relocate.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <set>

#include "pytorch/device/Memory.h"
#include "pytorch/device/Runtime.h"
#include "pytorch/device/Streams.h"
#include "pytorch/record/Flush.h"
#include "pytorch/record/Recorder.h"

namespace hpu_torch {
namespace {

const c10::StorageImpl* storageOf(const at::Tensor& tensor) {
  return tensor.storage().unsafeGetStorageImpl();
}
int64_t distanceOf(const at::Tensor& tensor, const at::Tensor& from) {
  return static_cast<const char*>(tensor.data_ptr()) - static_cast<const char*>(from.data_ptr());
}
/// The tensor before `i` that shares its storage; -1: none.
int sharedBefore(const std::vector<at::Tensor>& tensors, size_t i) {
  for (size_t j = 0; j < i; ++j)
    if (storageOf(tensors[j]) == storageOf(tensors[i])) return static_cast<int>(j);
  return -1;
}

}  // namespace

RelocatedGraph::RelocatedGraph(CapturedGraph& graph, const std::vector<at::Tensor>& inputs,
                               const std::vector<at::Tensor>& outputs) {
  for (const std::vector<at::Tensor>* tensors : {&inputs, &outputs})
    for (const at::Tensor& tensor : *tensors)
      TORCH_CHECK(tensor.defined() && tensor.device().is_hpu(), "a compiled graph has tensors of hpu only");
  device_ = inputs.empty() ? currentDevice() : inputs[0].device().index();
  auto like = [](const at::Tensor& tensor) {
    return Like{tensor.scalar_type(),    tensor.sizes().vec(), tensor.strides().vec(),
                tensor.storage_offset(), tensor.is_neg(),      tensor.is_conj()};
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    Input input{like(inputs[i]), sharedBefore(inputs, i), 0};
    if (input.sharesWith >= 0) input.distance = distanceOf(inputs[i], inputs[static_cast<size_t>(input.sharesWith)]);
    inputs_.push_back(std::move(input));
  }
  std::vector<CapturedGraph::Step> steps = graph.takeSteps();
  std::set<const c10::StorageImpl*> pinned;  // Work of the host knows its memory itself.
  for (const CapturedGraph::Step& step : steps) pinned.insert(step.used.begin(), step.used.end());

  std::vector<const c10::StorageImpl*> made;
  auto sourceOf = [&](const c10::StorageImpl* storage) {
    Source source;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (storageOf(inputs[i]) == storage) {
        source.kind = Source::Kind::kInput;
        source.index = static_cast<int>(i);
        return source;
      }
    auto found = std::find(made.begin(), made.end(), storage);
    if (found == made.end()) return source;
    source.kind = Source::Kind::kOutput;
    source.index = static_cast<int>(found - made.begin());
    return source;
  };
  for (const at::Tensor& tensor : outputs) {
    const c10::StorageImpl* storage = storageOf(tensor);
    if (sourceOf(storage).kind == Source::Kind::kFixed && pinned.count(storage) == 0) {
      made.push_back(storage);
      Memory memory;
      memory.bytes = static_cast<int64_t>(storage->nbytes());
      if (const Block* block = blockOf(storage->data_ptr())) memory.sizes = block->sizes;
      memories_.push_back(std::move(memory));
    }
    Output output;
    static_cast<Like&>(output) = like(tensor);
    output.memory = sourceOf(storage);
    if (output.memory.kind == Source::Kind::kFixed) output.fixed = tensor;
    if (output.memory.kind == Source::Kind::kInput)
      output.memory.offset = distanceOf(tensor, inputs[static_cast<size_t>(output.memory.index)]);
    outputs_.push_back(std::move(output));
  }

  kept_ = graph.takeMemory();
  auto locate = [&](uint64_t address) {
    Source source;
    for (const auto& storage : kept_) {
      const uint64_t begin = deviceAddress(storage->data());
      if (address < begin || address >= begin + storage->nbytes()) continue;
      source = sourceOf(storage.get());
      source.offset = static_cast<int64_t>(address - begin);
      if (source.kind == Source::Kind::kInput)
        source.offset = static_cast<int64_t>(address) -
                        static_cast<int64_t>(deviceAddress(inputs[static_cast<size_t>(source.index)].data_ptr()));
      break;
    }
    source.address = address;
    return source;
  };
  for (CapturedGraph::Step& step : steps) {
    Launch launch;
    for (uint64_t address : step.arguments.inputs) launch.inputs.push_back(locate(address));
    for (uint64_t address : step.arguments.outputs) launch.outputs.push_back(locate(address));
    launch.step = std::move(step);
    steps_.push_back(std::move(launch));
  }
  // The memory of those tensors is not this graph's.
  kept_.erase(std::remove_if(kept_.begin(), kept_.end(),
                             [&](const auto& storage) {
                               return pinned.count(storage.get()) == 0 &&
                                      sourceOf(storage.get()).kind != Source::Kind::kFixed;
                             }),
              kept_.end());
}

bool RelocatedGraph::fits(const std::vector<at::Tensor>& inputs) const {
  if (inputs.size() != inputs_.size()) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor& tensor = inputs[i];
    const Input& input = inputs_[i];
    if (!tensor.defined() || !tensor.device().is_hpu() || tensor.device().index() != device_ ||
        tensor.scalar_type() != input.type || tensor.sizes() != input.sizes || tensor.strides() != input.strides ||
        tensor.is_neg() != input.isNegated || tensor.is_conj() != input.isConjugated)
      return false;
    const int shares = sharedBefore(inputs, i);
    if (shares != input.sharesWith) return false;
    if (shares >= 0 && distanceOf(tensor, inputs[static_cast<size_t>(shares)]) != input.distance) return false;
  }
  return true;
}

std::vector<at::Tensor> RelocatedGraph::run(const std::vector<at::Tensor>& inputs) {
  TORCH_CHECK(fits(inputs), "a compiled graph was given tensors that do not lie in memory as those it was made for");
  OpenDevice& device = open(device_);
  c10::OptionalDeviceGuard guard;
  if (device_ != currentDevice()) guard.reset_device(c10::Device(kHpu, device_));
  TORCH_CHECK(!isCapturing(device_), "a compiled graph cannot be run on a stream that captures another one");
  flush(device_, "replay");
  const c10::StreamId id = currentStreamId(device_);
  std::vector<c10::Storage> memories;
  for (const Memory& memory : memories_) {
    c10::DataPtr data = allocator()->allocate(static_cast<size_t>(memory.bytes));
    if (Block* block = blockOf(data)) block->sizes = memory.sizes;
    memories.emplace_back(c10::Storage::use_byte_size_t(), memory.bytes, std::move(data), allocator(),
                          /*resizable=*/true);
  }
  auto addressOf = [&](const Source& source) {
    switch (source.kind) {
      case Source::Kind::kInput:
        return deviceAddress(inputs[static_cast<size_t>(source.index)].data_ptr()) +
               static_cast<uint64_t>(source.offset);
      case Source::Kind::kOutput:
        return deviceAddress(memories[static_cast<size_t>(source.index)].data()) + static_cast<uint64_t>(source.offset);
      default:
        return source.address;
    }
  };
  hpu::Stream& stream = device.streams->get(id);
  for (Launch& launch : steps_) {
    if (!launch.step.program) {
      launch.step.work();
      flush(device_, "replay");
      continue;
    }
    hpu::LaunchArguments arguments;
    arguments.inputShapes = launch.step.arguments.inputShapes;
    for (const Source& source : launch.inputs) arguments.inputs.push_back(addressOf(source));
    for (const Source& source : launch.outputs) arguments.outputs.push_back(addressOf(source));
    ++runCounters().graphs;
    check(launch.step.program->executable.launch(stream, arguments), "running a compiled graph");
  }
  std::vector<at::Tensor> results;
  for (const Output& output : outputs_) {
    if (output.memory.kind == Source::Kind::kFixed) {
      results.push_back(output.fixed.clone());
      continue;
    }
    const bool isInput = output.memory.kind == Source::Kind::kInput;
    const at::Tensor* input = isInput ? &inputs[static_cast<size_t>(output.memory.index)] : nullptr;
    const c10::Storage& storage = isInput ? input->storage() : memories[static_cast<size_t>(output.memory.index)];
    const auto itemBytes = static_cast<int64_t>(c10::elementSize(output.type));
    const int64_t offset = isInput ? input->storage_offset() + output.memory.offset / itemBytes : output.offset;
    at::Tensor result = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::HPU), c10::scalarTypeToTypeMeta(output.type));
    result.unsafeGetTensorImpl()->set_storage_offset(offset);
    result.unsafeGetTensorImpl()->set_sizes_and_strides(output.sizes, output.strides);
    result._set_neg(output.isNegated);
    result._set_conj(output.isConjugated);
    results.push_back(std::move(result));
  }
  return results;
}

RecordingScope::RecordingScope() {
  addRecordingScope(1);
}
RecordingScope::~RecordingScope() {
  if (isOpen_) addRecordingScope(-1);
}
void RecordingScope::end() {
  if (!isOpen_) return;
  isOpen_ = false;
  addRecordingScope(-1);
  flush(currentDevice(), "recording");
}

}  // namespace hpu_torch
