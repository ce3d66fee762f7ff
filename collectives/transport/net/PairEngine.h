// SPDX-License-Identifier: Apache-2.0
// PairEngine: what the queue pairs of RoCE links are: of our own engine over UDP (RoceEngine.h), or of an adapter by
// libibverbs (VerbsEngine.h).
// The one thing to know: all of it is called under the lock of the RoceDriver that owns the engine, and nothing of it
// waits for a peer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "collectives/bootstrap/Address.h"
#include "collectives/roce/Verbs.h"
#include "collectives/roce/udp/Endpoint.h"
#include "collectives/transport/net/Network.h"
#include "collectives/transport/net/RoceWire.h"
#include "hpu/status.h"

namespace hpu::collectives::net {

/// Of the links of a network.
struct PairOptions {
  uint32_t pathMtu = 0;  ///< 256 to 4096.
  /// A peer whose process lives, but of which no packet has come for so long though one was awaited, is given up.
  int64_t silenceMs = 13'000;
  int64_t firstPsn = -1;  ///< Of each link of this end, for tests; < 0: random ones.
};

/// What a link posts at most without completions: frames (with credits) and receives, each; writes beside them.
inline constexpr uint32_t kPairFrames = 34;

/// A queue pair of a link.
class Pair {
 public:
  /// What was posted is dropped, and nobody's memory is read or written any more when it returns.
  virtual ~Pair() = default;
  virtual uint32_t number() const = 0;

  /// To be posted from and received into. Errors: kResourceExhausted.
  virtual StatusOr<std::shared_ptr<std::byte>> buffers(size_t bytes) = 0;
  /// `mtu`: of both ends. Receives may be posted from here on.
  virtual Status connect(const roce_wire::End& own, const roce_wire::End& peer, uint32_t mtu) = 0;
  /// SENDs out of buffers(), WRITEs out of anybody's memory, which is read until the completion. Completions come in
  /// the order of what was posted. After an error explain() says why.
  virtual Status post(const roce::Request& request) = 0;
  virtual Status post(const roce::Receive& receive) = 0;
  virtual std::optional<roce::Completion> poll() = 0;
  /// Nothing that is posted is done any more.
  virtual bool failed() const = 0;
  /// Why, of the first completion that has not succeeded (kFlushed: there was none); without names.
  virtual Status explain(roce::Outcome outcome) const = 0;
  /// Of one WRITE.
  virtual uint64_t mostWriteBytes() const = 0;

  /// As Link's. Errors: kResourceExhausted, kUnavailable.
  virtual StatusOr<Window> openWindow(std::byte* data, int64_t bytes) = 0;
  virtual void closeWindow(uint32_t key) = 0;
  /// The peer has written it, and does so no more. False: it has not been given that key.
  virtual bool takeWritten(uint32_t key) = 0;
};

class PairEngine {
 public:
  virtual ~PairEngine() = default;
  virtual std::string_view name() const = 0;  ///< Of the network.
  /// What peers are told of this end: all but the pair's numbers.
  virtual roce_wire::End end() const = 0;
  /// Errors: kResourceExhausted, kUnavailable.
  virtual StatusOr<std::unique_ptr<Pair>> makePair(const PairOptions& options) = 0;

  /// Takes in what has come, so many batches at most, and sends. True: there was something.
  virtual bool progress(int batches) = 0;
  /// All that has come so far has completions, though nobody was called for them.
  virtual void drain() = 0;
  virtual void send() = 0;  ///< What was posted.
  /// Number of a pair to be polled; 0: none.
  virtual uint32_t takeCompleted() = 0;
  virtual bool hasCompleted() const = 0;
  /// When progress() has something to do though nothing comes.
  virtual std::optional<roce::TimeNs> nextTime() const = 0;
  virtual int descriptor() const = 0;  ///< Readable when something comes.
  virtual bool wantsToWrite() const = 0;
  virtual void rest() {}  ///< Nothing comes for a while.
  /// Since the beginning, as far as it counts.
  virtual roce::Endpoint::Counters counters() const { return {}; }
};

}  // namespace hpu::collectives::net
