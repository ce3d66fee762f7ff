// SPDX-License-Identifier: Apache-2.0
#include "collectives/roce/QueuePair.h"

#include "base/Format.h"
#include "base/StatusMacros.h"

namespace hpu::roce {

Status QueuePair::check(const QueuePairOptions& options, const Peer& peer) {
  using base::strCat;
  const uint32_t mtu = options.pathMtu;
  if (mtu < 256 || mtu > kMostPayloadBytes || (mtu & (mtu - 1)) != 0)
    return invalidArgument(strCat("a path MTU of ", mtu, " bytes; it is 256, 512, 1024, 2048 or 4096"));
  // Half of the numbers, so that what is in flight and what came before are told apart.
  constexpr uint32_t kMostWindow = 1u << 22;
  if (options.window < 1 || options.window > kMostWindow)
    return invalidArgument(strCat("a window of ", options.window, " packets; it is 1 to ", kMostWindow));
  if (options.timeoutDoublings < 0 || options.timeoutDoublings > 16)
    return invalidArgument(strCat("a timeout that doubles ", options.timeoutDoublings, " times; it is 0 to 16"));
  if (options.reads < 1 || options.ackEvery < 1 || options.timeoutNs < 1 || options.retries < 0)
    return invalidArgument("READs on their way, packets before an acknowledgement and the timeout are at least 1");
  for (uint32_t number : {options.number, peer.number})
    if (number < 2 || number > kPsnMask)
      return invalidArgument(strCat("queue pair ", number, "; numbers are 2 to ", kPsnMask));
  return okStatus();
}

QueuePair::QueuePair(const QueuePairOptions& options, const Peer& peer, const MemoryTable& memory)
    : requester_(options, peer.number), responder_(options, peer, memory) {}

Status QueuePair::post(const Request& request) {
  if (failed()) return failedPrecondition("the connection has failed");
  HPU_RETURN_IF_ERROR(requester_.post(request));
  if (posted_) posted_();
  return okStatus();
}

Status QueuePair::post(const Receive& receive) {
  if (failed()) return failedPrecondition("the connection has failed");
  responder_.post(receive);
  return okStatus();
}

void QueuePair::receive(const Packet& packet, TimeNs now) {
  if (packet.opcode == Opcode::kCongestionNotification) return requester_.congested(now);
  auto complete = [this](const Completion& completion) { completions_.push_back(completion); };
  if (traitsOf(packet.opcode).response)
    requester_.receive(packet, now, complete);
  else
    responder_.receive(packet, complete);
  failBoth();
}

void QueuePair::advance(TimeNs now, Emit emit) {
  auto complete = [this](const Completion& completion) { completions_.push_back(completion); };
  // Answers first: the peer's window waits for them.
  responder_.advance(emit, complete);
  requester_.advance(now, emit, complete);
  failBoth();
}

std::optional<Completion> QueuePair::poll() {
  if (completions_.empty()) return std::nullopt;
  Completion completion = completions_.front();
  completions_.pop_front();
  return completion;
}

void QueuePair::close() {
  auto complete = [this](const Completion& completion) { completions_.push_back(completion); };
  requester_.fail(complete);
  responder_.fail(complete);
  if (posted_) posted_();
}

/// One half cannot go on without the other; the last answer is still sent.
void QueuePair::failBoth() {
  if (requester_.failed() != responder_.failed()) close();
}

}  // namespace hpu::roce
