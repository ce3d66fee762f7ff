// SPDX-License-Identifier: Apache-2.0
#include "pytorch/record/Run.h"

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>

#include <cstring>
#include <mutex>

#include "pytorch/device/Memory.h"
#include "pytorch/device/Streams.h"
#include "pytorch/record/Capture.h"
#include "pytorch/record/Pieces.h"
#include "pytorch/record/Programs.h"
#include "pytorch/record/Scope.h"

namespace hpu_torch {
namespace {

/// Numbers that launches read, in device memory. Most are the same from step to step: they stay there.
class NumberBlocks {
 public:
  /// Kept by the caller until the launch is enqueued. `words`: the numbers, then device and stream.
  std::shared_ptr<c10::DataPtr> find(OpenDevice& device, c10::StreamId stream, c10::SmallVector<int64_t, 16>& words) {
    const size_t count = words.size();
    words.push_back(device.index * kStreams + stream);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (auto found = blocks_.find(wordsOf(words))) return found;
    }
    // Without the lock: when memory is short, this runs what other threads have recorded.
    const size_t bytes = count * sizeof(int64_t);
    auto memory = std::make_shared<c10::DataPtr>(allocator()->allocate(bytes));
    auto staged = std::make_shared<std::vector<int64_t>>(words.begin(), words.begin() + static_cast<int64_t>(count));
    check(device.streams->get(stream).copyToDevice(deviceAddress(memory->get()), staged->data(),
                                                   static_cast<int64_t>(bytes)),
          "copying numbers to the device");
    device.streams->keepUntilDone(stream, staged, static_cast<int64_t>(bytes));
    std::lock_guard<std::mutex> lock(mutex_);
    return blocks_.insert(wordsOf(words), memory);
  }

 private:
  // What is dropped goes to later allocations of the stream, behind the launches that still read it.
  std::mutex mutex_;
  WordMap<c10::DataPtr> blocks_{1024};
};
NumberBlocks& numberBlocks() {
  static NumberBlocks& blocks = *new NumberBlocks;
  return blocks;
}

int64_t wordOf(const Number& number, hpu::ElementType type) {
  if (type != hpu::ElementType::kF32) return number.integer;
  const auto value = static_cast<float>(number.real);
  int64_t word = 0;
  std::memcpy(&word, &value, sizeof value);
  return word;
}

/// `addressOf(binding)` is the address of an input or output, `numberOf(binding)` a run-time number. Gives the block
/// of the numbers, which the caller keeps until the launch is enqueued.
template <typename AddressOf, typename NumberOf>
std::shared_ptr<c10::DataPtr> fill(hpu::LaunchArguments& arguments, OpenDevice& device, c10::StreamId stream,
                                   const Program& program, const AddressOf& addressOf, const NumberOf& numberOf) {
  // First, as it may need memory, for which other graphs of the thread may be launched.
  std::shared_ptr<c10::DataPtr> block;
  if (!program.numbers.empty()) {
    c10::SmallVector<int64_t, 16> words;
    for (size_t input : program.numbers)
      words.push_back(wordOf(numberOf(program.inputs[input]), program.inputs[input].type));
    block = numberBlocks().find(device, stream, words);
  }
  arguments.inputs.clear();
  arguments.outputs.clear();
  for (const Binding& binding : program.inputs) arguments.inputs.push_back(binding.number < 0 ? addressOf(binding) : 0);
  for (const Binding& binding : program.outputs) arguments.outputs.push_back(addressOf(binding));
  uint64_t address = block ? deviceAddress(block->get()) : 0;
  for (size_t input : program.numbers) {
    arguments.inputs[input] = address;
    address += sizeof(int64_t);
  }
  arguments.inputShapes = program.inputShapes;
  return block;
}

template <typename AddressOf, typename NumberOf>
hpu::Status launch(OpenDevice& device, c10::StreamId stream, const Program& program, const AddressOf& addressOf,
                   const NumberOf& numberOf) {
  thread_local hpu::LaunchArguments& arguments = *new hpu::LaunchArguments;
  const auto numbers = fill(arguments, device, stream, program, addressOf, numberOf);
  ++runCounters().graphs;
  return program.executable.launch(device.streams->get(stream), arguments);
}

std::vector<Storage> storagesOf(const Pending& graph, const std::vector<bool>& isAlive) {
  std::vector<Storage> storages;
  for (size_t s = 0; s < graph.slots.size(); ++s) storages.push_back({isAlive[s], graph.slots[s].sizes});
  return storages;
}

}  // namespace

namespace {

/// Not OK: it cannot be compiled, and nothing has run. Throws where it cannot be launched.
hpu::Status runWhole(OpenDevice& device, Pending& graph, CapturedGraph* capture) {
  std::vector<bool> isAlive(graph.slots.size());
  std::vector<int64_t>& key = graph.key;
  int64_t bits = 1;
  for (size_t s = 0; s < graph.slots.size(); ++s) {
    Pending::Slot& slot = graph.slots[s];
    if (slot.isWritten) {
      if (!slot.kept) {
        slot.kept = slot.made.lock();
        isAlive[s] = static_cast<bool>(slot.kept);
      } else {
        isAlive[s] = c10::raw::intrusive_ptr::use_count(slot.kept.get()) > 1;
      }
    }
    bits = bits << 1 | (isAlive[s] ? 1 : 0);
    if (s % 62 == 61) key.push_back(bits), bits = 1;
  }
  key.push_back(bits);
  key.push_back(device.index);

  std::shared_ptr<const Program> program = findProgram(wordsOf(key));
  if (program) {
    ++runCounters().hits;
  } else {
    hpu::StatusOr<std::shared_ptr<const Program>> made =
        tryProgram(device.device, wordsOf(key), graph.nodes, storagesOf(graph, isAlive));
    if (!made.ok()) return made.status();
    program = *made;
  }
  if (program->outputs.empty()) return hpu::okStatus();
  const auto nodes = static_cast<int64_t>(graph.nodes.size());
  if (nodes > runCounters().largest) runCounters().largest = nodes;
  auto addressOf = [&](const Binding& binding) {
    const Pending::Slot& slot = graph.slots[static_cast<size_t>(binding.storage)];
    return deviceAddress(slot.kept->data()) + static_cast<uint64_t>(binding.byteOffset);
  };
  auto numberOf = [&](const Binding& binding) {
    return graph.numbers[static_cast<size_t>(binding.node)][static_cast<size_t>(binding.number)];
  };
  if (capture) {
    hpu::LaunchArguments arguments;
    auto numbers = fill(arguments, device, graph.stream, *program, addressOf, numberOf);
    // Replays may be on streams that know nothing of the copy of the numbers on this one.
    if (numbers) check(device.streams->get(graph.stream).synchronize(-1), "copying numbers of a captured graph");
    for (const std::vector<Binding>* bindings : {&program->inputs, &program->outputs})
      for (const Binding& binding : *bindings)
        if (binding.number < 0) capture->keep(graph.slots[static_cast<size_t>(binding.storage)].kept);
    capture->addLaunch(program, std::move(arguments), std::move(numbers));
    return hpu::okStatus();
  }
  const hpu::Status launched = launch(device, graph.stream, *program, addressOf, numberOf);
  if (!launched.ok()) raise(launched, "launching " + describe(graph.nodes));
  return hpu::okStatus();
}

}  // namespace

void runPending(c10::DeviceIndex index, Pending& graph, CapturedGraph* capture) {
  OpenDevice& device = open(index);
  c10::DeviceGuard guard(c10::Device(kHpu, index));
  const c10::StreamId current = currentStreamId(index);
  // Memory of the graph's own is of its stream.
  struct Restore {
    c10::DeviceIndex index;
    c10::StreamId stream;
    ~Restore() { setCurrentStreamId(index, stream); }
  } restore{index, current};
  setCurrentStreamId(index, graph.stream);
  runInPieces(graph, [&](Pending& piece) { return runWhole(device, piece, capture); });
}

namespace {

/// The memory of one call: its operands, then results of its own. Places count from the lowest tensor of a storage, so
/// that equal calls on other parts of a storage have equal structures.
class CallMemory {
 public:
  CallMemory(const RecordedCall& call, const std::vector<at::Tensor>& results) : call_(call) {
    for (const at::Tensor* tensor : call.operands) add(*tensor);
    for (size_t k = 0; k < results.size(); ++k) {
      const ResultMeta& result = call.signature->results[k];
      if (result.operand < 0 && result.isDefined) add(results[k]);
    }
  }

  /// How its tensors share storages; nothing where none do.
  void addTo(c10::SmallVector<int64_t, 16>& key) const {
    if (storages_.size() == tensors_.size()) return;
    for (const Tensor& tensor : tensors_) {
      key.push_back(tensor.storage);
      key.push_back(placeOf(tensor).offset);
    }
  }

  Node node() const {
    Node node;
    node.signature = call_.signature;
    node.scope = currentScope();
    size_t next = 0;
    for (size_t i = 0; i < call_.operands.size(); ++i) node.operands.push_back(placeOf(tensors_[next++]));
    for (const ResultMeta& result : call_.signature->results) {
      Place place;
      if (result.operand >= 0)
        place = node.operands[static_cast<size_t>(result.operand)];
      else if (result.isDefined)
        place = placeOf(tensors_[next++]);
      node.results.push_back(place);
    }
    return node;
  }

  size_t storages() const { return storages_.size(); }
  uint64_t addressOf(const Binding& binding) const {
    const Tensor& lowest = tensors_[static_cast<size_t>(storages_[static_cast<size_t>(binding.storage)].lowest)];
    return deviceAddress(lowest.tensor->data_ptr()) + static_cast<uint64_t>(binding.byteOffset);
  }

 private:
  struct Tensor {
    const at::Tensor* tensor;
    int storage;
  };
  struct Shared {
    const c10::StorageImpl* storage;
    int lowest;  ///< Of the tensors.
  };

  void add(const at::Tensor& tensor) {
    const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
    const int next = static_cast<int>(tensors_.size());
    size_t s = 0;
    while (s < storages_.size() && storages_[s].storage != storage) ++s;
    if (s == storages_.size())
      storages_.push_back({storage, next});
    else if (tensor.storage_offset() < tensors_[static_cast<size_t>(storages_[s].lowest)].tensor->storage_offset())
      storages_[s].lowest = next;
    tensors_.push_back({&tensor, static_cast<int>(s)});
  }
  Place placeOf(const Tensor& tensor) const {
    const int lowest = storages_[static_cast<size_t>(tensor.storage)].lowest;
    return {tensor.storage,
            tensor.tensor->storage_offset() - tensors_[static_cast<size_t>(lowest)].tensor->storage_offset()};
  }

  const RecordedCall& call_;
  c10::SmallVector<Tensor, 8> tensors_;
  c10::SmallVector<Shared, 8> storages_;
};

}  // namespace

void runCall(c10::DeviceIndex index, const RecordedCall& call, const std::vector<at::Tensor>& results) {
  OpenDevice& device = open(index);
  const CallMemory memory(call, results);
  // Negative: no graph's key begins so.
  c10::SmallVector<int64_t, 16> key = {-call.signature->id, index};
  if (const int64_t scope = currentScope()) key.push_back(-scope);
  memory.addTo(key);
  std::shared_ptr<const Program> program = findProgram(wordsOf(key));
  if (program)
    ++runCounters().hits;
  else
    program = makeProgram(device.device, wordsOf(key), {memory.node()}, std::vector<Storage>(memory.storages()));
  if (program->outputs.empty()) return;
  const hpu::Status launched = launch(
      device, currentStreamId(index), *program, [&](const Binding& binding) { return memory.addressOf(binding); },
      [&](const Binding& binding) { return call.numbers[static_cast<size_t>(binding.number)]; });
  if (!launched.ok()) raise(launched, "launching " + call.signature->text());
}

}  // namespace hpu_torch
