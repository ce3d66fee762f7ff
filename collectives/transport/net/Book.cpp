// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/Book.h"

#include <algorithm>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"

namespace hpu::collectives::net {
namespace {

using base::strCat;

/// So much is retired before the others are told without a reason.
constexpr uint64_t kUntoldRetired = kBookRecords / 2;

}  // namespace

Book::Book(int rank, const std::vector<int32_t>& nodeOf)
    : rank_(rank),
      nodeOf_(nodeOf),
      ranks_(nodeOf.size()),
      nodes_(static_cast<size_t>(*std::max_element(nodeOf.begin(), nodeOf.end())) + 1),
      ends_(std::make_unique<std::atomic<RankEnd>[]>(nodeOf.size())) {
  for (Node& node : nodes_) node.heardAt = Clock::now();
}

void Book::attach(Channel& channel) {
  channel.told_.assign(ranks_.size(), {});
  channel.alive_.assign(nodes_.size(), 0);
  channel.isFresh_.assign(ranks_.size() + nodes_.size(), 1);
  channel.fresh_.clear();
  for (size_t what = 0; what < channel.isFresh_.size(); ++what) channel.fresh_.push_back(static_cast<int32_t>(what));
  channels_.push_back(&channel);
}

void Book::detach(Channel& channel) {
  std::erase(channels_, &channel);
}

void Book::freshen(int32_t what, const Channel* except) {
  for (Channel* channel : channels_) {
    uint8_t& fresh = channel->isFresh_[static_cast<size_t>(what)];
    if (channel == except || fresh) continue;
    fresh = 1;
    channel->fresh_.push_back(what);
  }
}

// ---- What others say ----

Status Book::hearRecord(Channel& from, const RecordItem& item) {
  Rank& rank = at(item.rank);
  Channel::Told& knows = told(from, item.rank);
  knows.published = std::max(knows.published, item.record.sequence);
  knows.retired = std::max(knows.retired, item.retired);
  heardRetired(item.rank, item.retired);
  if (item.record.sequence <= rank.published) return okStatus();
  // Of a rank of this node a record may be over, here too, before it comes this way.
  if (item.record.sequence != rank.published + 1 && !isLocal(item.rank))
    return invalidArgument(
        strCat("call ", item.record.sequence, " of rank ", item.rank, " after its call ", rank.published));
  if (rank.records.empty()) rank.records.resize(kBookRecords);
  rank.records[item.record.sequence % kBookRecords] = item.record;
  rank.published = item.record.sequence;
  news_ |= !isLocal(item.rank);
  freshen(item.rank, &from);
  return okStatus();
}

void Book::heardRetired(int rank, uint64_t sequence) {
  Rank& other = at(rank);
  if (sequence <= other.retired) return;
  other.retired = sequence;
  if (waitsFor_ == 0 || !hasRoom(waitsFor_)) return;
  waitsFor_ = 0;
  news_ = true;
}

Status Book::hear(Channel& from, const Item& item) {
  if (const auto* alive = std::get_if<AliveItem>(&item)) {
    setAlive(alive->node, alive->number, &from);
  } else if (const auto* record = std::get_if<RecordItem>(&item)) {
    if (record->rank != rank_) return hearRecord(from, *record);
  } else if (const auto* retired = std::get_if<RetiredItem>(&item)) {
    Channel::Told& knows = told(from, retired->rank);
    knows.retired = std::max(knows.retired, retired->sequence);
    if (retired->rank == rank_) return okStatus();
    heardRetired(retired->rank, retired->sequence);
    Rank& rank = at(retired->rank);
    if (retired->sequence <= rank.tellRetired) return okStatus();
    rank.tellRetired = retired->sequence;
    freshen(retired->rank, &from);
  } else if (const auto* refused = std::get_if<RefusedItem>(&item)) {
    Channel::Told& knows = told(from, refused->rank);
    knows.refused = std::max(knows.refused, refused->sequence);
    Rank& rank = at(refused->rank);
    if (refused->rank == rank_ || refused->sequence <= rank.refused) return okStatus();
    rank.refused = refused->sequence;
    freshen(refused->rank, &from);
    wanted_ = std::max(wanted_, refused->sequence);
    retire(at(rank_).retired);
  } else if (const auto* end = std::get_if<EndItem>(&item)) {
    told(from, end->rank).ended = true;
    // Others may say that of this rank when they cannot reach it.
    if (end->rank != rank_) setEnd(end->rank, end->end, Status(end->code, end->reason), &from);
  } else if (const auto* beat = std::get_if<BeatItem>(&item)) {
    if (beat->rank != rank_) setBeat(beat->rank, beat->beat, &from);
  } else if (const auto* stopped = std::get_if<StoppedItem>(&item)) {
    Channel::Told& knows = told(from, stopped->rank);
    knows.stops = std::max(knows.stops, stopped->number);
    Rank& rank = at(stopped->rank);
    if (stopped->number <= rank.stops) return okStatus();
    rank.stops = stopped->number;
    rank.stopped = stopped->stopped;
    freshen(stopped->rank, &from);
  } else {
    return invalidArgument("an item that is not of the tree");
  }
  return okStatus();
}

void Book::setAlive(int node, uint64_t number, Channel* from) {
  Node& it = nodes_[static_cast<size_t>(node)];
  if (from) {
    uint64_t& knows = from->alive_[static_cast<size_t>(node)];
    knows = std::max(knows, number);
  }
  if (number <= it.alive) return;
  it.alive = number;
  it.heardAt = Clock::now();
  freshen(static_cast<int32_t>(ranks_.size()) + node, from);
}

void Book::setEnd(int rank, RankEnd end, const Status& why, Channel* from) {
  if (endOf(rank) != RankEnd::kNone) return;
  at(rank).why = why;
  ends_[static_cast<size_t>(rank)].store(end, std::memory_order_release);
  news_ = true;
  freshen(rank, from);
}

void Book::end(int rank, RankEnd end, const Status& why) {
  setEnd(rank, end, why, nullptr);
}

void Book::setBeat(int rank, uint64_t beat, Channel* from) {
  if (from) {
    Channel::Told& knows = told(*from, rank);
    knows.beat = std::max(knows.beat, beat);
  }
  if (beat <= at(rank).beat) return;
  at(rank).beat = beat;
  freshen(rank, from);
}

void Book::setStopped(int rank, bool stopped) {
  Rank& it = at(rank);
  if (it.stopped == stopped) return;
  it.stopped = stopped;
  ++it.stops;
  freshen(rank, nullptr);
}

void Book::forgive(Clock::duration gap) {
  for (Node& node : nodes_) node.heardAt += gap;
}

// ---- What this rank says ----

bool Book::hasRoom(uint64_t sequence) {
  if (sequence <= allRetired_ + kBookRecords) return true;
  uint64_t least = UINT64_MAX;
  for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank)
    if (!isLocal(rank)) least = std::min(least, at(rank).retired);
  allRetired_ = std::min(least, UINT64_MAX - kBookRecords);
  return sequence <= allRetired_ + kBookRecords;
}

void Book::refused(uint64_t sequence) {
  waitsFor_ = sequence;
  Rank& own = at(rank_);
  if (sequence <= own.refused) return;
  own.refused = sequence;
  freshen(rank_, nullptr);
}

void Book::publish(const CallRecord& record) {
  Rank& own = at(rank_);
  if (own.records.empty()) own.records.resize(kBookRecords);
  own.records[record.sequence % kBookRecords] = record;
  own.published = record.sequence;
  saidRetired_ = own.retired;
  freshen(rank_, nullptr);
}

void Book::retire(uint64_t sequence) {
  Rank& own = at(rank_);
  own.retired = std::max(own.retired, sequence);
  const bool wanted = saidRetired_ + kBookRecords < wanted_;
  if (own.retired - saidRetired_ < (wanted ? 1 : kUntoldRetired)) return;
  own.tellRetired = saidRetired_ = own.retired;
  freshen(rank_, nullptr);
}

std::optional<CallRecord> Book::record(int rank, uint64_t sequence) const {
  const Rank& it = at(rank);
  if (sequence == 0 || it.records.empty()) return std::nullopt;
  const CallRecord& record = it.records[sequence % kBookRecords];
  if (record.sequence != sequence) return std::nullopt;
  return record;
}

// ---- Telling ----

/// False: there is no more room.
bool Book::tellRank(Channel& channel, int rank, FrameWriter& out, bool& added) {
  const Rank& it = at(rank);
  Channel::Told& knows = told(channel, rank);
  auto add = [&](const Item& item) {
    const bool fits = out.add(item);
    added |= fits;
    return fits;
  };
  // A neighbour that does not know of older ones has heard of them from another one.
  if (it.published > kBookRecords) knows.published = std::max(knows.published, it.published - kBookRecords);
  while (knows.published < it.published) {
    const CallRecord& record = it.records[(knows.published + 1) % kBookRecords];
    if (!add(RecordItem{rank, it.retired, record})) return false;
    ++knows.published;
    knows.retired = std::max(knows.retired, it.retired);
  }
  if (knows.retired < it.tellRetired) {
    if (!add(RetiredItem{rank, it.retired})) return false;
    knows.retired = it.retired;
  }
  if (knows.refused < it.refused) {
    if (!add(RefusedItem{rank, it.refused})) return false;
    knows.refused = it.refused;
  }
  if (knows.beat < it.beat) {
    if (!add(BeatItem{rank, it.beat})) return false;
    knows.beat = it.beat;
  }
  if (knows.stops < it.stops) {
    if (!add(StoppedItem{rank, it.stops, it.stopped})) return false;
    knows.stops = it.stops;
  }
  // Behind all that it said before.
  if (const RankEnd end = endOf(rank); end != RankEnd::kNone && !knows.ended) {
    if (!add(EndItem{rank, end, it.why.code(), it.why.message()})) return false;
    knows.ended = true;
  }
  return true;
}

bool Book::tell(Channel& channel, int32_t what, FrameWriter& out, bool& added) {
  const auto ranks = static_cast<int32_t>(ranks_.size());
  if (what < ranks) return tellRank(channel, what, out, added);
  const int32_t node = what - ranks;
  const Node& it = nodes_[static_cast<size_t>(node)];
  uint64_t& knows = channel.alive_[static_cast<size_t>(node)];
  if (knows >= it.alive) return true;
  if (!out.add(AliveItem{node, it.alive})) return false;
  knows = it.alive;
  return added = true;
}

bool Book::fill(Channel& channel, FrameWriter& out) {
  bool added = false;
  while (!channel.fresh_.empty()) {
    const int32_t what = channel.fresh_.front();
    if (!tell(channel, what, out, added)) return true;
    channel.fresh_.pop_front();
    channel.isFresh_[static_cast<size_t>(what)] = 0;
  }
  return added;
}

}  // namespace hpu::collectives::net
