// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/sim/functional/SharedUnits.h"

#include <algorithm>
#include <functional>
#include <string_view>

namespace hpu::sim {

void UnitKey::add(const std::vector<int64_t>& list) {
  numbers_.push_back(static_cast<int64_t>(list.size()));
  numbers_.insert(numbers_.end(), list.begin(), list.end());
}

/// Names of units are made of those of ops and bundles; equal hashes of different names would only mix up names.
void UnitKey::add(std::string_view name) {
  add(static_cast<int64_t>(std::hash<std::string_view>()(name)));
}

void UnitKey::add(const recipe::Operand& operand) {
  const recipe::Ring& ring = operand.ring;
  for (int64_t number :
       {static_cast<int64_t>(operand.section), static_cast<int64_t>(operand.offset), static_cast<int64_t>(operand.type),
        static_cast<int64_t>(ring.slots), static_cast<int64_t>(ring.dim), static_cast<int64_t>(ring.slotBytes)})
    add(number);
  add(operand.sizes);
  add(operand.strides);
}

void UnitKey::add(const recipe::Program& program, const recipe::Op& op) {
  add(static_cast<int64_t>(op.engine));
  add(op.name);
  add(op.space);
  switch (op.engine) {
    case Engine::kMme: {
      const recipe::MmeDesc& mme = op.mme;
      for (int64_t number : {static_cast<int64_t>(mme.kind), static_cast<int64_t>(mme.packing), mme.groups})
        add(number);
      for (const auto* pair : {&mme.strides, &mme.dilations, &mme.padBegin, &mme.padEnd})
        for (int64_t number : *pair) add(number);
      for (const recipe::Operand* operand : {&mme.a, &mme.b, &mme.c}) add(*operand);
      break;
    }
    case Engine::kTpc: {
      const recipe::Kernel& kernel = program.kernels[op.tpc.kernel];
      for (int64_t number : {static_cast<int64_t>(op.tpc.kernel), static_cast<int64_t>(kernel.wholeDims),
                             static_cast<int64_t>(kernel.scratchBytes), static_cast<int64_t>(op.tpc.inputs.size())})
        add(number);
      add(kernel.dims);
      for (const auto* list : {&op.tpc.inputs, &op.tpc.outputs})
        for (const recipe::Operand& operand : *list) add(operand);
      break;
    }
    case Engine::kDma:
      for (int64_t number : {static_cast<int64_t>(op.dma.fill), static_cast<int64_t>(op.dma.fillPattern)}) add(number);
      for (const recipe::Operand* operand : {&op.dma.src, &op.dma.dst}) add(*operand);
      break;
    case Engine::kNic:
      break;
  }
}

void UnitKey::add(const recipe::Bundle& bundle) {
  add(bundle.name);
  for (size_t number : {bundle.ops.size(), size_t{bundle.slices}}) add(static_cast<int64_t>(number));
}

void UnitKey::add(const recipe::Command& command) {
  for (int64_t number : {static_cast<int64_t>(command.op), static_cast<int64_t>(command.slice)}) add(number);
  add(command.lo);
  add(command.hi);
}

size_t UnitKey::hash() const {
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio.
  uint64_t hash = numbers_.size();
  for (int64_t number : numbers_) hash = ((hash >> 32) ^ hash ^ static_cast<uint64_t>(number)) * kFactor;
  return static_cast<size_t>(hash ^ (hash >> 32));
}

std::shared_ptr<const UnitGroup> SharedUnits::find(const UnitKey& key) const {
  std::lock_guard lock(mutex_);
  auto it = known_.find(key);
  return it == known_.end() ? nullptr : it->second.lock();
}

void SharedUnits::add(const UnitKey& key, const std::shared_ptr<const UnitGroup>& group) {
  std::lock_guard lock(mutex_);
  if (known_.size() >= cleanAt_) {
    std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
    cleanAt_ = std::max<size_t>(256, 2 * known_.size());
  }
  known_.insert_or_assign(key, group);
}

}  // namespace hpu::sim
