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
  };
  c10::StreamId stream = 0;
  bool isCaptured = false;  ///< It is of the thread that captures an HPU graph.
  std::vector<Node> nodes;
  std::vector<std::vector<Number>> numbers;  ///< Of each node.
  std::vector<Slot> slots;
  std::unordered_map<c10::StorageImpl*, int> index;
  std::vector<int64_t> key;  ///< The structure: signatures and places.
  bool isEmpty() const { return nodes.empty(); }
};

}  // namespace hpu_torch
