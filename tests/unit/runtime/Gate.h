// SPDX-License-Identifier: Apache-2.0
// Gate: work that holds a stream until the test lets it go on, and no thread meanwhile.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "hpu/external_work.h"
#include "hpu/status.h"
#include "hpu/stream.h"

namespace hpu::testing {

/// Work that holds its stream until it is released, and ends with the status that it was given: for tests of what is
/// behind it. It may be released before its turn, and a reset ends it; ExternalProbe, for tests of external work
/// itself, does neither, and counts what the runtime calls.
class Gate {
 public:
  void hold(Stream& stream, Status status = okStatus()) {
    work_ = std::make_shared<Work>(std::move(status));
    ASSERT_TRUE(stream.enqueue(work_).ok());
  }
  void release() {
    if (work_) work_->release();
  }
  ~Gate() { release(); }

 private:
  class Work : public ExternalWork {
   public:
    explicit Work(Status status) : status_(std::move(status)) {}
    std::string name() const override { return "gate"; }
    void start(std::shared_ptr<ExternalTurn> turn) override {
      std::unique_lock lock(mutex_);
      if (!open_) {
        turn_ = std::move(turn);
        return;
      }
      lock.unlock();
      turn->complete(status_, turn->arrivalPs());
    }
    void skipped(const Status&) override {}
    void cancel(const Status&) override { release(); }
    void release() {
      std::shared_ptr<ExternalTurn> turn;
      {
        std::lock_guard lock(mutex_);
        open_ = true;
        turn = std::move(turn_);
      }
      if (turn) turn->complete(status_, turn->arrivalPs());
    }

   private:
    const Status status_;
    std::mutex mutex_;
    std::shared_ptr<ExternalTurn> turn_;
    bool open_ = false;
  };

  std::shared_ptr<Work> work_;
};

}  // namespace hpu::testing
