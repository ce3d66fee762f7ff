// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/shm/Handover.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/AtFork.h"
#include "base/Format.h"
#include "base/StatusMacros.h"

namespace hpu::collectives::shm {
namespace {

/// A segment of this process: there, or on its way.
struct Entry {
  std::mutex mutex;  // Held while it is fetched.
  std::weak_ptr<Segment> segment;
  int users = 0;  // Guarded by base::processMutex().
};
struct Registry {  // Guarded by base::processMutex().
  std::map<SegmentId, std::shared_ptr<Entry>> entries;
  static Registry& instance() {
    static Registry* registry = new Registry;
    return *registry;
  }
};

/// The entry while somebody needs it: ids are never used again.
class EntryUse {
 public:
  explicit EntryUse(const SegmentId& id) : id_(id) {
    Registry& registry = Registry::instance();
    std::lock_guard lock(base::processMutex());
    auto& slot = registry.entries[id];
    if (!slot) slot = std::make_shared<Entry>();
    entry_ = slot;
    ++entry_->users;
  }
  ~EntryUse() {
    Registry& registry = Registry::instance();
    std::lock_guard lock(base::processMutex());
    if (--entry_->users == 0 && entry_->segment.expired()) registry.entries.erase(id_);
    // Those whose segment has gone since.
    std::erase_if(registry.entries,
                  [](const auto& item) { return item.second->users == 0 && item.second->segment.expired(); });
  }
  EntryUse(const EntryUse&) = delete;
  EntryUse& operator=(const EntryUse&) = delete;
  Entry* operator->() const { return entry_.get(); }

 private:
  const SegmentId id_;
  std::shared_ptr<Entry> entry_;
};

uint32_t handoverAddress(const SegmentId& id, uint32_t user, sockaddr_un& address) {
  std::string name = base::strCat("openhpu/communicator/", user, "/");
  for (uint8_t byte : id) {
    name += "0123456789abcdef"[byte >> 4];
    name += "0123456789abcdef"[byte & 15];
  }
  return node::socketAddress(name, address);
}

/// "rank 3 (process 4711)", "ranks 2, 3 (process 4711)".
std::string ranksOf(const std::vector<RankCard>& cards, uint64_t token) {
  std::string list;
  int many = 0;
  int64_t pid = 0;
  for (size_t rank = 0; rank < cards.size(); ++rank) {
    if (cards[rank].process.token != token) continue;
    list += base::strCat(many++ ? ", " : "", rank);
    pid = cards[rank].process.pid;
  }
  return base::strCat(many == 1 ? "rank " : "ranks ", list, " (process ", pid, ")");
}

int pollMs(const base::Deadline& deadline) {
  return static_cast<int>(std::min<int64_t>(deadline.remainingMs(), 60000));
}

StatusOr<std::shared_ptr<Segment>> fetch(const RankCard& giver, const SegmentId& id, int ranks,
                                         const base::Deadline& deadline) {
  node::Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid())
    return resourceExhausted("cannot create a socket to reach rank 0 with: " + base::errnoText(errno));
  sockaddr_un address;
  uint32_t bytes = handoverAddress(id, giver.process.user, address);
  const std::string who = base::strCat("rank 0 (process ", giver.process.pid, ")");
  int status;
  // Rank 0 takes callers a few at a time. When strangers fill its queue, a place becomes free every moment.
  while ((status = ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), bytes)) != 0 &&
         (errno == EINTR || errno == EAGAIN) && !deadline.expired())
    if (errno == EAGAIN) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (status != 0 && errno == EAGAIN)
    return deadlineExceeded(base::strCat(who, " did not share the communicator's memory within ", deadline.totalMs(),
                                         " ms: other processes call it without end"));
  if (status != 0)
    return unavailable(
        base::strCat(who, " has gone before it shared the communicator's memory: ", base::errnoText(errno)));
  HPU_ASSIGN(node::Peer peer, node::peerOf(socket.get()));
  if (!node::isOurs(peer.uid))
    return Status(StatusCode::kPermissionDenied, base::strCat(who, " is of another user: ", peer.uid));
  // Rank 0 must know whom it serves.
  ProcessCard mine = myProcess();
  HPU_RETURN_IF_ERROR(node::sendPacket(socket.get(), &mine.token, sizeof mine.token));
  while (true) {
    std::string packet;
    node::Fd file;
    auto arrived = node::receivePacket(socket.get(), packet, &file);
    if (arrived.status().code() == StatusCode::kResourceExhausted) return arrived.status();
    if (!arrived.ok()) return unavailable(who + " has gone before it shared the communicator's memory");
    if (*arrived) return Segment::map(std::move(file), ranks, id);
    pollfd event{socket.get(), POLLIN, 0};
    if (::poll(&event, 1, pollMs(deadline)) == 0 && deadline.expired())
      return deadlineExceeded(
          base::strCat(who, " did not share the communicator's memory within ", deadline.totalMs(), " ms"));
  }
}

}  // namespace

StatusOr<std::unique_ptr<Giver>> Giver::create(int ranks) {
  std::unique_ptr<Giver> giver(new Giver);
  HPU_ASSIGN(giver->segment_, Segment::create(ranks, giver->file_));
  const SegmentId& id = giver->segment_->id();
  giver->listener_ = node::Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address;
  uint32_t bytes = handoverAddress(id, ::geteuid(), address);
  if (!giver->listener_.valid() || ::bind(giver->listener_.get(), reinterpret_cast<sockaddr*>(&address), bytes) != 0 ||
      ::listen(giver->listener_.get(), std::max(ranks, 16)) != 0)
    return resourceExhausted("cannot create the socket that shares a communicator's memory: " + base::errnoText(errno));
  EntryUse entry(id);
  std::lock_guard lock(entry->mutex);
  entry->segment = giver->segment_;
  return giver;
}

Giver::~Giver() = default;

Status Giver::give(const std::vector<RankCard>& cards, const base::Deadline& deadline) {
  Status status = giveAll(cards, deadline);
  // Those who wait in its queue are hung up on: they come to the next exchange, and hear why.
  if (!status.ok()) listener_.reset();
  return status;
}

Status Giver::giveAll(const std::vector<RankCard>& cards, const base::Deadline& deadline) {
  struct Taker {
    ProcessCard process;
    node::Fd end;  // Readable when it has ended.
  };
  const uint64_t mine = myProcess().token;
  std::map<uint64_t, Taker> missing;
  for (const RankCard& card : cards)
    if (card.process.token != mine && !missing.count(card.process.token)) {
      Taker& taker = missing[card.process.token];
      taker.process = card.process;
      bool gone = false;
      taker.end = openProcess(card.process, gone);
      if (gone) return unavailable(ranksOf(cards, card.process.token) + " ended while the communicator was made");
    }
  std::vector<node::Fd> callers;  // Connected; not yet said who they are.
  while (!missing.empty()) {
    std::vector<pollfd> events{{listener_.get(), POLLIN, 0}};
    for (const node::Fd& caller : callers) events.push_back({caller.get(), POLLIN, 0});
    for (const auto& [token, taker] : missing)
      if (taker.end.valid()) events.push_back({taker.end.get(), POLLIN, 0});
    if (::poll(events.data(), events.size(), pollMs(deadline)) < 0 && errno != EINTR)
      return internalError("cannot wait for the ranks: " + base::errnoText(errno));
    for (size_t i = 0; i < callers.size();) {
      std::string packet;
      auto arrived = node::receivePacket(callers[i].get(), packet);
      if (arrived.ok() && !*arrived) {
        ++i;
        continue;
      }
      uint64_t token = 0;
      if (arrived.ok() && packet.size() == sizeof token) {
        std::memcpy(&token, packet.data(), sizeof token);
        const SegmentId& id = segment_->id();
        if (missing.count(token) && node::sendPacket(callers[i].get(), id.data(), id.size(), file_.get()).ok())
          missing.erase(token);
      }
      callers.erase(callers.begin() + static_cast<std::ptrdiff_t>(i));
    }
    // The rest is taken after a look at the deadline: strangers may come without end.
    constexpr int kCallersAtOnce = 16;
    for (int i = 0; i < kCallersAtOnce; ++i) {
      node::Fd caller(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      const int error = errno;
      if (!caller.valid() && (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM))
        return resourceExhausted("cannot accept a rank that takes the communicator's memory: " +
                                 base::errnoText(error));
      if (!caller.valid()) break;
      auto peer = node::peerOf(caller.get());
      if (peer.ok() && node::isOurs(peer->uid)) callers.push_back(std::move(caller));
    }
    for (const auto& [token, taker] : missing) {
      pollfd event{taker.end.get(), POLLIN, 0};
      if (taker.end.valid() && ::poll(&event, 1, 0) > 0)
        return unavailable(ranksOf(cards, token) + " ended while the communicator was made");
    }
    if (deadline.expired() && !missing.empty()) {
      std::string who;
      for (const auto& [token, taker] : missing) who += base::strCat(who.empty() ? "" : ", ", ranksOf(cards, token));
      return deadlineExceeded(
          base::strCat(who, " did not take the communicator's memory within ", deadline.totalMs(), " ms"));
    }
  }
  return okStatus();
}

StatusOr<std::shared_ptr<Segment>> takeSegment(const RankCard& giver, int ranks, const base::Deadline& deadline) {
  SegmentId id;
  std::memcpy(id.data(), giver.segment, id.size());
  EntryUse entry(id);
  std::lock_guard lock(entry->mutex);
  if (auto known = entry->segment.lock()) {
    if (known->ranks() == ranks) return known;
    return invalidArgument(
        base::strCat("rank 0 made a communicator of ", known->ranks(), " ranks, and this rank wants ", ranks));
  }
  if (giver.process.token == myProcess().token)
    return unavailable("rank 0 (this process) has given up before the communicator was made");
  HPU_ASSIGN(std::shared_ptr<Segment> segment, fetch(giver, id, ranks, deadline));
  entry->segment = segment;
  return segment;
}

}  // namespace hpu::collectives::shm
