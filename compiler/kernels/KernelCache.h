// SPDX-License-Identifier: Apache-2.0
// What was generated and priced of kernels, kept for later compilations of the process: graphs of one client share
// many. The one thing to know: a key says all that a value depends on, and values are the same whoever made them, so a
// recipe does not depend on what was compiled before it.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace hpu::kernels {

/// By key, the most recently used `capacity` bytes of values. Any thread may call.
template <typename T>
class KernelCache {
 public:
  explicit KernelCache(size_t capacity) : capacity_(capacity) {}

  /// Null: not known.
  std::shared_ptr<const T> find(const std::string& key) {
    std::lock_guard lock(mutex_);
    auto at = index_.find(key);
    if (at == index_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, at->second);
    return at->second->value;
  }

  /// `bytes`: about what the value takes beside its key. A key that is known keeps its value.
  void keep(const std::string& key, std::shared_ptr<const T> value, size_t bytes) {
    bytes += key.size() + sizeof(Entry);
    std::lock_guard lock(mutex_);
    if (bytes > capacity_ || index_.contains(key)) return;
    entries_.push_front({key, std::move(value), bytes});
    index_.emplace(entries_.front().key, entries_.begin());
    for (used_ += bytes; used_ > capacity_; entries_.pop_back()) {
      used_ -= entries_.back().bytes;
      index_.erase(entries_.back().key);
    }
  }

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const T> value;
    size_t bytes = 0;
  };
  const size_t capacity_;
  std::mutex mutex_;  // Guards what follows.
  size_t used_ = 0;
  std::list<Entry> entries_;  ///< The most recently used first.
  std::unordered_map<std::string_view, typename std::list<Entry>::iterator> index_;
};

}  // namespace hpu::kernels
