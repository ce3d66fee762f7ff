// SPDX-License-Identifier: Apache-2.0
// Handles: the objects behind one kind of opaque handle.
// The one thing to know: a handle is never an address: it holds the kind, a generation and a slot, so that a
// stale handle, one of another kind or any number at all is told from a live one without touching memory.
//
//   Handles<StreamObject, synStreamHandle>& table = streams();
//   synStreamHandle handle = table.insert(std::make_shared<StreamObject>(...));
//   SYN_FIND(stream, table, handle);  // In the body of an entry point.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "base/Abandon.h"
#include "bindings/synapse/api/Result.h"

namespace hpu::synapse {

/// In the upper byte of a handle.
enum class HandleKind : uint8_t {
  kStream = 0x51,
  kEvent,
  kGraph,
  kTensor,
  kSection,
  kRecipe,
  kCommunicator,
  kRegistration
};
/// "stream", "event" ...; "" for none.
const char* handleKindName(HandleKind kind);

/// What the library does with every table; they register themselves.
class HandleTable {
 public:
  explicit HandleTable(HandleKind kind);
  virtual ~HandleTable();
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;
  /// Ends every handle.
  virtual void clear() = 0;
  virtual size_t size() const = 0;
  /// In a forked child: forgets every handle without ending its object, which is the parent's, and without the lock,
  /// which a thread of the parent may have held.
  virtual void abandon() noexcept = 0;
  HandleKind kind() const { return kind_; }

  /// clear() of every table.
  static void clearAll();
  /// abandon() of every table.
  static void abandonAll() noexcept;

 protected:
  static constexpr int kSlotBits = 32;
  static constexpr uint32_t kGenerations = 1u << 24;
  /// Between a parent and its child, so that the parent's handles are not taken for the child's.
  static constexpr uint32_t kGenerationsOfProcess = 1u << 12;
  uint64_t encode(uint32_t slot, uint32_t generation) const {
    return static_cast<uint64_t>(kind_) << 56 | static_cast<uint64_t>(generation) << kSlotBits | slot;
  }
  bool mine(uint64_t handle) const { return handle >> 56 == static_cast<uint64_t>(kind_); }
  static uint32_t generationOf(uint64_t handle) {
    return static_cast<uint32_t>(handle >> kSlotBits) & (kGenerations - 1);
  }
  /// The error for a handle that is not live. `parents`: it looks like one from before a fork.
  Result missingHandle(uint64_t handle, bool parents) const;
  Result fullTable(size_t limit) const;

 private:
  const HandleKind kind_;
};

/// `H` is the handle's type, a pointer or an integer of 64 bits. Any thread may call anything.
template <typename T, typename H>
class Handles final : public HandleTable {
 public:
  /// Of at most `limit` objects at a time.
  explicit Handles(HandleKind kind, size_t limit = UINT32_MAX) : HandleTable(kind), limit_(limit) {}

  /// Null (0) when there are as many as there may be.
  H insert(std::shared_ptr<T> object) {
    std::unique_lock lock(mutex_);
    uint32_t slot;
    if (free_.empty()) {
      if (slots_.size() >= limit_) return toHandle(0);
      slot = static_cast<uint32_t>(slots_.size());
      slots_.push_back({nullptr, firstGeneration_});
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    slots_[slot].object = std::move(object);
    return toHandle(encode(slot, slots_[slot].generation));
  }

  /// Null when the handle is not live.
  std::shared_ptr<T> find(H handle) const {
    std::shared_lock lock(mutex_);
    const Slot* slot = slotOf(handle);
    return slot ? slot->object : nullptr;
  }

  /// Ends the handle and gives its object; null when it is not live.
  std::shared_ptr<T> remove(H handle) {
    std::unique_lock lock(mutex_);
    Slot* slot = const_cast<Slot*>(slotOf(handle));
    return slot ? release(*slot) : nullptr;
  }

  /// Ends the handles of the objects for which `condition(const T&)` holds. The objects end outside the lock.
  template <typename Condition>
  void removeIf(Condition&& condition) {
    std::vector<std::shared_ptr<T>> gone;
    std::unique_lock lock(mutex_);
    for (Slot& slot : slots_)
      if (slot.object && condition(static_cast<const T&>(*slot.object))) gone.push_back(release(slot));
    lock.unlock();
  }

  /// The live objects now.
  std::vector<std::shared_ptr<T>> all() const {
    std::vector<std::shared_ptr<T>> objects;
    std::shared_lock lock(mutex_);
    for (const Slot& slot : slots_)
      if (slot.object) objects.push_back(slot.object);
    return objects;
  }

  void clear() override {
    removeIf([](const T&) { return true; });
  }
  void abandon() noexcept override {
    base::abandon(mutex_);
    base::abandon(slots_);
    base::abandon(free_);
    firstGeneration_ += kGenerationsOfProcess;
  }
  size_t size() const override {
    std::shared_lock lock(mutex_);
    return slots_.size() - free_.size();
  }

  /// The failure of a call whose object found no place.
  Result full() const { return fullTable(limit_); }
  Result missing(H handle) const {
    uint64_t number = toNumber(handle);
    return missingHandle(number, generationOf(number) < firstGeneration_);
  }

 private:
  struct Slot {
    std::shared_ptr<T> object;
    uint32_t generation = 1;
  };

  static H toHandle(uint64_t number) {
    if constexpr (std::is_pointer_v<H>)
      return reinterpret_cast<H>(static_cast<uintptr_t>(number));
    else
      return number;
  }
  static uint64_t toNumber(H handle) {
    if constexpr (std::is_pointer_v<H>)
      return reinterpret_cast<uintptr_t>(handle);
    else
      return handle;
  }
  const Slot* slotOf(H handle) const {
    uint64_t number = toNumber(handle);
    auto slot = static_cast<uint32_t>(number);
    if (!mine(number) || slot >= slots_.size() || !slots_[slot].object ||
        slots_[slot].generation != generationOf(number))
      return nullptr;
    return &slots_[slot];
  }
  std::shared_ptr<T> release(Slot& slot) {
    slot.generation = slot.generation + 1 == kGenerations ? 1 : slot.generation + 1;
    free_.push_back(static_cast<uint32_t>(&slot - slots_.data()));
    return std::move(slot.object);
  }

  const size_t limit_;
  mutable std::shared_mutex mutex_;  // Guards what follows.
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  uint32_t firstGeneration_ = 1;
};

}  // namespace hpu::synapse
