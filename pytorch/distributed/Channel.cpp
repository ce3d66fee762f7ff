// SPDX-License-Identifier: Apache-2.0
#include "pytorch/distributed/Channel.h"

#include <cstring>
#include <set>

#include "hpu/capture.h"
#include "pytorch/distributed/Errors.h"

namespace hpu_torch {
namespace coll = hpu::collectives;
namespace {

constexpr int64_t kGraceMs = 2000;  ///< For operations of a group that is dropped.

struct Registry {
  std::mutex mutex;
  std::set<Channel*> channels;
};
Registry& registry() {
  static Registry& instance = *new Registry;
  return instance;
}

/// What `raise` of pytorch/device asks before it throws.
void inspectFailure(const hpu::Status& status) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  for (Channel* channel : registry().channels) channel->inspect(status);
}

}  // namespace

hpu::Status Operation::waitLaunched() {
  if (!isLaunched()) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return isLaunched(); });
  }
  return status_;
}

hpu::StatusOr<bool> Operation::isDone() {
  if (!isLaunched()) return false;
  if (!status_.ok()) return status_;
  if (isCaptured_) return true;
  return end.query();
}

void Operation::setLaunched(hpu::Status status) {
  std::lock_guard<std::mutex> lock(mutex_);
  status_ = std::move(status);
  isLaunched_.store(true, std::memory_order_release);
  changed_.notify_all();
}

Channel::Channel(OpenDevice& device, std::shared_ptr<const GroupInfo> group, c10::intrusive_ptr<c10d::Store> store,
                 std::string key, int rank, int ranks)
    : device_(device),
      group_(std::move(group)),
      store_(std::move(store)),
      key_(std::move(key)),
      rank_(rank),
      ranks_(ranks),
      stream_(device.streams->fromPool(true)) {
  (void)device_.streams->get(stream_);  // Made here: its failure would be looked for in channels, with a lock of ours.
  setFailureInspector(&inspectFailure);
  std::lock_guard<std::mutex> lock(registry().mutex);
  registry().channels.insert(this);
}

Channel::~Channel() {
  {
    std::lock_guard<std::mutex> lock(registry().mutex);
    registry().channels.erase(this);
  }
  if (isForkedChild()) {  // Nothing of the parent's is touched; its thread is not there.
    if (meeting_.joinable()) meeting_.detach();
    return;
  }
  withoutPythonLock([this] { close(); });
}

void Channel::close() {
  isClosing_ = true;
  if (meeting_.joinable()) meeting_.join();
  if (!communicator_.valid()) return;
  bool isClean = true;
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kGraceMs);
  for (const std::shared_ptr<Operation>& operation : running_) {
    hpu::StatusOr<bool> done = operation->isDone();
    while (done.ok() && !*done && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      done = operation->isDone();
    }
    isClean = isClean && done.ok() && *done;
  }
  if (isClean) return;
  (void)communicator_.abort("its process group was destroyed on rank " + std::to_string(group_->rank));
  // The stream is of a pool: who gets it next must not inherit the failure.
  (void)device_.streams->get(stream_).synchronize(kGraceMs);
}

hpu::StatusOr<coll::Communicator> Channel::meet() {
  const auto until = std::chrono::steady_clock::now() + group_->timeout;
  auto isLate = [&] { return group_->timeout.count() > 0 && std::chrono::steady_clock::now() > until; };
  coll::UniqueId id;
  try {
    if (rank_ == 0) {
      hpu::StatusOr<coll::UniqueId> made = coll::createUniqueId();
      const std::string why = made.ok() ? "" : made.status().message();
      const auto* bytes = made.ok() ? made->bytes : reinterpret_cast<const uint8_t*>(why.data());
      store_->set(key_, {bytes, bytes + (made.ok() ? sizeof made->bytes : why.size())});
      if (!made.ok()) return made.status();
      id = *made;
    } else {
      for (auto pause = std::chrono::microseconds(200); !store_->check({key_});
           pause = std::min(pause * 2, std::chrono::microseconds(20000))) {
        if (isClosing_) return hpu::Status(hpu::StatusCode::kAborted, "the process group was destroyed");
        if (isLate())
          return hpu::Status(hpu::StatusCode::kDeadlineExceeded,
                             "the first rank of the communicator has not come within " +
                                 std::to_string(group_->timeout.count()) + " ms (key '" + key_ + "' of the store)");
        std::this_thread::sleep_for(pause);
      }
      const std::vector<uint8_t> bytes = store_->get(key_);
      if (bytes.size() != sizeof id.bytes)
        return hpu::Status(hpu::StatusCode::kUnavailable,
                           "the first rank of the communicator made no id: " + std::string(bytes.begin(), bytes.end()));
      std::memcpy(id.bytes, bytes.data(), sizeof id.bytes);
    }
  } catch (const std::exception& e) {
    return hpu::Status(hpu::StatusCode::kUnavailable, std::string("the store does not answer: ") + e.what());
  }
  coll::CommunicatorOptions options;
  options.name = "hccl " + group_->name + " " + key_;
  options.initTimeoutMs = options.timeoutMs = options.deadlineMs = group_->timeout.count();
  options.blocking = false;
  hpu::StatusOr<coll::Communicator> made = coll::Communicator::create(id, rank_, ranks_, device_.device, options);
  if (!made.ok()) return made.status();
  for (auto pause = std::chrono::microseconds(100); made->pending();
       pause = std::min(pause * 2, std::chrono::microseconds(5000))) {
    if (isClosing_) (void)made->abort("its process group was destroyed");
    std::this_thread::sleep_for(pause);
  }
  const hpu::Status status = made->ready();
  if (!status.ok()) return status;
  return made;
}

void Channel::connect() {
  hpu::StatusOr<coll::Communicator> made = meet();
  if (!made.ok())
    raiseCollective("hccl: connect (operation 0 of group '" + group_->name + "') failed on rank " +
                        std::to_string(group_->rank) + " of " + std::to_string(group_->ranks),
                    made.status());
  std::lock_guard<std::mutex> lock(mutex_);
  communicator_ = *made;
  isConnected_ = true;
}

void Channel::connectLater() {
  meeting_ = std::thread([this] {
    hpu::StatusOr<coll::Communicator> made = meet();
    std::deque<std::shared_ptr<Operation>> launched;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (made.ok()) communicator_ = *made;
      failure_ = made.status();
      isConnected_ = true;
      std::swap(launched, waiting_);
      for (const std::shared_ptr<Operation>& operation : launched) {
        launch(*operation);
        running_.push_back(operation);
      }
    }
    // Tensors' ends may wait for Python's lock: not with ours.
    for (const std::shared_ptr<Operation>& operation : launched) operation->issue = nullptr;
  });
}

void Channel::submit(const std::shared_ptr<Operation>& operation) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    while (!running_.empty()) {
      hpu::StatusOr<bool> done = running_.front()->isDone();
      if (!done.ok() || !*done) break;
      running_.pop_front();
    }
    if (!isConnected_) {
      waiting_.push_back(operation);
      return;
    }
    launch(*operation);
    running_.push_back(operation);
  }
  operation->issue = nullptr;  // Tensors' ends may wait for Python's lock: not with ours.
}

/// The only place where collectives reach the device: what records a stream's work records them here.
void Channel::launch(Operation& operation) {
  hpu::Status status = failure_;
  try {
    hpu::Stream& stream = device_.streams->get(stream_);
    if (status.ok()) status = stream.wait(operation.ready);
    operation.isCaptured_ = hpu::CaptureSession::of(stream) != 0;
    if (status.ok()) status = operation.issue(communicator_, stream);
    if (status.ok()) status = stream.record(operation.end);
  } catch (const std::exception& e) {
    status = hpu::Status(hpu::StatusCode::kInternal, e.what());
  }
  operation.setLaunched(status);
}

void Channel::raiseFailure(const Operation& operation, const hpu::Status& status) const {
  raiseCollective("hccl: " + operation.name + " (operation " + std::to_string(operation.number) + " of group '" +
                      group_->name + "') failed on rank " + std::to_string(group_->rank) + " of " +
                      std::to_string(group_->ranks) +
                      (status.code() == hpu::StatusCode::kDeadlineExceeded
                           ? " (the group's timeout is " + std::to_string(group_->timeout.count()) + " ms)"
                           : ""),
                  status);
}

void Channel::inspect(const hpu::Status& status) {
  std::shared_ptr<Operation> failed;
  hpu::Status why;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const std::shared_ptr<Operation>& operation : running_) {
      if (!operation->isLaunched()) continue;
      hpu::StatusOr<bool> done = operation->isDone();
      if (done.ok()) continue;
      // What follows a failure, on its stream or behind its event, fails with the same words and what it was itself.
      why = done.status();
      if (status.message().find(why.message()) != std::string::npos) failed = operation;
      break;
    }
  }
  if (failed) raiseFailure(*failed, why);
}

}  // namespace hpu_torch
