// SPDX-License-Identifier: Apache-2.0
// WordMap: what belongs to a sequence of numbers (the structure of a call or of a graph), found without making a key.
// The one thing to know: it forgets. When it is full, the half that was used longest ago goes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

namespace hpu_torch {

/// Not owned.
struct Words {
  const int64_t* data = nullptr;
  size_t count = 0;
};
template <typename List>
Words wordsOf(const List& list) {
  return {list.data(), list.size()};
}

/// Not thread-safe.
template <typename T>
class WordMap {
 public:
  explicit WordMap(size_t most) : most_(most) {}

  /// Null where there is none.
  std::shared_ptr<T> find(Words key) {
    const auto [first, last] = entries_.equal_range(hashOf(key));
    for (auto it = first; it != last; ++it) {
      Entry& entry = it->second;
      if (entry.key.size() != key.count || std::memcmp(entry.key.data(), key.data, key.count * sizeof(int64_t)) != 0)
        continue;
      entry.lastUse = ++uses_;
      return entry.value;
    }
    return nullptr;
  }

  /// The value of the key from now on; that of another thread that was first stays.
  std::shared_ptr<T> insert(Words key, std::shared_ptr<T> value) {
    if (std::shared_ptr<T> found = find(key)) return found;
    if (entries_.size() >= most_) dropHalf();
    Entry entry{std::vector<int64_t>(key.data, key.data + key.count), value, ++uses_};
    entries_.emplace(hashOf(key), std::move(entry));
    return value;
  }

  template <typename Function>
  void forEach(const Function& function) const {
    for (const auto& [hash, entry] : entries_) function(*entry.value);
  }
  size_t size() const { return entries_.size(); }
  void clear() { entries_.clear(); }

 private:
  struct Entry {
    std::vector<int64_t> key;
    std::shared_ptr<T> value;
    uint64_t lastUse = 0;
  };

  /// Multiplication with folding, as wyhash mixes.
  static uint64_t hashOf(Words key) {
    uint64_t hash = 0x9E3779B97F4A7C15u ^ key.count;
    for (size_t i = 0; i < key.count; ++i) {
      const auto product = static_cast<unsigned __int128>(hash ^ static_cast<uint64_t>(key.data[i])) *
                           (0xD1342543DE82EF95u + 2 * (i & 1));
      hash = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64) ^ hash << 7;
    }
    return hash;
  }

  void dropHalf() {
    std::vector<uint64_t> uses;
    for (const auto& [hash, entry] : entries_) uses.push_back(entry.lastUse);
    const auto middle = uses.begin() + static_cast<std::ptrdiff_t>(uses.size() / 2);
    std::nth_element(uses.begin(), middle, uses.end());
    for (auto it = entries_.begin(); it != entries_.end();)
      it = it->second.lastUse < *middle ? entries_.erase(it) : std::next(it);
  }

  const size_t most_;
  uint64_t uses_ = 0;
  std::unordered_multimap<uint64_t, Entry> entries_;
};

}  // namespace hpu_torch
