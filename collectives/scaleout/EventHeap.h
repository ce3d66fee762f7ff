// SPDX-License-Identifier: Apache-2.0
// EventHeap: a heap of events in the order of their time, then of their key.
// The one thing to know: no two events of one time have one key, so what comes out does not depend on the order in
// which events were put in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hpu::collectives {

struct Event {
  int64_t timePs = 0;
  uint64_t key = 0;
  bool before(const Event& other) const { return timePs != other.timePs ? timePs < other.timePs : key < other.key; }
};

// Of four children each: half as deep as one of two, and a node's children are in one cache line.
class EventHeap {
 public:
  bool empty() const { return heap_.empty(); }
  void push(Event event) {
    size_t i = heap_.size();
    heap_.push_back(event);
    while (i > 0) {
      const size_t parent = (i - 1) / 4;
      if (!event.before(heap_[parent])) break;
      heap_[i] = heap_[parent];
      i = parent;
    }
    heap_[i] = event;
  }
  Event pop() {
    const Event top = heap_.front(), last = heap_.back();
    heap_.pop_back();
    const size_t size = heap_.size();
    if (size == 0) return top;
    size_t i = 0;
    for (;;) {
      const size_t first = 4 * i + 1;
      if (first >= size) break;
      size_t least = first;
      const size_t end = first + 4 < size ? first + 4 : size;
      for (size_t c = first + 1; c < end; ++c)
        if (heap_[c].before(heap_[least])) least = c;
      if (!heap_[least].before(last)) break;
      heap_[i] = heap_[least];
      i = least;
    }
    heap_[i] = last;
    return top;
  }

 private:
  std::vector<Event> heap_;
};

}  // namespace hpu::collectives
