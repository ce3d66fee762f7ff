// SPDX-License-Identifier: Apache-2.0
#include "runtime/node/Service.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "base/Abandon.h"
#include "base/AtFork.h"
#include "base/Format.h"
#include "base/Log.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "base/Thread.h"
#include "runtime/node/Inventory.h"

namespace hpu::node {
namespace {

// The wake-up's key; devices and connections count from 1.
constexpr uint64_t kWakeKey = 0;
// More callers than this at a time are not served: something is wrong, and descriptors are finite.
constexpr size_t kMaxConnections = 512;
constexpr useconds_t kStarvedUs = 20000;
constexpr int kCallersAtOnce = 16;

/// What the owner lets other processes of its user do unasked. Read at each request: a test sets it late.
bool consents(const char* to) {
  auto consent = settings::getString(Setting::HPU_NODE_CONSENT);
  return consent.ok() && (*consent == to || *consent == "all");
}

int64_t realtimeNs() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

Status watch(int epoll, int fd, uint64_t key) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = key;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0) return okStatus();
  return internalError("cannot watch a device's socket: " + base::errnoText(errno));
}

}  // namespace

Service& Service::instance() {
  static Service* service = new Service;  // Never destroyed: devices may outlive statics.
  return *service;
}

// ---- The thread's life
// --------------------------------------------------------------------------------

/// Under both locks.
Status Service::start() {
  if (thread_) return okStatus();
  if (!hooked_) {
    static constexpr base::ForkHandlers kHandlers = {prepareFork, parentAfterFork, childAfterFork};
    if (!base::atFork(base::ForkRank::kDeviceService, kHandlers))
      return resourceExhausted("cannot register a fork handler");
    hooked_ = true;
  }
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  wake_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_.valid() || !wake_.valid())
    return internalError("cannot create the descriptors of the device service: " + base::errnoText(errno));
  HPU_RETURN_IF_ERROR(watch(epoll_.get(), wake_.get(), kWakeKey));
  try {
    auto made = std::make_unique<std::thread>();  // A thread that runs has a place to go.
    *made = base::startThread("hpu-node", [this, epoll = epoll_.get(), wake = wake_.get()] { loop(epoll, wake); });
    thread_ = std::move(made);
  } catch (const std::system_error&) {
    return resourceExhausted("cannot start the thread of the device service");
  }
  return okStatus();
}

StatusOr<uint64_t> Service::add(Fd listener, int index, Target target) {
  std::lock_guard life(lifecycle_);
  auto lock = ahead();
  HPU_RETURN_IF_ERROR(start());
  uint64_t key = nextKey_++;
  HPU_RETURN_IF_ERROR(watch(epoll_.get(), listener.get(), key));
  Device& device = devices_[key];
  device.index = index;
  device.target = target;
  device.listener = std::move(listener);
  device.acquiredAtNs = realtimeNs();
  return key;
}

void Service::remove(uint64_t key) {
  std::lock_guard life(lifecycle_);
  std::unique_ptr<std::thread> ended;
  {
    auto lock = ahead();
    auto it = devices_.find(key);
    if (it == devices_.end()) return;
    // While the thread asks it for events, epoll holds the socket, and closing would not free the
    // name yet; taking it out first waits for that.
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, it->second.listener.get(), nullptr);
    devices_.erase(it);
    std::erase_if(connections_, [&](const auto& entry) { return entry.second.device == key; });
    if (!devices_.empty()) return;
    ended = std::move(thread_);
    uint64_t one = 1;
    if (::write(wake_.get(), &one, sizeof one) < 0)
      HPU_LOG(kError, "cannot wake the device service: " + base::errnoText(errno));
  }
  if (ended) ended->join();
  std::lock_guard lock(mutex_);
  epoll_.reset();
  wake_.reset();
}

void Service::setReporter(uint64_t key, DeviceReporter* reporter, const SharedMemory& memory) {
  auto lock = ahead();
  auto it = devices_.find(key);
  if (it == devices_.end()) return;
  it->second.reporter = reporter;
  it->second.memory = memory;
}

std::unique_lock<std::mutex> Service::ahead() {
  wanted_.fetch_add(1);
  std::unique_lock lock(mutex_);
  turn_.wait(lock, [&] { return !accepting_; });
  if (wanted_.fetch_sub(1) == 1) turn_.notify_all();
  return lock;
}

// ---- Forks
// --------------------------------------------------------------------------------------------

void Service::prepareFork() {
  instance().lifecycle_.lock();
  instance().ahead().release();
}

void Service::parentAfterFork() {
  instance().mutex_.unlock();
  instance().lifecycle_.unlock();
}

/// The child keeps no descriptor that would keep a device owned, and no thread to answer for one.
void Service::childAfterFork() {
  Service& self = instance();
  new (&self.turn_) std::condition_variable;  // Its waiters are the parent's.
  self.wanted_ = 0;
  self.connections_.clear();
  // The memory's file is its object's; its number stays taken, by something that holds nothing.
  Fd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const auto& [key, device] : self.devices_)
    if (device.memory.fd >= 0 && nothing.valid()) ::dup3(nothing.get(), device.memory.fd, O_CLOEXEC);
  self.devices_.clear();
  self.epoll_.reset();
  self.wake_.reset();
  // The thread is not there; joining or destroying its handle would wait for it or abort.
  base::abandon(self.thread_);
  self.mutex_.unlock();
  self.lifecycle_.unlock();
}

// ---- Answers
// ------------------------------------------------------------------------------------------

void Service::loop(int epoll, int wake) {
  std::array<epoll_event, 32> events;
  while (true) {
    int count = ::epoll_wait(epoll, events.data(), static_cast<int>(events.size()), -1);
    if (count < 0 && errno != EINTR) {
      HPU_LOG(kError, "the device service ends: " + base::errnoText(errno));
      return;
    }
    for (int i = 0; i < count; ++i) {
      uint64_t key = events[static_cast<size_t>(i)].data.u64;
      if (key == kWakeKey) return;
      bool starved = false;
      int listener = -1;
      {
        std::unique_lock lock(mutex_);
        turn_.wait(lock, [&] { return wanted_ == 0; });
        // An event may be of a socket that is gone by now; keys are never used again.
        try {
          if (auto device = devices_.find(key); device != devices_.end()) {
            listener = device->second.listener.get();
            accepting_ = true;
          } else if (connections_.count(key)) {
            serve(key);
          }
        } catch (const std::bad_alloc&) {
          connections_.erase(key);
        }
      }
      if (listener >= 0) {
        std::vector<Caller> callers;
        try {
          starved = !accept(listener, callers);
        } catch (const std::bad_alloc&) {
        }
        keep(key, std::move(callers));
      }
      // The caller waits in the kernel until there is a descriptor for him; do not spin on him.
      if (starved) ::usleep(kStarvedUs);
    }
  }
}

bool Service::accept(int listener, std::vector<Caller>& callers) {
  // The rest is told of again: others may want the lock.
  for (int i = 0; i < kCallersAtOnce; ++i) {
    Fd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) return errno != EMFILE && errno != ENFILE && errno != ENOMEM;
    auto peer = peerOf(socket.get());
    // Only this user, and root, may ask; abstract names have no permissions of their own.
    if (peer.ok() && isOurs(peer->uid)) callers.push_back({std::move(socket), *peer});
  }
  return true;
}

void Service::keep(uint64_t key, std::vector<Caller> callers) {
  std::lock_guard lock(mutex_);
  accepting_ = false;
  turn_.notify_all();
  try {
    for (Caller& caller : callers) {
      if (!devices_.count(key) || connections_.size() >= kMaxConnections) break;
      uint64_t connection = nextKey_++;
      if (!watch(epoll_.get(), caller.socket.get(), connection).ok()) continue;
      connections_[connection] = {key, std::move(caller.socket), caller.peer, {}, false, {}};
    }
  } catch (const std::bad_alloc&) {
  }
}

void Service::serve(uint64_t key) {
  Connection& connection = connections_.at(key);
  std::string packet;
  auto arrived = receivePacket(connection.socket.get(), packet);
  if (arrived.ok() && !*arrived) return;
  Request request;
  // A caller that has hung up, or sent what is no request, is forgotten.
  if (!arrived.ok() || packet.size() != sizeof request) {
    connections_.erase(key);
    return;
  }
  std::memcpy(&request, packet.data(), sizeof request);
  int fd = -1;
  std::string reply = answer(connection, request, fd);
  if (!sendPacket(connection.socket.get(), reply.data(), reply.size(), fd).ok()) connections_.erase(key);
}

std::string Service::answer(Connection& connection, const Request& request, int& fd) {
  const Device& device = devices_.at(connection.device);
  Request expected = makeRequest(request.operation);
  if (request.magic != expected.magic || request.version != expected.version)
    return encodeFailure(
        failedPrecondition("the asking process speaks another version of the node's protocol; use "
                           "one version of OpenHPU on a node"));
  switch (request.operation) {
    case Operation::kStatus:
      return encodeStatus(report(connection.device, device));
    case Operation::kInject: {
      if (request.fault >= static_cast<uint32_t>(kNumFaults) || request.count < 1)
        return encodeFailure(invalidArgument("there is no such fault"));
      if (connection.peer.pid != ::getpid() && !consents("faults"))
        return encodeFailure(Status(StatusCode::kPermissionDenied,
                                    base::strCat("the owner of device ", device.index,
                                                 " takes faults of other processes only when it was started with ",
                                                 "HPU_NODE_CONSENT=faults (or all)")));
      if (!device.reporter)
        return encodeFailure(
            unavailable(base::strCat("device ", device.index, " is being opened or closed; inject the fault again")));
      Status status = device.reporter->inject(static_cast<Fault>(request.fault), request.count);
      return status.ok() ? encodeDone() : encodeFailure(status);
    }
    case Operation::kMapMemory:
      if (connection.peer.pid != ::getpid() && !isGranted(connection.device, request.token) && !consents("memory"))
        return encodeFailure(Status(StatusCode::kPermissionDenied,
                                    base::strCat("the owner of device ", device.index,
                                                 " hands its memory to ranks of its communicators, and to others only ",
                                                 "when it was started with HPU_NODE_CONSENT=memory (or all)")));
      if (!device.reporter || device.memory.fd < 0)
        return encodeFailure(
            unavailable(base::strCat("device ", device.index, " is being opened or closed and has no memory to map")));
      connection.mapsMemory = true;
      connection.name = programName(connection.peer.pid);
      fd = device.memory.fd;
      return encodeMemory({device.memory.base, device.memory.bytes});
    case Operation::kGrantMemory:
      if (connection.peer.pid != ::getpid())
        return encodeFailure(Status(StatusCode::kPermissionDenied,
                                    base::strCat("only its owner grants the memory of device ", device.index)));
      connection.grant = request.token;
      return encodeDone();
  }
  return encodeFailure(unimplemented("the device's owner does not know this request"));
}

bool Service::isGranted(uint64_t device, const MemoryToken& token) const {
  return std::any_of(connections_.begin(), connections_.end(),
                     [&](const auto& entry) { return entry.second.device == device && entry.second.grant == token; });
}

DeviceStatus Service::report(uint64_t key, const Device& device) const {
  DeviceStatus status;
  status.index = device.index;
  status.target = device.target;
  status.owner.pid = ::getpid();
  status.owner.name = programName(::getpid());
  status.totalBytes = device.memory.bytes;
  status.acquiredAtNs = device.acquiredAtNs;
  if (device.reporter) device.reporter->report(status);
  for (const auto& [id, connection] : connections_)
    if (connection.device == key && connection.mapsMemory)
      status.peers.push_back({connection.peer.pid, connection.name, 0, 0});
  status.updatedAtNs = realtimeNs();
  return status;
}

}  // namespace hpu::node
