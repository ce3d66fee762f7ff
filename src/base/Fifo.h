// SPDX-License-Identifier: Apache-2.0
// Fifo: a queue in pieces of a few elements.
// The one thing to know: no push moves what is there already, however long it is, and a short queue that is emptied
// again and again allocates nothing.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

namespace hpu::base {

/// Of a T that can be moved and made without arguments. Not for several threads at a time.
template <typename T>
class Fifo {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return pieces_[(taken_ + i) / kPiece][(taken_ + i) % kPiece]; }
  T& front() { return pieces_.front()[taken_]; }
  T& back() { return pieces_.back().back(); }
  const T& front() const { return pieces_.front()[taken_]; }
  const T& back() const { return pieces_.back().back(); }

  /// Throws std::bad_alloc; nothing has changed then.
  T& push(T element) {
    if (pieces_.empty() || pieces_.back().size() == kPiece) {
      std::vector<T> piece;
      piece.reserve(kPiece);
      pieces_.push_back(std::move(piece));
    }
    pieces_.back().push_back(std::move(element));
    ++size_;
    return pieces_.back().back();
  }
  void popFront() {
    pieces_.front()[taken_] = T();
    --size_;
    if (size_ == 0) {
      clear();
    } else if (++taken_ == kPiece) {
      pieces_.pop_front();
      taken_ = 0;
    }
  }
  void popBack() {
    pieces_.back().pop_back();
    --size_;
    if (size_ == 0)
      clear();
    else if (pieces_.back().empty())
      pieces_.pop_back();
  }
  void clear() {
    if (pieces_.size() > 1) pieces_.erase(pieces_.begin() + 1, pieces_.end());
    if (!pieces_.empty()) pieces_.front().clear();
    size_ = taken_ = 0;
  }
  void swap(Fifo& other) noexcept {
    pieces_.swap(other.pieces_);
    std::swap(taken_, other.taken_);
    std::swap(size_, other.size_);
  }
  /// From front to back.
  template <typename Function>
  void forEach(const Function& function) {
    for (size_t i = 0; i < size_; ++i) function((*this)[i]);
  }

 private:
  static constexpr size_t kPiece = 16;
  std::deque<std::vector<T>> pieces_;  ///< Of kPiece elements but the last, which has some; one may be kept empty.
  size_t taken_ = 0;                   ///< Of the first piece.
  size_t size_ = 0;
};

}  // namespace hpu::base
