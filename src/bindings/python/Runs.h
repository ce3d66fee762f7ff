// SPDX-License-Identifier: Apache-2.0
// Lane: a stream with the Python objects whose memory its enqueued copies use.
// The one thing to know: those objects are kept until the work is done, also when nobody waits for it (Ctrl-C, a
// timeout, a Future that was dropped) and when the lane has ended before it.
#pragma once

#include <sys/types.h>

#include <deque>
#include <functional>
#include <list>
#include <mutex>

#include "hpu/device.h"
#include "hpu/executable.h"
#include "hpu/stream.h"
#include "hpu/trace.h"
#include "src/bindings/python/Core.h"
#include "tools/common/Json.h"
#include "tools/common/RunTimes.h"

namespace hpu::python {

/// Created and ended with the GIL.
class Lane {
 public:
  Lane(const Device& device, const std::string& name);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// Calls `enqueue` as one piece with regard to other threads, without the GIL; the event stands for its work. `kept`
  /// lives until that is done, also when a part of it could not be enqueued.
  Event enqueue(const std::function<Status(Stream&)>& enqueue, std::vector<py::object> kept);
  /// Lets go of what finished work has used.
  void settle();

 private:
  struct Work {
    Event done;
    std::vector<py::object> kept;
  };
  /// What lanes that ended had in flight. Never destroyed: the process may end before the work. Guarded by the GIL.
  static std::list<Work>& orphans();

  const pid_t process_;
  Stream stream_;
  std::mutex mutex_;           ///< Of the order of enqueued pieces.
  std::deque<Work> inFlight_;  ///< Guarded by the GIL.
};

/// Work that is enqueued; any thread may wait for it, any number of times.
class Request {
 public:
  Request(std::shared_ptr<Lane> lane, Event done, std::string what)
      : lane_(std::move(lane)), done_(std::move(done)), what_(std::move(what)) {}
  bool done() const;
  /// Throws the work's failure, every time.
  void wait(std::optional<double> seconds);
  /// Puts the token into Completions when it is done, however that ends.
  void notify(uint64_t token) const;

 private:
  std::shared_ptr<Lane> lane_;
  Event done_;
  std::string what_;
  std::optional<Status> outcome_;
};

/// An open device, with a lane for copies.
struct OpenDevice {
  Device device;
  std::shared_ptr<Lane> lane;
};

/// Memory of a device.
struct DeviceBuffer {
  std::shared_ptr<OpenDevice> owner;
  Buffer buffer;
};

/// The keys of `hpu-trace summary`, with `top` operations (Figures.cpp).
tools::Json summaryOf(trace::Recording recording, int top);

}  // namespace hpu::python
