// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/Bootstrap.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <utility>

#include "base/AtFork.h"
#include "base/Format.h"
#include "base/ProcessOwned.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "collectives/bootstrap/Address.h"
#include "collectives/bootstrap/Client.h"
#include "collectives/bootstrap/Coordinator.h"
#include "collectives/bootstrap/Group.h"
#include "collectives/bootstrap/ThisProcess.h"

namespace hpu::collectives {
namespace {

/// Says good-bye when the last Bootstrap of a rank goes.
struct Membership {
  explicit Membership(std::shared_ptr<Client> client) : client(std::move(client)) {}
  ~Membership() { client->leave(); }
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;
  const std::shared_ptr<Client> client;
};

class TcpBootstrap final : public Bootstrap {
 public:
  TcpBootstrap(std::shared_ptr<Membership> membership, std::string name, std::vector<int> members)
      : membership_(std::move(membership)),
        group_(base::makeProcessOwned<Group>(membership_->client, std::move(name), std::move(members))) {}
  ~TcpBootstrap() override { group_->close(); }

  int rank() const override { return group_->place(); }
  int ranks() const override { return static_cast<int>(group_->members().size()); }
  std::string describe(int rank) const override {
    if (rank < 0 || rank >= ranks()) return base::strCat("rank ", rank);
    const std::shared_ptr<Client>& client = membership_->client;
    std::lock_guard lock(client->mutex);
    return rankName(rank, client->processOf(group_->members()[static_cast<size_t>(rank)]));
  }
  const Address& local() const override { return membership_->client->local(); }
  const Secret& secret() const override { return membership_->client->id().secret; }

  Status put(const std::string& key, const std::string& value, const base::Deadline& deadline) override {
    return membership_->client->put(keyOf(key), value);
  }
  StatusOr<std::string> get(const std::string& key, const base::Deadline& deadline) override {
    return membership_->client->get(keyOf(key), deadline, nullptr);
  }
  StatusOr<std::vector<std::string>> allGather(const std::string& phase, const std::string& mine,
                                               const base::Deadline& deadline) override {
    return group_->allGather(phase, mine, deadline);
  }
  Status barrier(const std::string& phase, const base::Deadline& deadline, const Patience* patience) override {
    return group_->allGather(phase, {}, deadline, patience).status();
  }
  StatusOr<std::shared_ptr<Bootstrap>> subgroup(const std::string& name, const std::vector<int>& members) override {
    std::vector<int> global;
    std::set<int> seen;
    for (int member : members) {
      if (member < 0 || member >= ranks() || !seen.insert(member).second)
        return invalidArgument(
            base::strCat("group '", name, "' has member ", member, " twice or out of ", ranks(), " ranks"));
      global.push_back(group_->members()[static_cast<size_t>(member)]);
    }
    if (!seen.contains(rank()))
      return invalidArgument(base::strCat("rank ", rank(), " is not a member of the group '", name, "'"));
    std::string full = base::strCat(group_->name(), "/", name);
    if (full.size() > wire::kMaxNameBytes / 2)
      return invalidArgument(
          base::strCat("the name of a group has ", full.size(), " bytes; ", wire::kMaxNameBytes / 2, " are the most"));
    return std::shared_ptr<Bootstrap>(std::make_shared<TcpBootstrap>(membership_, std::move(full), std::move(global)));
  }
  void abandon(const Status& why) override { group_->abandon(why); }
  Traffic traffic() const override { return membership_->client->traffic(); }

 private:
  std::string keyOf(const std::string& key) const { return base::strCat("value ", group_->name(), " ", key); }
  const std::shared_ptr<Membership> membership_;
  const std::shared_ptr<Group> group_;
};

/// The others may come later; a program with wrong settings is not to wait long for them.
constexpr int64_t kDeclineMs = 10000;

Status checkRank(int rank, int ranks) {
  if (ranks < 1 || ranks > wire::kMaxRanks)
    return invalidArgument(base::strCat(ranks, " ranks: a communicator has 1 to ", wire::kMaxRanks));
  if (rank < 0 || rank >= ranks)
    return invalidArgument(base::strCat("rank ", rank, " of ", ranks, ": ranks count from 0"));
  return okStatus();
}

/// What HCCL_COMM_ID was used for by this process: it stands for one communicator.
struct EnvironmentUse {  // Guarded by base::processMutex().
  std::set<std::string> handedOut;
  std::set<std::pair<std::string, int>> joined;
};
EnvironmentUse& environmentUse() {
  static auto* use = new EnvironmentUse;
  return *use;
}

StatusOr<CoordinatorId> resolve(const UniqueId& id, int rank) {
  CoordinatorId result;
  auto given = decodeId(id);
  HPU_ASSIGN(std::string environment, settings::getString(Setting::HCCL_COMM_ID));
  // HCCL_COMM_ID stands in for whatever is no id: programs pass zeros, or nothing at all.
  if (isZero(id) || (!given.ok() && !environment.empty())) {
    HPU_ASSIGN(result, environmentId());
  } else {
    HPU_ASSIGN(result, std::move(given));
  }
  if (!result.fromEnvironment) return result;
  HPU_RETURN_IF_ERROR(checkPrivate(result));
  {
    EnvironmentUse& use = environmentUse();
    std::lock_guard lock(base::processMutex());
    use.handedOut.insert(result.address.text());
    if (!use.joined.insert({result.address.text(), rank}).second)
      return failedPrecondition(
          base::strCat("HCCL_COMM_ID stands for the first communicator, which rank ", rank,
                       " of this process has used already: pass later ones an id of createUniqueId"));
  }
  if (rank == 0) HPU_RETURN_IF_ERROR(Coordinator::instance()->openAt(result));
  return result;
}

}  // namespace

void Interrupt::raise(const Status& why) {
  std::vector<std::function<void(const Status&)>> heard;
  {
    std::lock_guard lock(mutex_);
    if (!why_.ok()) return;
    why_ = why;
    heard.swap(heard_);
  }
  for (const auto& one : heard) one(why);
}

void Interrupt::onRaise(std::function<void(const Status&)> heard) {
  Status why;
  {
    std::lock_guard lock(mutex_);
    if (why_.ok()) {
      heard_.push_back(std::move(heard));
      return;
    }
    why = why_;
  }
  heard(why);
}

StatusOr<UniqueId> createUniqueId() {
  HPU_ASSIGN(std::string text, settings::getString(Setting::HCCL_COMM_ID));
  if (!text.empty()) {
    HPU_ASSIGN(CoordinatorId id, environmentId());
    HPU_RETURN_IF_ERROR(checkPrivate(id));
    EnvironmentUse& use = environmentUse();
    std::lock_guard lock(base::processMutex());
    if (use.handedOut.insert(id.address.text()).second) return encodeId(id);
  }
  HPU_ASSIGN(CoordinatorId id, Coordinator::instance()->open());
  return encodeId(id);
}

StatusOr<std::shared_ptr<Bootstrap>> Bootstrap::join(const UniqueId& id, int rank, int ranks,
                                                     const BootstrapOptions& options) {
  HPU_RETURN_IF_ERROR(checkRank(rank, ranks));
  HPU_ASSIGN(CoordinatorId where, resolve(id, rank));
  return joinAt(where, rank, ranks, options);
}

Status Bootstrap::decline(const UniqueId& id, int rank, int ranks, const Status& why) {
  HPU_ASSIGN(CoordinatorId where, resolve(id, rank));
  return declineAt(where, rank, ranks, why);
}

Status Bootstrap::declineAt(const CoordinatorId& where, int rank, int ranks, const Status& why) {
  auto client = base::makeProcessOwned<Client>(where, rank, ranks);
  Membership membership(client);
  return client->decline(client, why.withContext(base::strCat("rank ", rank, " of ", ranks, " does not take part")),
                         base::Deadline::afterMs(kDeclineMs));
}

StatusOr<std::shared_ptr<Bootstrap>> Bootstrap::joinAt(const CoordinatorId& where, int rank, int ranks,
                                                       const BootstrapOptions& options) {
  int64_t timeoutMs = options.timeoutMs;
  if (timeoutMs < 0) {
    HPU_ASSIGN(timeoutMs, settings::getInt(Setting::HPU_COMM_INIT_TIMEOUT_MS));
  }
  base::Deadline deadline = base::Deadline::afterMs(timeoutMs);
  // A number of its own: those of processes are random.
  static std::atomic<uint64_t> loners{0};
  auto client = base::makeProcessOwned<Client>(where, rank, ranks, options.alone ? processToken() + ++loners : 0);
  auto membership = std::make_shared<Membership>(client);
  if (options.interrupt)
    options.interrupt->onRaise([weak = std::weak_ptr<Client>(client)](const Status& why) {
      if (auto joining = weak.lock()) joining->interrupt(why);
    });
  HPU_RETURN_IF_ERROR(client->join(client, deadline, options.look));
  std::vector<int> members(static_cast<size_t>(ranks));
  for (int i = 0; i < ranks; ++i) members[static_cast<size_t>(i)] = i;
  return std::shared_ptr<Bootstrap>(std::make_shared<TcpBootstrap>(std::move(membership), "all", std::move(members)));
}

}  // namespace hpu::collectives
