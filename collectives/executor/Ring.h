// SPDX-License-Identifier: Apache-2.0
// Ring: a queue that keeps the memory which it once needed, so that what goes through it for a long time allocates
// nothing.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace hpu::collectives {

/// T is default-constructed where nothing is.
template <typename T>
class Ring {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  T& operator[](size_t index) { return places_[(first_ + index) & (places_.size() - 1)]; }
  const T& operator[](size_t index) const { return places_[(first_ + index) & (places_.size() - 1)]; }
  T& front() { return (*this)[0]; }
  const T& front() const { return (*this)[0]; }
  T& back() { return (*this)[size_ - 1]; }
  void push(T value) {
    if (size_ == places_.size()) grow();
    (*this)[size_] = std::move(value);
    ++size_;
  }
  T pop() {
    T value = std::exchange(front(), T());
    first_ = (first_ + 1) & (places_.size() - 1);
    --size_;
    return value;
  }
  void swap(Ring& other) {
    places_.swap(other.places_);
    std::swap(first_, other.first_);
    std::swap(size_, other.size_);
  }

 private:
  void grow() {
    std::vector<T> larger(places_.empty() ? 8 : 2 * places_.size());  // A power of two.
    for (size_t i = 0; i < size_; ++i) larger[i] = std::move((*this)[i]);
    places_.swap(larger);
    first_ = 0;
  }

  std::vector<T> places_;
  size_t first_ = 0, size_ = 0;
};

}  // namespace hpu::collectives
