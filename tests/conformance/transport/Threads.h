// SPDX-License-Identifier: Apache-2.0
// ThreadGather: brings the texts of ranks together that are threads.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

namespace hpu::testing {

/// Every rank calls it, in rounds.
class ThreadGather {
 public:
  explicit ThreadGather(int ranks) : texts_(static_cast<size_t>(ranks)), missing_(ranks) {}
  std::vector<std::string> operator()(int rank, const std::string& mine) {
    std::unique_lock lock(mutex_);
    const uint64_t round = round_;
    texts_[static_cast<size_t>(rank)] = mine;
    if (--missing_ == 0) {
      // No rank comes to the next round before it has taken the result of this one.
      result_ = texts_;
      missing_ = static_cast<int>(texts_.size());
      ++round_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return round_ != round; });
    return result_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> texts_, result_;
  int missing_;
  uint64_t round_ = 0;
};

}  // namespace hpu::testing
