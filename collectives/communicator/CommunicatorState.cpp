// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator/CommunicatorState.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "base/Format.h"
#include "base/Hash.h"
#include "base/Log.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "base/Thread.h"
#include "collectives/bootstrap/Address.h"
#include "collectives/bootstrap/Missing.h"
#include "collectives/communicator/Ports.h"
#include "collectives/communicator/Work.h"
#include "collectives/executor/Calls.h"
#include "collectives/transport/shm/ShmTransport.h"
#include "hpu/callback.h"
#include "hpu/health.h"
#include "hpu/ports.h"

namespace hpu::collectives {
namespace {

std::string nameOf(const std::string& given) {
  static std::atomic<uint64_t> count{0};
  return given.empty() ? base::strCat("comm ", count.fetch_add(1)) : given;
}

int64_t alignUp(int64_t bytes) {
  constexpr int64_t kAlignment = 256;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

CommunicatorState::CommunicatorState(Creation creation, const Device& device, const CommunicatorOptions& options)
    : creation_(std::move(creation)),
      device_(device),
      // Null devices own nothing that could be watched.
      countingDevice_(device.info().driver == "sim" ? device.info().index : -1),
      options_(options),
      name_(nameOf(options.name)),
      number_(base::hash64(creation_.identity)),
      addressOrder_(AddressOrder::of(device)) {}

Status CommunicatorState::checkProcess() const {
  if (birthplace_.isHere()) return okStatus();
  return failedPrecondition(base::strCat(title(),
                                         " was made by the process that this one was forked from, whose alone it is; "
                                         "make one in this process"));
}

CommunicatorState::~CommunicatorState() {
  // It asks the executor and the device.
  if (transport_) transport_->setProgressSource({});
  if (usesRail_ && birthplace_.isHere()) ports::changeRailUsers(countingDevice_, -1);
}

std::string CommunicatorState::title() const {
  return base::strCat("'", name_, "' (rank ", rank(), " of ", ranks(), ")");
}

// ---- State --------------------------------------------------------------------------------------

Status CommunicatorState::ready() const {
  std::lock_guard lock(mutex_);
  if (ready_) return okStatus();
  if (!failure_.ok()) return failure_;
  return unavailable(base::strCat("the communicator ", title(), " is still being created"));
}

bool CommunicatorState::pending() const {
  std::lock_guard lock(mutex_);
  return !ready_ && failure_.ok();
}

Status CommunicatorState::ownFailure() const {
  std::shared_ptr<Executor> executor;
  {
    std::lock_guard lock(mutex_);
    if (!failure_.ok()) return failure_;
    if (!ready_) return okStatus();
    executor = executor_;
  }
  Status health = executor->health();
  tellOnce(health);
  return health;
}

Status CommunicatorState::asyncError() const {
  HPU_RETURN_IF_ERROR(ownFailure());
  {
    std::lock_guard lock(mutex_);
    // After finalize nobody waits for anybody.
    if (!ready_ || finalized_) return okStatus();
  }
  // A rank that has nothing to do does not hear of it otherwise.
  for (int peer = 0; peer < ranks(); ++peer)
    if (peer != rank() && (transport_->gone(peer) || !transport_->abortReason(peer).ok())) {
      const Status status = transport_->peerStatus(peer), reason = transport_->abortReason(peer);
      Status failed =
          Status(reason.ok() ? status.code() : heardFrom(peer, reason).code(), status.message()).withContext(title());
      tellOnce(failed);
      return failed;
    }
  return okStatus();
}

Status CommunicatorState::usable() const {
  if (open_.load(std::memory_order_acquire)) return executor_->health();
  {
    std::lock_guard lock(mutex_);
    if (finalized_) return failedPrecondition(base::strCat("the communicator ", title(), " was finalized"));
    if (!ready_ && failure_.ok())
      return failedPrecondition(base::strCat("the communicator ", title(), " is still being created"));
  }
  // What peers did is found by the operation, which tells it to the others.
  return ownFailure();
}

void CommunicatorState::note(const Status& why) {
  {
    std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = why;
    open_.store(false, std::memory_order_release);
  }
  tellOnce(why);
}

void CommunicatorState::tellOnce(const Status& why) const {
  if (!why.ok() && !told_.exchange(true)) reportHealth(device_, {HealthEvent::Kind::kRankLost, name_, why});
}

void CommunicatorState::fail(const Status& why) {
  note(why);
  if (executor_) executor_->abort(why);
}

void CommunicatorState::ended() {
  if (outstanding_.fetch_sub(1) != 1) return;
  std::lock_guard lock(mutex_);
  idle_.notify_all();
}

Status CommunicatorState::finalize(int64_t deadlineMs) {
  HPU_RETURN_IF_ERROR(usable());
  // Whether or not this rank has something in flight: the others may wait for what comes behind the callback.
  HPU_RETURN_IF_ERROR(refuseWaitInCallback(base::strCat("finalize of ", title())));
  HPU_ASSIGN(base::Deadline deadline, base::Deadline::fromMs(deadlineMs));
  std::shared_ptr<CollectiveWork> last;
  {
    std::lock_guard lock(enqueueMutex);
    last = std::move(growing);
  }
  if (last) last->sealed();  // Its stream is done, too, when nothing is outstanding.
  {
    std::unique_lock lock(mutex_);
    if (!idle_.wait_until(lock, deadline.time(), [&] { return outstanding_.load() == 0; }))
      return deadlineExceeded(base::strCat("finalize of ", title(), " waited ", deadline.totalMs(), " ms, and ",
                                           outstanding_.load(), " operations are not done"));
  }
  if (Status failed = asyncError(); !failed.ok()) {
    // The others may be fine, and wait for this rank.
    bootstrap_->abandon(failed);
    return failed;
  }
  // As in a collective: who has not come is held to its progress.
  Patience patience;
  patience.timeoutMs = timeoutMs_;
  patience.progress = [this](int peer) { return transport_->heartbeat(peer); };
  patience.describe = [this](int peer) { return transport_->describe(peer); };
  Status all = bootstrap_->barrier("finalize", deadline, timeoutMs_ > 0 ? &patience : nullptr);
  if (!all.ok()) return all.withContext(base::strCat("finalize of ", title()));
  std::lock_guard lock(mutex_);
  finalized_ = true;
  open_.store(false, std::memory_order_release);
  return okStatus();
}

Status CommunicatorState::abort(const std::string& why) {
  std::shared_ptr<Executor> executor;
  std::shared_ptr<Bootstrap> bootstrap;
  Status status =
      aborted(base::strCat("the communicator ", title(), " was aborted", why.empty() ? std::string() : ": " + why));
  {
    std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = status;
    open_.store(false, std::memory_order_release);
    bootstrap = bootstrap_;
    if (ready_) executor = executor_;
  }
  // A creation that is under way ends at once, here and for the others.
  creation_.interrupt->raise(status);
  if (executor) executor->abort(status);
  if (bootstrap) bootstrap->abandon(status);
  return okStatus();
}

// ---- Creation -----------------------------------------------------------------------------------

StatusOr<std::shared_ptr<CommunicatorState>> CommunicatorState::create(Creation creation, const Device& device,
                                                                       const CommunicatorOptions& options) {
  if (!creation.interrupt) creation.interrupt = std::make_shared<Interrupt>();
  std::shared_ptr<CommunicatorState> state;
  Status wrong = invalidArgument("a communicator needs a device; this one is empty");
  const auto decline = creation.decline;
  if (device.valid()) {
    state = std::make_shared<CommunicatorState>(std::move(creation), device, options);
    wrong = state->readOptions();
  }
  if (!wrong.ok()) {
    HPU_LOG(kDebug, "a rank declines: " + wrong.message());
    // The others would wait for it.
    if (decline) decline(wrong);
    return wrong;
  }
  state->creation_.decline = nullptr;
  auto finish = [](CommunicatorState& self) -> Status {
    Status status = self.connect();
    std::shared_ptr<Bootstrap> failed;  // Goes outside of the lock.
    {
      std::lock_guard lock(self.mutex_);
      if (status.ok()) status = self.failure_;  // Aborted meanwhile.
      if (status.ok()) {
        self.ready_ = true;
        self.open_.store(true, std::memory_order_release);
      }
      if (self.failure_.ok()) self.failure_ = status;
      // What was aborted meanwhile failed of that.
      if (!status.ok()) status = self.failure_;
      if (!self.ready_) failed.swap(self.bootstrap_);
    }
    // The peers may be ready, whatever ended the last phase here, and wait for this rank then.
    if (!status.ok() && self.executor_) self.executor_->abort(status);
    // Those that are not have heard it, unless what failed was this rank's own.
    if (!status.ok() && failed) failed->abandon(status);
    return status;
  };
  if (options.blocking) {
    HPU_RETURN_IF_ERROR(finish(*state));
    return state;
  }
  try {
    // It ends by its deadline, and keeps the state until then.
    base::startThread("hpu-create", [state, finish] { finish(*state).ignore(); }).detach();
  } catch (const std::system_error&) {
    return resourceExhausted("cannot start a thread for the creation of a communicator");
  }
  return state;
}

Status CommunicatorState::readOptions() {
  initTimeoutMs_ = options_.initTimeoutMs;
  timeoutMs_ = options_.timeoutMs;
  if (initTimeoutMs_ < 0) {
    HPU_ASSIGN(initTimeoutMs_, settings::getInt(Setting::HPU_COMM_INIT_TIMEOUT_MS));
  }
  if (timeoutMs_ < 0) {
    HPU_ASSIGN(timeoutMs_, settings::getInt(Setting::HPU_COMM_TIMEOUT_MS));
  }
  deadlineMs_ = options_.deadlineMs;
  if (deadlineMs_ < 0) {
    HPU_ASSIGN(deadlineMs_, settings::getInt(Setting::HPU_COMM_DEADLINE_MS));
  }
  HPU_ASSIGN(direct_, settings::getBool(Setting::HPU_COMM_DIRECT));
  HPU_ASSIGN(weakOrder_, settings::getBool(Setting::HABANA_WEAK_ORDER));
  std::string path = options_.tunerTable;
  if (path.empty()) {
    HPU_ASSIGN(path, settings::getString(Setting::HPU_COMM_TUNER_TABLE));
  }
  if (!path.empty()) {
    HPU_ASSIGN(table_, TunerTable::load(path));
  }
  if (device_.info().driver == "null")
    return unimplemented(
        "the null device computes nothing and has no memory to exchange: a communicator needs a "
        "simulated device");
  return okStatus();
}

bool CommunicatorState::Peer::ended() const {
  const shm::ProcessCard here = shm::myProcess();
  if (!shm::sameMachine(process, here) || process.pidNamespace != here.pidNamespace) return false;
  char state = 0;
  const uint64_t start = shm::startTimeOf(process.pid, &state);
  return start != process.startTime || state == 'Z' || state == 'X';
}

// ---- Communicators of a communicator's ranks ----------------------------------------------------

CommunicatorOptions CommunicatorState::derivedOptions(const CommunicatorOptions& options,
                                                      const std::string& what) const {
  CommunicatorOptions derived = options;
  if (derived.name.empty()) derived.name = base::strCat(name_, "/", what);
  if (derived.initTimeoutMs < 0) derived.initTimeoutMs = initTimeoutMs_;
  if (derived.timeoutMs < 0) derived.timeoutMs = timeoutMs_;
  if (derived.deadlineMs < 0) derived.deadlineMs = deadlineMs_;
  if (derived.tunerTable.empty()) derived.tunerTable = options_.tunerTable;
  return derived;
}

StatusOr<std::shared_ptr<CommunicatorState>> CommunicatorState::derive(const std::string& what,
                                                                       const std::vector<int>& members,
                                                                       const CommunicatorOptions& options) {
  HPU_ASSIGN(std::shared_ptr<Bootstrap> group, bootstrap_->subgroup(what, members));
  Creation creation;
  creation.rank = group->rank();
  creation.ranks = group->ranks();
  creation.identity = base::strCat(creation_.identity, "/", what, "/", members.front());
  creation.meet = [group](int64_t) -> StatusOr<std::shared_ptr<Bootstrap>> { return group; };
  auto made = create(std::move(creation), device_, derivedOptions(options, what));
  // A rank that fails alone tells those who wait for it.
  if (!made.ok()) group->abandon(made.status().withContext(title()));
  return made;
}

StatusOr<std::shared_ptr<CommunicatorState>> CommunicatorState::split(int color, int key,
                                                                      const CommunicatorOptions& options) {
  if (Status own = usable(); !own.ok()) {
    std::unique_lock lock(mutex_);
    const bool alone = ready_ && !finalized_;
    lock.unlock();
    // The others may be fine, and wait for this rank.
    if (alone) bootstrap_->abandon(own);
    return own;
  }
  std::string what = base::strCat("split ", splits_.fetch_add(1));
  base::Deadline deadline =
      base::Deadline::afterMs(options.initTimeoutMs >= 0 ? options.initTimeoutMs : initTimeoutMs_);
  auto all = bootstrap_->allGather(what, base::strCat(color, " ", key), deadline);
  if (!all.ok()) return all.status().withContext(base::strCat("split of ", title()));
  if (color < 0) return std::shared_ptr<CommunicatorState>();
  std::vector<std::pair<int64_t, int>> mine;  // By key and rank.
  for (size_t other = 0; other < all->size(); ++other) {
    const std::string& text = (*all)[other];
    size_t space = text.find(' ');
    auto otherColor = base::parseInt(std::string_view(text).substr(0, space));
    auto otherKey = space == std::string::npos ? StatusOr<int64_t>(internalError("no key"))
                                               : base::parseInt(std::string_view(text).substr(space + 1));
    if (!otherColor.ok() || !otherKey.ok())
      return internalError(base::strCat("split of ", title(), ": rank ", other, " sent a malformed colour"));
    if (*otherColor == color) mine.emplace_back(*otherKey, static_cast<int>(other));
  }
  std::sort(mine.begin(), mine.end());
  std::vector<int> members;
  for (const auto& [otherKey, member] : mine) members.push_back(member);
  return derive(what, members, options);
}

StatusOr<std::shared_ptr<CommunicatorState>> CommunicatorState::shrink(const std::vector<int>& excluded,
                                                                       const CommunicatorOptions& options) {
  {
    // A failure is no hindrance, but there must have been a communicator.
    std::lock_guard lock(mutex_);
    if (!ready_) return failedPrecondition(base::strCat("the communicator ", title(), " was never ready"));
  }
  std::vector<bool> out(static_cast<size_t>(ranks()));
  for (int rank : excluded) {
    if (rank < 0 || rank >= ranks())
      return invalidArgument(base::strCat("shrink of ", title(), ": there is no rank ", rank, " to exclude"));
    out[static_cast<size_t>(rank)] = true;
  }
  if (out[static_cast<size_t>(rank())])
    return invalidArgument(base::strCat("shrink of ", title(), ": a rank that is excluded does not call it"));
  std::vector<int> members;
  for (int rank = 0; rank < ranks(); ++rank)
    if (!out[static_cast<size_t>(rank)]) members.push_back(rank);
  const auto attempt = static_cast<uint64_t>(shrinks_.fetch_add(1));
  const std::string what = base::strCat("shrink ", attempt);

  // Nothing of the old communicator is needed, not even its coordinator: they meet at the first of
  // those that are left.
  Creation creation;
  creation.rank = static_cast<int>(std::find(members.begin(), members.end(), rank()) - members.begin());
  creation.ranks = static_cast<int>(members.size());
  creation.identity = base::strCat(creation_.identity, "/", what, "/", members.front());
  for (int member : members) creation.members += base::strCat(creation.members.empty() ? "" : " ", member);
  creation.interrupt = std::make_shared<Interrupt>();
  const CoordinatorId room = Hall::room(peers_[static_cast<size_t>(members.front())].hall, attempt);
  auto look = [peers = peers_, members, title = title()]() -> Status {
    for (int member : members) {
      const Peer& peer = peers[static_cast<size_t>(member)];
      if (peer.ended())
        return unavailable(base::strCat("shrink of ", title, ": rank ", member, " (process ", peer.process.pid,
                                        ") has ended; exclude it too"));
    }
    return okStatus();
  };
  // Who has not come is known by its new number only, which is another rank's old one.
  auto named = [peers = peers_, members, nodes = placement_->node, name = name_](const Status& status) {
    std::string old;
    for (int32_t absent : absentRanks(status.message())) {
      if (static_cast<size_t>(absent) >= members.size()) continue;
      const auto member = static_cast<size_t>(members[static_cast<size_t>(absent)]);
      old += base::strCat(old.empty() ? "" : ", ", "rank ", absent, " is rank ", member, " of '", name, "' (process ",
                          peers[member].process.pid, " of node ", nodes[member], ")");
    }
    if (old.empty()) return status;
    return Status::because(status, status.code(), base::strCat(status.message(), "; ", old));
  };
  // The hall stays open until all have come: this communicator may go.
  creation.meet = [room, look, named, hall = hall_, at = creation.rank, of = creation.ranks,
                   interrupt = creation.interrupt](int64_t timeoutMs) -> StatusOr<std::shared_ptr<Bootstrap>> {
    auto met = Bootstrap::joinAt(room, at, of, {.timeoutMs = timeoutMs, .interrupt = interrupt, .look = look});
    // It knows better what ended than whoever only lost it. A process that is killed closes its
    // sockets before it has ended.
    for (int i = 0; i < 50 && met.status().code() == StatusCode::kUnavailable; ++i) {
      HPU_RETURN_IF_ERROR(look());
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (met.status().code() == StatusCode::kDeadlineExceeded) return named(met.status());
    return met;
  };
  creation.decline = [room, at = creation.rank, of = creation.ranks](const Status& why) {
    Bootstrap::declineAt(room, at, of, why).ignore();
  };
  return create(std::move(creation), device_, derivedOptions(options, what));
}

// ---- Choices ------------------------------------------------------------------------------------

StatusOr<CommunicatorState::Chosen> CommunicatorState::choose(const Problem& problem) {
  for (const Chosen& one : chosen_)
    if (one.choice && one.problem == problem) return one;
  HPU_ASSIGN(std::shared_ptr<const Choice> choice, tuner_->choose(problem));
  auto ports = std::make_shared<const OperationPorts>(
      portsOf(*choice->timer, {rank(), *placement_, links(), tuner_->cluster().get()}));
  Chosen& chosen = chosen_[nextChosen_++ % chosen_.size()];
  chosen = {problem, std::move(choice), std::move(ports)};
  return chosen;
}

// ---- Memory -------------------------------------------------------------------------------------

StatusOr<Scratch> CommunicatorState::scratchFor(const Schedule& schedule) {
  constexpr int64_t kUnit = int64_t{1} << 20;
  int64_t scratchBytes = alignUp(schedule.scratchElements * schedule.problem.elementBytes);
  int64_t partialBytes = alignUp(schedule.partialElements * schedule.problem.partialBytes);
  int64_t bytes = scratchBytes + partialBytes;
  if (bytes == 0) return Scratch();
  // One serves all: operations of a communicator come one after the other. Those that are enqueued
  // keep the one that they were given.
  if (!scratch_.valid() || scratch_.size() < bytes) {
    scratch_ = Buffer();
    Device device = device_;
    HPU_ASSIGN(scratch_,
               device.allocate((bytes + kUnit - 1) / kUnit * kUnit, base::strCat("communicator '", name_, "'")));
  }
  Scratch result;
  result.buffer = scratch_;
  if (scratchBytes > 0) result.scratch = scratch_.address();
  if (partialBytes > 0) result.partial = scratch_.address() + static_cast<uint64_t>(scratchBytes);
  return result;
}

}  // namespace hpu::collectives
