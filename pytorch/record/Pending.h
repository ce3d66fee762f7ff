// SPDX-License-Identifier: Apache-2.0
// Pending: the graph that is being recorded for a stream of a device.
// The one thing to know: it keeps the storages that it reads (their memory must not be given to others before it has
// run) and only remembers those that it made itself: one that is gone when the graph runs is a temporary value.
#pragma once

#include <c10/core/Storage.h>
#include <c10/core/Stream.h>
#include <c10/util/intrusive_ptr.h>

#include <unordered_map>
#include <vector>

#include "pytorch/record/Signature.h"

namespace hpu_torch {

struct Number {
  int64_t integer = 0;
  double real = 0;
};

struct Pending {
  struct Slot {
    c10::intrusive_ptr<c10::StorageImpl> kept;       ///< Null for one that the graph made.
    c10::weak_intrusive_ptr<c10::StorageImpl> made;  ///< Of that.
    hpu::ElementType type;
    bool isWritten = false;
    hpu::Shape sizes;  ///< Of the tensor that its memory was taken for; empty where nobody knows.
    size_t bytes = 0;  ///< Of its memory.
  };
  c10::StreamId stream = 0;
  bool isCaptured = false;  ///< It is of the thread that captures an HPU graph.
  std::vector<Node> nodes;
  std::vector<std::vector<Number>> numbers;  ///< Of each node.
  std::vector<Slot> slots;
  std::unordered_map<c10::StorageImpl*, int> index;
  std::vector<int64_t> key;  ///< The structure: signatures and places.
  bool isEmpty() const { return nodes.empty(); }

  void add(Node node, std::vector<Number> itsNumbers) {
    const Signature& signature = *node.signature;
    key.push_back(signature.id);
    if (node.scope != 0) key.push_back(-node.scope);
    for (const Place& place : node.operands) {
      key.push_back(place.storage);
      key.push_back(place.offset);
    }
    for (size_t k = 0; k < node.results.size(); ++k) {
      const Place& place = node.results[k];
      if (place.storage < 0) continue;
      // In the memory of its own a result begins at the beginning.
      if (signature.results[k].operand < 0) key.push_back(place.storage);
      slots[static_cast<size_t>(place.storage)].isWritten = true;
    }
    for (int operand : signature.written)
      slots[static_cast<size_t>(node.operands[static_cast<size_t>(operand)].storage)].isWritten = true;
    nodes.push_back(std::move(node));
    numbers.push_back(std::move(itsNumbers));
  }
};

}  // namespace hpu_torch
