// SPDX-License-Identifier: Apache-2.0
// BackgroundThread: one thread for jobs that nobody waits for: what is made ahead of its use. It is started by the
// first. The one thing to know: a job may never run, as the host may have no thread, and the process may end; who needs
// what a job makes must be able to make it.
//
//   if (thread.add(this, [this] { makeNext(); })) ...;
//   thread.drop(this);                               // In the destructor: none of its jobs runs from here on.
#pragma once

#include <functional>
#include <memory>

#include "base/ProcessOwned.h"

namespace hpu::base {

/// Any thread may call anything.
class BackgroundThread {
 public:
  /// `name` as startThread's.
  explicit BackgroundThread(const char* name);
  /// Waits for the job that runs; those behind it are dropped. Not on the thread itself.
  ~BackgroundThread();
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  /// Runs `job`, which throws nothing, after those that were added before. False: it will not be run, as the process
  /// exits or is a forked child of its maker's, or the host has no thread. It may be dropped even so (see above).
  bool add(const void* owner, std::function<void()> job);
  /// Drops the owner's jobs, and waits for one that runs. Not to be called from a job.
  void drop(const void* owner);

 private:
  struct Jobs;
  const char* const name_;
  const Birthplace birthplace_;
  std::shared_ptr<Jobs> jobs_;
};

}  // namespace hpu::base
