// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/NetTransport.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "base/AtFork.h"
#include "base/Format.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "collectives/transport/net/Core.h"

namespace hpu::collectives {
namespace net {
namespace {

using base::strCat;

class NetTransport final : public Transport {
 public:
  NetTransport(const NetOptions& options, std::shared_ptr<Core> core)
      : rank_(options.rank),
        ranks_(options.ranks),
        generation_(base::processGeneration()),
        node_(options.node),
        core_(std::move(core)) {}

  ~NetTransport() override {
    if (inChild()) {
      // What it has belongs to the parent, locks included.
      (void)new std::shared_ptr<Core>(std::move(core_));
      return;
    }
    node_->setProgressSource({});
    core_->leave();
  }

  std::string_view name() const override { return "net"; }
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  std::byte* local(uint64_t address, int64_t bytes) const override { return node_->local(address, bytes); }
  bool holds(const std::byte* data, int64_t bytes) const override { return node_->holds(data, bytes); }

  StatusOr<Offered> offer(int peer, Lane lane, const std::byte* data, int64_t bytes, const MessageTag& tag) override {
    if (peer < 0 || peer >= ranks_ || peer == rank_ || bytes < 0 || (bytes > 0 && !data))
      return invalidArgument(strCat("rank ", rank_, " cannot offer ", bytes, " bytes to rank ", peer, " of ", ranks_));
    if (inChild()) return childError();
    if (core_->isLocal(peer)) return node_->offer(core_->localIndex(peer), lane, data, bytes, tag);
    if (bytes > smallBytes() && !node_->holds(data, bytes))
      return invalidArgument(
          strCat("the ", bytes, " bytes that rank ", rank_, " offers are not in its device's memory"));
    HPU_RETURN_IF_ERROR(core_->peerStatus(peer));
    const Offered offered = core_->lanes(peer).offer(lane, data, bytes, tag);
    if (offered != Offered::kFull) core_->acted();
    return offered;
  }
  void expect(int peer, Lane lane, uint64_t index, std::byte* data, int64_t bytes) override {
    if (!isPeer(peer)) return;
    if (core_->isLocal(peer)) return node_->expect(core_->localIndex(peer), lane, index, data, bytes);
    core_->lanes(peer).expect(lane, index, data, bytes);
  }
  int64_t smallBytes() const override { return core_->smallBytes(); }
  bool delivered(uint64_t sequence) override { return inChild() || core_->delivered(sequence); }
  uint64_t released(int peer, Lane lane) const override {
    if (!isPeer(peer)) return 0;
    return core_->isLocal(peer) ? node_->released(core_->localIndex(peer), lane) : core_->lanes(peer).released(lane);
  }
  std::optional<Arrived> arrived(int peer, Lane lane, uint64_t index) override {
    if (!isPeer(peer)) return std::nullopt;
    return core_->isLocal(peer) ? node_->arrived(core_->localIndex(peer), lane, index)
                                : core_->lanes(peer).arrived(lane, index);
  }
  void release(int peer, Lane lane) override {
    if (!isPeer(peer)) return;
    if (core_->isLocal(peer)) return node_->release(core_->localIndex(peer), lane);
    core_->lanes(peer).release(lane);
    core_->acted();
  }

  bool publish(const CallRecord& record) override { return !inChild() && core_->publish(record); }
  std::optional<CallRecord> record(int peer, uint64_t sequence) const override {
    if (!isRank(peer)) return std::nullopt;
    return core_->isLocal(peer) ? node_->record(core_->localIndex(peer), sequence) : core_->record(peer, sequence);
  }
  uint64_t lastSequence(int peer) const override {
    if (!isRank(peer)) return 0;
    return core_->isLocal(peer) ? node_->lastSequence(core_->localIndex(peer)) : core_->lastSequence(peer);
  }
  void retire(uint64_t sequence) override {
    if (inChild()) return;
    node_->retire(sequence);
    core_->retire(sequence);
  }

  uint32_t changes() const override { return node_->changes(); }
  void waitForChange(uint32_t seen, std::chrono::steady_clock::time_point until, uint32_t atLeast) override {
    node_->waitForChange(seen, until, atLeast);
  }
  void wake() override { node_->wake(); }

  Status peerStatus(int peer) const override {
    if (peer < 0 || peer >= ranks_) return invalidArgument(strCat("there is no rank ", peer, " of ", ranks_));
    if (inChild()) return childError();
    // Of its end a rank of this node, and who looks after it, tell first.
    if (core_->isLocal(peer)) HPU_RETURN_IF_ERROR(node_->peerStatus(core_->localIndex(peer)));
    return core_->peerStatus(peer);
  }
  bool gone(int peer) const override {
    if (!isRank(peer)) return false;
    if (core_->isLocal(peer) && !node_->peerStatus(core_->localIndex(peer)).ok())
      return node_->gone(core_->localIndex(peer));
    return core_->endOf(peer) == RankEnd::kGone;
  }
  Status abortReason(int peer) const override {
    if (!isRank(peer)) return okStatus();
    return core_->isLocal(peer) ? node_->abortReason(core_->localIndex(peer)) : core_->abortReason(peer);
  }
  uint64_t heartbeat(int peer) const override {
    if (!isRank(peer)) return 0;
    // What a rank of this node does with other nodes comes along the tree, too.
    return core_->heartbeat(peer) + (core_->isLocal(peer) ? node_->heartbeat(core_->localIndex(peer)) : 0);
  }
  void setProgressSource(std::function<uint64_t()> source) override {
    if (!inChild()) node_->setProgressSource(std::move(source));
  }
  std::string describe(int peer) const override {
    if (!isRank(peer)) return strCat("rank ", peer);
    return core_->isLocal(peer) ? node_->describe(core_->localIndex(peer)) : core_->describe(peer);
  }
  void abort(const Status& why) override {
    if (!inChild()) core_->abort(why);
  }

 private:
  bool inChild() const { return generation_ != base::processGeneration(); }
  bool isRank(int peer) const { return peer >= 0 && peer < ranks_ && !inChild(); }
  bool isPeer(int peer) const { return isRank(peer) && peer != rank_; }
  static Status childError() {
    return failedPrecondition("a communicator is of the process that made it, not of its child");
  }

  const int rank_, ranks_;
  const uint64_t generation_;
  const std::shared_ptr<Transport> node_;
  std::shared_ptr<Core> core_;
};

// ---- Creation ----

constexpr char kFailed = '!';

/// "!14 text": how a rank tells the others that it cannot.
std::string failureText(const Status& status) {
  return strCat(kFailed, static_cast<int>(status.code()), " ", status.message());
}

std::optional<Status> failureOf(const std::string& text) {
  if (text.empty() || text[0] != kFailed) return std::nullopt;
  const size_t space = std::min(text.find(' '), text.size());
  const auto code = base::parseInt(text.substr(1, space - 1));
  const bool known = code.ok() && *code > 0 && *code <= static_cast<int>(StatusCode::kDataLoss);
  return Status(known ? static_cast<StatusCode>(*code) : StatusCode::kUnknown,
                space < text.size() ? text.substr(space + 1) : std::string());
}

/// The failure to report: that of a rank which knows more than that it waited in vain.
Status firstFailure(const std::vector<std::string>& texts, int own) {
  Status first;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    const auto failure = failureOf(texts[rank]);
    if (!failure) continue;
    const bool better =
        failure->code() != StatusCode::kDeadlineExceeded && first.code() == StatusCode::kDeadlineExceeded;
    if (!first.ok() && !better) continue;
    first = Status(failure->code(), static_cast<int>(rank) == own ? failure->message()
                                                                  : strCat("rank ", rank, ": ", failure->message()));
  }
  return first;
}

Status checkOptions(const NetOptions& options) {
  const auto& nodeOf = options.nodeOf;
  if (options.ranks < 2 || options.rank < 0 || options.rank >= options.ranks ||
      nodeOf.size() != static_cast<size_t>(options.ranks) || !options.allGather || !options.node || !options.network)
    return invalidArgument(strCat("rank ", options.rank, " of ", options.ranks, " on ", nodeOf.size(),
                                  " places is no rank of a communicator of several nodes"));
  const int32_t nodes = *std::max_element(nodeOf.begin(), nodeOf.end()) + 1;
  std::vector<int> ranksOf(static_cast<size_t>(std::max(nodes, 0)));
  int place = 0;
  for (size_t rank = 0; rank < nodeOf.size(); ++rank) {
    if (nodeOf[rank] < 0) return invalidArgument(strCat("rank ", rank, " is on node ", nodeOf[rank]));
    ++ranksOf[static_cast<size_t>(nodeOf[rank])];
    place += nodeOf[rank] == nodeOf[static_cast<size_t>(options.rank)] && static_cast<int>(rank) < options.rank;
  }
  for (size_t node = 0; node < ranksOf.size(); ++node)
    if (ranksOf[node] == 0) return invalidArgument(strCat("node ", node, " of ", nodes, " has no rank"));
  if (nodes < 2) return invalidArgument("a communicator of one node needs no network");
  const int mine = ranksOf[static_cast<size_t>(nodeOf[static_cast<size_t>(options.rank)])];
  if (options.node->ranks() != mine || options.node->rank() != place)
    return invalidArgument(strCat("rank ", options.rank, " is number ", place, " of ", mine,
                                  " on its node, and the node's transport is of number ", options.node->rank(), " of ",
                                  options.node->ranks()));
  return okStatus();
}

StatusOr<std::vector<NetCard>> decodeCards(const std::vector<std::string>& texts, const NetOptions& options) {
  std::vector<NetCard> cards;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    auto card = decodeNetCard(texts[rank]);
    if (!card.ok()) return card.status().withContext(strCat("rank ", rank));
    if (card->node != options.nodeOf[rank])
      return invalidArgument(strCat("rank ", rank, " says that it is on node ", card->node, ", and rank ", options.rank,
                                    " that it is on node ", options.nodeOf[rank]));
    if (card->network != options.network->name())
      return invalidArgument(strCat("rank ", rank, " uses the network '", card->network, "', and rank ", options.rank,
                                    " '", options.network->name(), "': set HPU_COMM_NETWORK alike on all"));
    cards.push_back(std::move(*card));
  }
  return cards;
}

}  // namespace
}  // namespace net

StatusOr<std::shared_ptr<Transport>> createNetTransport(const NetOptions& options) {
  using namespace net;
  int64_t timeoutMs = options.timeoutMs;
  if (timeoutMs < 0) {
    HPU_ASSIGN(timeoutMs, settings::getInt(Setting::HPU_COMM_INIT_TIMEOUT_MS));
  }
  if (!options.allGather) return checkOptions(options);
  const base::Deadline deadline = base::Deadline::afterMs(timeoutMs);
  auto gather = [&](const char* phase, const std::string& mine) -> StatusOr<std::vector<std::string>> {
    HPU_ASSIGN(std::vector<std::string> texts, options.allGather(phase, mine));
    if (static_cast<int>(texts.size()) != options.ranks)
      return internalError(strCat("the exchange of ", options.ranks, " ranks brought ", texts.size(), " texts"));
    return texts;
  };

  // A rank that cannot go on says so in place of its card: the others need not wait for it.
  std::shared_ptr<Core> core;
  std::string text;
  Status status = checkOptions(options);
  if (status.ok()) {
    core = std::make_shared<Core>(options, timeoutMs);
    auto card = core->open();
    status = card.status();
    if (card.ok()) text = encodeNetCard(*card);
  }
  auto texts = gather("net doors", status.ok() ? text : failureText(status));
  if (texts.ok()) {
    status = firstFailure(*texts, options.rank);
    if (status.ok()) {
      auto cards = decodeCards(*texts, options);
      status = cards.ok() ? core->connect(std::move(*cards), deadline) : cards.status();
      // All come to the second exchange, whatever happens to one of them.
      if (status.ok()) status = core->watch();
      texts = gather("net ready", status.ok() ? "ready" : failureText(status));
      if (texts.ok()) status = firstFailure(*texts, options.rank);
    }
  }
  if (!texts.ok()) status = texts.status();
  if (!status.ok()) {
    if (core) core->shut();
    return status;
  }
  core->begin();
  return std::shared_ptr<Transport>(std::make_shared<NetTransport>(options, std::move(core)));
}

}  // namespace hpu::collectives
