// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/local/MemoryNetwork.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/Format.h"
#include "base/Thread.h"

namespace hpu::collectives {
namespace {

using net::Door;
using net::Link;
using net::LinkEvents;
using net::Network;
using net::Window;

struct World;
struct Member;
struct End;
using Dialled = std::function<void(std::shared_ptr<Link>, const std::string&)>;

struct Job {
  enum class Kind : uint8_t { kFrame, kWrite, kWritten, kRoom, kClosed, kDialled };
  Kind kind = Kind::kFrame;
  std::shared_ptr<End> end;  // Whose job it is.
  std::vector<std::byte> frame;
  uint64_t id = 0;
  const std::byte* data = nullptr;
  int64_t bytes = 0;
  Window to;
  Status why;
  std::string hello;
  std::shared_ptr<Dialled> door;
};

/// One end of a link. Guarded by the world's lock.
struct End {
  std::shared_ptr<Member> member;
  std::weak_ptr<End> other;
  std::shared_ptr<LinkEvents> events;
  bool up = false, closed = false, refused = false;
  size_t coming = 0;  // Frames and writes that are not taken yet.
  struct Open {
    std::byte* data = nullptr;
    int64_t bytes = 0;
  };
  std::map<uint32_t, Open> windows;
  uint32_t lastKey = 0;
  bool torn = false;  // Something did not come: what is behind it does not, either.
  bool dialling = false;
  std::chrono::steady_clock::time_point deadline;
};

struct Member {
  int number = 0;
  bool dead = false, held = false, ending = false;
  std::deque<Job> jobs;
  std::set<std::shared_ptr<End>> ends;  // Not closed.
  const void* busy = nullptr;           // The end or the door that is being told something.
  std::thread::id thread;
  std::condition_variable changed;
};

struct World {
  MemoryWiresOptions options;
  std::mutex mutex;  // Guards everything.
  std::map<std::string, std::pair<std::shared_ptr<Member>, std::shared_ptr<Dialled>>> doors;
  std::set<std::pair<int, int>> cuts;
  int members = 0;
  uint64_t doorsMade = 0;
  int64_t writes = 0;

  bool isCut(const Member& a, const Member& b) const {
    return cuts.contains({std::min(a.number, b.number), std::max(a.number, b.number)});
  }
  void post(Job job) {
    Member& member = *job.end->member;
    if (member.ending) return;
    if (job.kind == Job::Kind::kFrame || job.kind == Job::Kind::kWrite) ++job.end->coming;
    member.jobs.push_back(std::move(job));
    member.changed.notify_all();
  }
  void postClosed(const std::shared_ptr<End>& end, const Status& why) {
    Job job;
    job.kind = Job::Kind::kClosed;
    job.end = end;
    job.why = why;
    post(std::move(job));
  }
  /// Nothing more happens at that end; the events are given back to be destroyed without the lock.
  std::shared_ptr<LinkEvents> forget(const std::shared_ptr<End>& end) {
    end->closed = true;
    end->windows.clear();
    end->member->ends.erase(end);
    return std::move(end->events);
  }
  /// That end is told, and the link is no more.
  void breakLink(const std::shared_ptr<End>& end, const Status& why) {
    if (!end || end->closed) return;
    postClosed(end, why);
  }
};

class MemoryLink : public Link {
 public:
  MemoryLink(std::shared_ptr<World> world, std::shared_ptr<Member> member, std::shared_ptr<End> end, bool dialled)
      : world_(std::move(world)), member_(std::move(member)), end_(std::move(end)), dialled_(dialled) {}
  ~MemoryLink() override { close(); }

  void start(std::shared_ptr<LinkEvents> events) override {
    std::lock_guard lock(world_->mutex);
    if (end_->closed || started_) return;
    started_ = true;
    end_->events = std::move(events);
    end_->up = true;
    auto other = end_->other.lock();
    if (!other || other->closed) return;
    other->up = true;
    other->dialling = false;
    Job room;
    room.kind = Job::Kind::kRoom;
    room.end = other;
    world_->post(std::move(room));
  }
  bool send(std::span<const std::byte> frame) override {
    Job job;
    job.kind = Job::Kind::kFrame;
    job.frame.assign(frame.begin(), frame.end());
    return hand(std::move(job));
  }
  bool drained() override { return true; }
  bool write(uint64_t id, const std::byte* data, int64_t bytes, const Window& to,
             std::span<const std::byte> frame) override {
    Job job;
    job.kind = Job::Kind::kWrite;
    job.frame.assign(frame.begin(), frame.end());
    job.id = id;
    job.data = data;
    job.bytes = bytes;
    job.to = to;
    return hand(std::move(job));
  }
  Window openWindow(std::byte* data, int64_t bytes) override {
    std::lock_guard lock(world_->mutex);
    const uint32_t key = ++end_->lastKey;
    if (!end_->closed) end_->windows[key] = {data, bytes};
    return {key * uint64_t{0x1000}, key};
  }
  void closeWindow(const Window& window) override {
    std::lock_guard lock(world_->mutex);
    end_->windows.erase(window.key);
  }
  void close() override {
    std::shared_ptr<LinkEvents> events;
    std::unique_lock lock(world_->mutex);
    if (!end_->closed) {
      auto other = end_->other.lock();
      if (other && !other->closed)
        world_->postClosed(other, started_ || dialled_ ? unavailable("the other end was closed")
                                                       : aborted("the other end does not want the link"));
      events = world_->forget(end_);
    }
    if (member_->thread != std::this_thread::get_id())
      member_->changed.wait(lock, [&] { return member_->busy != end_.get(); });
    lock.unlock();
  }
  std::string describe() const override {
    auto other = end_->other.lock();
    return base::strCat("member ", member_->number, " to member ", other ? other->member->number : -1);
  }

 private:
  bool hand(Job job) {
    std::lock_guard lock(world_->mutex);
    if (end_->closed) return true;
    auto other = end_->other.lock();
    if (!end_->up) return false;
    if (!other || other->closed) return true;
    if (other->coming >= world_->options.frames || member_->held) {
      end_->refused = true;
      return false;
    }
    job.end = other;
    world_->post(std::move(job));
    return true;
  }
  const std::shared_ptr<World> world_;
  const std::shared_ptr<Member> member_;
  const std::shared_ptr<End> end_;
  const bool dialled_;
  bool started_ = false;
};

class MemoryDoor : public Door {
 public:
  MemoryDoor(std::shared_ptr<World> world, std::shared_ptr<Member> member, std::string address)
      : world_(std::move(world)), member_(std::move(member)), address_(std::move(address)) {}
  ~MemoryDoor() override {
    std::shared_ptr<Dialled> dialled;
    std::unique_lock lock(world_->mutex);
    auto it = world_->doors.find(address_);
    if (it == world_->doors.end()) return;
    dialled = std::move(it->second.second);
    world_->doors.erase(it);
    if (member_->thread != std::this_thread::get_id())
      member_->changed.wait(lock, [&] { return member_->busy != dialled.get(); });
    lock.unlock();
  }
  const std::string& address() const override { return address_; }

 private:
  const std::shared_ptr<World> world_;
  const std::shared_ptr<Member> member_;
  const std::string address_;
};

class MemoryNetwork : public Network {
 public:
  MemoryNetwork(std::shared_ptr<World> world, std::shared_ptr<Member> member)
      : world_(std::move(world)), member_(std::move(member)) {
    thread_ = base::startThread("hpu-memnet", [world = world_, member = member_] { loop(world, member); });
  }
  ~MemoryNetwork() override {
    {
      std::lock_guard lock(world_->mutex);
      member_->ending = true;
      member_->changed.notify_all();
    }
    if (thread_.get_id() == std::this_thread::get_id()) {
      thread_.detach();
    } else {
      thread_.join();
    }
  }
  std::string_view name() const override { return "memory"; }
  const Address& local() const override { return local_; }
  Member& member() const { return *member_; }

  /// Nobody else reaches a door: there is nothing to prove.
  StatusOr<std::unique_ptr<Door>> open(Dialled dialled, const Secret&) override {
    std::lock_guard lock(world_->mutex);
    std::string address = base::strCat("door ", ++world_->doorsMade);
    world_->doors[address] = {member_, std::make_shared<Dialled>(std::move(dialled))};
    return std::unique_ptr<Door>(std::make_unique<MemoryDoor>(world_, member_, std::move(address)));
  }

  std::shared_ptr<Link> dial(const std::string& address, const std::string& hello, std::shared_ptr<LinkEvents> events,
                             const base::Deadline& deadline, const Secret&) override {
    std::lock_guard lock(world_->mutex);
    auto mine = std::make_shared<End>();
    mine->member = member_;
    mine->events = std::move(events);
    member_->ends.insert(mine);
    auto link = std::make_shared<MemoryLink>(world_, member_, mine, true);
    auto it = world_->doors.find(address);
    if (it == world_->doors.end() || it->second.first->dead || member_->dead ||
        world_->isCut(*it->second.first, *member_)) {
      world_->postClosed(mine, unavailable(base::strCat("nobody is at ", address)));
      return link;
    }
    mine->dialling = true;
    mine->deadline = deadline.time();
    auto theirs = std::make_shared<End>();
    theirs->member = it->second.first;
    theirs->other = mine;
    mine->other = theirs;
    theirs->member->ends.insert(theirs);
    Job job;
    job.kind = Job::Kind::kDialled;
    job.end = theirs;
    job.hello = hello;
    job.door = it->second.second;
    world_->post(std::move(job));
    member_->changed.notify_all();
    return link;
  }

 private:
  static void loop(const std::shared_ptr<World>& world, const std::shared_ptr<Member>& member);
  static void run(const std::shared_ptr<World>& world, const std::shared_ptr<Member>& member, Job job,
                  std::unique_lock<std::mutex>& lock);
  static bool move(World& world, Member& member, Job& job, std::unique_lock<std::mutex>& lock);

  const std::shared_ptr<World> world_;
  const std::shared_ptr<Member> member_;
  const Address local_;
  std::thread thread_;
};

void MemoryNetwork::loop(const std::shared_ptr<World>& world, const std::shared_ptr<Member>& member) {
  std::unique_lock lock(world->mutex);
  member->thread = std::this_thread::get_id();
  while (!member->ending) {
    auto next = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (const auto& end : std::vector(member->ends.begin(), member->ends.end())) {
      if (!end->dialling) continue;
      if (end->deadline <= std::chrono::steady_clock::now()) {
        end->dialling = false;
        world->postClosed(end, unavailable("nobody answers"));
      } else {
        next = std::min(next, end->deadline);
      }
    }
    if (member->dead || member->held || member->jobs.empty()) {
      member->changed.wait_until(lock, next);
      continue;
    }
    Job job = std::move(member->jobs.front());
    member->jobs.pop_front();
    run(world, member, std::move(job), lock);
  }
  std::deque<Job> jobs = std::move(member->jobs);
  std::vector<std::shared_ptr<LinkEvents>> events;
  for (const auto& end : std::vector(member->ends.begin(), member->ends.end())) {
    if (auto other = end->other.lock()) world->breakLink(other, unavailable("the other end's network is gone"));
    events.push_back(world->forget(end));
  }
  lock.unlock();
}

/// Moves the data of a write; false: the link is no more.
bool MemoryNetwork::move(World& world, Member& member, Job& job, std::unique_lock<std::mutex>& lock) {
  if (job.to.key == 0 || job.to.key > job.end->lastKey) {
    world.postClosed(job.end, invalidArgument("a write to a window that was never open"));
    return false;
  }
  const bool corrupts = world.options.corruptEvery > 0 && ++world.writes % world.options.corruptEvery == 0;
  for (int64_t at = 0; at < job.bytes;) {
    auto sender = job.end->other.lock();
    if (job.end->closed || member.dead || !sender || sender->closed || sender->member->dead) return false;
    auto window = job.end->windows.find(job.to.key);
    if (window == job.end->windows.end()) break;
    if (window->second.bytes < job.bytes) {
      world.postClosed(job.end, invalidArgument("a write that is larger than its window"));
      return false;
    }
    const int64_t piece = std::min(world.options.pieceBytes, job.bytes - at);
    std::memcpy(window->second.data + at, job.data + at, static_cast<size_t>(piece));
    if (corrupts && at <= job.bytes / 2 && job.bytes / 2 < at + piece)
      window->second.data[job.bytes / 2] ^= std::byte{8};
    at += piece;
    // Others may do something between two pieces.
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
  job.end->windows.erase(job.to.key);
  if (auto sender = job.end->other.lock(); sender && !sender->closed) {
    Job written;
    written.kind = Job::Kind::kWritten;
    written.end = sender;
    written.id = job.id;
    world.post(std::move(written));
  }
  return true;
}

void MemoryNetwork::run(const std::shared_ptr<World>& world, const std::shared_ptr<Member>& member, Job job,
                        std::unique_lock<std::mutex>& lock) {
  End& end = *job.end;
  if (end.closed) return;
  const bool comes = job.kind == Job::Kind::kFrame || job.kind == Job::Kind::kWrite;
  if (job.kind == Job::Kind::kDialled) {
    member->busy = job.door.get();
    auto link = std::make_shared<MemoryLink>(world, member, job.end, false);
    lock.unlock();
    (*job.door)(std::move(link), job.hello);
    job.door.reset();
    lock.lock();
  } else {
    member->busy = &end;
    std::shared_ptr<LinkEvents> events = end.events;
    bool tell = events != nullptr;
    if (job.kind == Job::Kind::kWrite && !end.torn) end.torn = !move(*world, *member, job, lock);
    if (comes) tell &= !end.torn;
    tell &= !end.closed && !member->dead;
    if (job.kind == Job::Kind::kClosed && !end.closed) (void)world->forget(job.end);
    lock.unlock();
    if (tell) {
      switch (job.kind) {
        case Job::Kind::kFrame:
        case Job::Kind::kWrite:
          events->onFrame(job.frame);
          break;
        case Job::Kind::kWritten:
          events->onWritten(job.id);
          break;
        case Job::Kind::kRoom:
          events->onRoom();
          break;
        case Job::Kind::kClosed:
          events->onClosed(job.why);
          break;
        case Job::Kind::kDialled:
          break;
      }
    }
    events.reset();
    lock.lock();
  }
  if (comes) {
    --end.coming;
    auto other = end.other.lock();
    if (other && !other->closed && other->refused && end.coming <= world->options.frames / 2) {
      other->refused = false;
      Job room;
      room.kind = Job::Kind::kRoom;
      room.end = other;
      world->post(std::move(room));
    }
  }
  member->busy = nullptr;
  member->changed.notify_all();
  lock.unlock();
  job = {};
  lock.lock();
}

class Wires : public MemoryWires {
 public:
  explicit Wires(MemoryWiresOptions options) : world_(std::make_shared<World>()) { world_->options = options; }
  std::shared_ptr<Network> join() override {
    auto member = std::make_shared<Member>();
    {
      std::lock_guard lock(world_->mutex);
      member->number = world_->members++;
    }
    return std::make_shared<MemoryNetwork>(world_, std::move(member));
  }
  void cut(const Network& a, const Network& b) override {
    std::lock_guard lock(world_->mutex);
    Member &one = memberOf(a), &two = memberOf(b);
    world_->cuts.insert({std::min(one.number, two.number), std::max(one.number, two.number)});
    for (const auto& end : one.ends) {
      auto other = end->other.lock();
      if (!other || other->member.get() != &two) continue;
      world_->breakLink(end, unavailable("the link was cut"));
      world_->breakLink(other, unavailable("the link was cut"));
    }
  }
  void heal(const Network& a, const Network& b) override {
    std::lock_guard lock(world_->mutex);
    const int one = memberOf(a).number, two = memberOf(b).number;
    world_->cuts.erase({std::min(one, two), std::max(one, two)});
  }
  void kill(const Network& network) override {
    std::lock_guard lock(world_->mutex);
    Member& member = memberOf(network);
    member.dead = true;
    for (const auto& end : member.ends)
      if (auto other = end->other.lock()) world_->breakLink(other, unavailable("its process has ended"));
  }
  void hold(const Network& network, bool held) override {
    std::lock_guard lock(world_->mutex);
    Member& member = memberOf(network);
    member.held = held;
    for (const auto& end : member.ends) {
      if (held || !std::exchange(end->refused, false)) continue;
      Job room;
      room.kind = Job::Kind::kRoom;
      room.end = end;
      world_->post(std::move(room));
    }
    member.changed.notify_all();
  }

 private:
  static Member& memberOf(const Network& network) { return dynamic_cast<const MemoryNetwork&>(network).member(); }
  const std::shared_ptr<World> world_;
};

}  // namespace

std::shared_ptr<MemoryWires> MemoryWires::create(MemoryWiresOptions options) {
  return std::make_shared<Wires>(options);
}

}  // namespace hpu::collectives
