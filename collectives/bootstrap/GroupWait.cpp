// SPDX-License-Identifier: Apache-2.0
// How a group's member waits, and what it says when it waits in vain.
#include <algorithm>
#include <chrono>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/bootstrap/Bootstrap.h"
#include "collectives/bootstrap/Group.h"

namespace hpu::collectives {

namespace {

/// What is on its way from ranks that have left may still come.
constexpr auto kGrace = std::chrono::milliseconds(1000);

constexpr std::chrono::milliseconds kShortestLook{10}, kLongestLook{250};

}  // namespace

Status Group::trouble(std::unique_lock<std::mutex>& lock, Phase& phase) {
  // What came while this rank asked is looked at, too: nobody says it again.
  for (;;) {
    if (!failure_.ok()) return failure_;
    if (Status given = client_->givenUp(name_, phase.number); !given.ok()) return given;
    if (phase.heard == client_->gone.size()) return okStatus();
    phase.heard = client_->gone.size();
    std::vector<int> fresh;
    for (const auto& [rank, who] : client_->gone)
      if (!phase.asked.contains(rank) && std::find(members_.begin(), members_.end(), rank) != members_.end())
        fresh.push_back(rank);
    if (fresh.empty()) return okStatus();
    lock.unlock();
    auto missing = client_->who(name_, phase.number, fresh);
    lock.lock();
    if (!missing.ok()) continue;  // Asked again when more are gone.
    phase.asked.insert(fresh.begin(), fresh.end());
    if (missing->empty()) continue;
    // A rank that died is the reason why others have left.
    auto died = std::find_if(missing->begin(), missing->end(),
                             [](const MissingRank& one) { return one.state == MemberState::kDied; });
    return during(phase, unavailable(missingText({died != missing->end() ? *died : missing->front()})));
  }
}

Status Group::goneStatus(const Phase& phase, int place) const {
  auto gone = client_->gone.find(members_[static_cast<size_t>(place)]);
  if (gone == client_->gone.end()) return okStatus();
  return during(phase, unavailable(missingText({gone->second})));
}

Status Group::goneChild(const Phase& phase) const {
  for (int child : children_) {
    if (childLinks_.contains(child) || localLinks_.contains(child)) continue;
    HPU_RETURN_IF_ERROR(goneStatus(phase, child));
  }
  return okStatus();
}

Status Group::whileWaiting(const Phase& phase, const Status& why) const {
  // Children are waited for one after the other, and the rest of them may have come.
  std::vector<int> places;
  for (auto child = std::find(children_.begin(), children_.end(), phase.awaited); child != children_.end(); ++child)
    if (!up_.contains({phase.number, *child})) places.push_back(*child);
  if (places.empty() && phase.awaited >= 0) places.push_back(phase.awaited);
  if (places.empty()) return why;
  constexpr size_t kMost = 8;
  std::string names;
  for (size_t i = 0; i < std::min(places.size(), kMost); ++i) names += (i ? ", " : "") + rankText(places[i]);
  if (places.size() > kMost) names += base::strCat(" and ", places.size() - kMost, " more");
  return {why.code(), base::strCat(why.message(), "; rank ", client_->rank(), " waited for ", names)};
}

Status Group::late(Phase& phase) {
  auto missing = client_->who(name_, phase.number, members_);
  std::string text;
  if (!missing.ok()) {
    std::lock_guard lock(client_->mutex);
    text = whileWaiting(phase, missing.status()).message();
  } else if (!missing->empty()) {
    text = missingText(*missing);
  } else {
    text = "all ranks came, but not all were done in time";
    if (phase.awaited >= 0)
      text += base::strCat(": rank ", members_[static_cast<size_t>(phase.awaited)], " stands still");
  }
  return during(phase, deadlineExceeded(base::strCat("rank ", client_->rank(), " waited ", phase.deadline->totalMs(),
                                                     " ms: ", text)));
}

Status Group::impatient(Phase& phase) {
  const Patience& patience = *phase.patience;
  const auto now = Clock::now();
  const std::chrono::milliseconds timeout(patience.timeoutMs);
  phase.nextLook = now + std::clamp(timeout / 8, kShortestLook, kLongestLook);
  std::vector<int> stand;  // Places.
  const bool first = phase.standing.empty();
  phase.standing.resize(members_.size());
  for (int place = 0; place < static_cast<int>(members_.size()); ++place) {
    if (place == place_) continue;
    Phase::Standing& standing = phase.standing[static_cast<size_t>(place)];
    uint64_t progress = patience.progress(place);
    if (first || progress != standing.progress) standing = {progress, now};
    if (now - standing.since >= timeout) stand.push_back(place);
  }
  // Ranks that have come have nothing to do but wait, too.
  if (stand.empty() || now < phase.nextQuestion) return okStatus();
  phase.nextQuestion = now + timeout / 4;
  auto missing = client_->who(name_, phase.number, members_);
  if (missing.ok() && missing->empty()) {
    phase.complete = std::min(phase.complete, now);
    return now - phase.complete < timeout ? okStatus() : late(phase);
  }
  std::string text;
  for (int place : stand) {
    int32_t rank = members_[static_cast<size_t>(place)];
    if (!missing.ok() ||
        std::any_of(missing->begin(), missing->end(), [&](const MissingRank& one) { return one.rank == rank; }))
      text += (text.empty() ? "" : ", ") + patience.describe(place);
  }
  if (text.empty()) return okStatus();
  if (!missing.ok()) text += "; " + missing.status().message();
  return during(phase, deadlineExceeded(base::strCat("rank ", place_, " waited ", patience.timeoutMs,
                                                     " ms without progress of ", text)));
}

Status Group::await(std::unique_lock<std::mutex>& lock, Phase& phase, base::FunctionRef<bool()> ready) {
  Clock::time_point grace = Clock::time_point::max(), end = phase.deadline->time();
  // The parent's deadline is about the same, and it knows better whom it waits for.
  if (parentPlace_ >= 0 && phase.awaited == parentPlace_) end += kGrace;
  for (;;) {
    if (ready()) return okStatus();
    HPU_RETURN_IF_ERROR(trouble(lock, phase));
    if (ready()) return okStatus();
    // The end of a neighbour or of the coordinator may only be ahead of what it sent.
    const Status gone = goneChild(phase);
    bool ends = !client_->failure.ok() || !lost_.empty() || !gone.ok();
    auto now = Clock::now();
    if (ends && grace == Clock::time_point::max()) grace = now + kGrace;
    if (ends && now >= grace && !phase.askedLast) {
      // A rank that gave up told the coordinator before its links ended: that comes first.
      phase.askedLast = true;
      lock.unlock();
      client_->who(name_, phase.number, members_).status().ignore();
      lock.lock();
      continue;
    }
    if (ends && now >= grace) {
      if (!gone.ok()) return gone;
      if (!lost_.empty()) {
        const bool local = leader_ == *lost_.begin() || localLinks_.contains(*lost_.begin());
        return during(phase, unavailable(base::strCat(local ? "" : "the connection to ", rankText(*lost_.begin()),
                                                      local ? " has let go of the group" : " has ended")));
      }
      return during(phase, whileWaiting(phase, client_->failure));
    }
    if (now >= end) {
      lock.unlock();
      Status status = late(phase);
      lock.lock();
      return ready() ? okStatus() : status;
    }
    if (phase.patience && now >= phase.nextLook) {
      lock.unlock();
      Status status = impatient(phase);
      lock.lock();
      if (!status.ok()) return ready() ? okStatus() : status;
      continue;
    }
    client_->changed.wait_until(lock, std::min({grace, end, phase.nextLook}));
  }
}

}  // namespace hpu::collectives
