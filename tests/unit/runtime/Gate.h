// SPDX-License-Identifier: Apache-2.0
// Gate: work that holds a stream until the test lets it go on.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "hpu/status.h"
#include "hpu/stream.h"

namespace hpu::testing {

/// Work that holds its stream until it is released, and ends with `status`.
struct Gate {
  std::shared_ptr<std::atomic<bool>> open = std::make_shared<std::atomic<bool>>(false);
  void hold(Stream& stream, Status status = okStatus()) {
    ASSERT_TRUE(stream
                    .callHost([open = open, status] {
                      while (!open->load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                      return status;
                    })
                    .ok());
  }
  void release() { *open = true; }
  ~Gate() { release(); }
};

}  // namespace hpu::testing
