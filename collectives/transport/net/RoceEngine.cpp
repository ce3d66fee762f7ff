// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/RoceEngine.h"

#include <algorithm>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/roce/QueuePair.h"

namespace hpu::collectives::net {
namespace {

using base::strCat;

// Packets on their way: their trains fill a path without a queue that a socket's buffer does not take.
constexpr uint32_t kMostPackets = 256;
// First after 10 ms, then twice as long each time, up to 1.3 s: a busy machine is not sent the same again and again.
constexpr roce::TimeNs kTimeoutNs = 10'000'000;
constexpr int kTimeoutDoublings = 7;
// Of one WRITE; longer ones go as several.
constexpr uint64_t kMostWriteBytes = roce::kMostMessageBytes / 2;
constexpr int kMostDrained = 64;

/// Timeouts up to a silence of so long. That a peer's process has ended is heard over TCP.
int retriesOf(int64_t silenceMs) {
  int retries = 0;
  for (roce::TimeNs left = silenceMs * 1'000'000; left > 0; ++retries)
    left -= kTimeoutNs << std::min(retries, kTimeoutDoublings);
  return std::max(retries, 1);
}

class RocePair final : public Pair {
 public:
  RocePair(roce::Endpoint& endpoint, std::unordered_set<uint32_t>& numbers, uint32_t number, const PairOptions& options)
      : endpoint_(endpoint), numbers_(numbers), number_(number), options_(options) {}
  ~RocePair() override {
    numbers_.erase(number_);
    if (!connected_) return;
    endpoint_.send();  // Refusals, too.
    endpoint_.remove(number_);
  }
  uint32_t number() const override { return number_; }

  StatusOr<std::shared_ptr<std::byte>> buffers(size_t bytes) override {
    // Pages of them that are never written take no memory.
    auto memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
    return std::shared_ptr<std::byte>(memory.release(), std::default_delete<std::byte[]>());
  }
  Status connect(const roce_wire::End& own, const roce_wire::End& peer, uint32_t mtu) override {
    roce::QueuePairOptions options;
    options.number = number_;
    options.pathMtu = mtu;
    options.firstPsn = own.firstPsn;
    options.window = std::min(kMostPackets, peer.packets);
    options.timeoutNs = kTimeoutNs;
    options.timeoutDoublings = kTimeoutDoublings;
    options.retries = retriesOf(options_.silenceMs);
    HPU_RETURN_IF_ERROR(endpoint_.connect(options, {peer.queuePair, peer.firstPsn}, peer.address, &windows_));
    connected_ = true;
    return okStatus();
  }
  Status post(const roce::Request& request) override { return endpoint_.find(number_)->post(request); }
  Status post(const roce::Receive& receive) override { return endpoint_.find(number_)->post(receive); }
  std::optional<roce::Completion> poll() override { return endpoint_.find(number_)->poll(); }
  bool failed() const override { return endpoint_.find(number_)->failed(); }
  Status explain(roce::Outcome outcome) const override {
    if (outcome == roce::Outcome::kFlushed)
      return invalidArgument("the peer wrote where it may not, or sent what no RoCE link sends; it was refused");
    const std::string text(roce::outcomeName(outcome));
    if (outcome != roce::Outcome::kRetriesExceeded) return invalidArgument(text);
    if (const Status& error = endpoint_.lastError(); !error.ok())
      return unavailable(strCat(text, " (", error.message(), ")"));
    return unavailable(strCat(text, " to packets of RoCE (UDP), though its process lives: does a firewall drop them?"));
  }
  uint64_t mostWriteBytes() const override { return kMostWriteBytes; }

  StatusOr<Window> openWindow(std::byte* data, int64_t bytes) override {
    Window window;
    // Addresses from 0: those of this process are nobody's business.
    HPU_ASSIGN(window.key, windows_.add(data, 0, static_cast<uint64_t>(std::max<int64_t>(bytes, 0)), {.write = true}));
    return window;
  }
  void closeWindow(uint32_t key) override { windows_.withdraw(key); }
  bool takeWritten(uint32_t key) override { return windows_.remove(key); }

 private:
  roce::Endpoint& endpoint_;
  std::unordered_set<uint32_t>& numbers_;
  const uint32_t number_;
  const PairOptions options_;
  roce::MemoryTable windows_;
  bool connected_ = false;
};

}  // namespace

roce_wire::End RoceEngine::end() const {
  roce_wire::End end;
  end.pathMtu = pathMtu_;
  // Half of the buffer: there are other links.
  end.packets = std::clamp<uint32_t>(endpoint_->receiveWindow(pathMtu_) / 2, 4, kMostPackets);
  end.address = endpoint_->local();
  return end;
}

StatusOr<std::unique_ptr<Pair>> RoceEngine::makePair(const PairOptions& options) {
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; ++i) {
    const uint32_t number = endpoint_->newNumber();
    if (number == 0) break;
    if (numbers_.insert(number).second)
      return std::unique_ptr<Pair>(std::make_unique<RocePair>(*endpoint_, numbers_, number, options));
  }
  return resourceExhausted("all queue pairs of this process' RoCE are in use");
}

void RoceEngine::drain() {
  for (int i = 0; i < kMostDrained && endpoint_->progress(1); ++i) {
  }
}

}  // namespace hpu::collectives::net
