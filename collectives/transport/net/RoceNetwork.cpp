// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/RoceNetwork.h"

#include <unistd.h>

#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/transport/net/PairNetwork.h"
#include "collectives/transport/net/RoceEngine.h"
#include "collectives/transport/net/TcpNetwork.h"

namespace hpu::collectives::net {
namespace {

using base::strCat;

std::string keyOf(const Address& local, const RoceOptions& options) {
  const roce::FaultOptions& faults = options.faults;
  return strCat("roce ", local.text(), " ", options.pathMtu, " ", faults.seed, " ", faults.drop, " ", faults.duplicate,
                " ", faults.corrupt, " ", options.silenceMs, " ", options.firstPsn, " ", options.capture);
}

/// `text` with "%p" replaced by the process's id.
std::string withProcess(std::string text) {
  const std::string id = std::to_string(::getpid());
  for (size_t at = 0; (at = text.find("%p", at)) != std::string::npos; at += id.size()) text.replace(at, 2, id);
  return text;
}

/// A process with several networks has a file of each: the second one's ends with ".2".
StatusOr<std::unique_ptr<roce::Endpoint>> openEndpoint(roce::EndpointOptions options, const std::string& capture) {
  constexpr int kMostFiles = 64;
  for (int i = 1;; ++i) {
    options.capture = i == 1 ? capture : strCat(capture, ".", i);
    auto endpoint = roce::Endpoint::open(options);
    if (endpoint.status().code() != StatusCode::kAlreadyExists || i == kMostFiles) return endpoint;
  }
}

StatusOr<std::shared_ptr<Network>> makeNetwork(const Address& local, const RoceOptions& options) {
  const uint32_t mtu = options.pathMtu;
  if (mtu != 0 && (mtu < 256 || mtu > roce::kMostPayloadBytes || (mtu & (mtu - 1)) != 0))
    return invalidArgument(
        strCat("a path MTU of RoCE of ", mtu, " bytes; it is 256, 512, 1024, 2048 or 4096 (HPU_COMM_ROCE_MTU)"));
  HPU_ASSIGN(std::shared_ptr<Network> tcp, tcpNetwork(local));
  roce::EndpointOptions udp;
  udp.local = tcp->local();
  udp.faults = options.faults;
  HPU_ASSIGN(std::unique_ptr<roce::Endpoint> endpoint, openEndpoint(udp, withProcess(options.capture)));
  const uint32_t largest = endpoint->largestMtu();
  if (mtu > largest)
    return invalidArgument(strCat("a path MTU of RoCE of ", mtu, " bytes, but the interface of ", local.text(),
                                  " takes packets with ", largest, " at most (HPU_COMM_ROCE_MTU)"));
  PairOptions pairs;
  pairs.pathMtu = mtu != 0 ? mtu : largest;
  pairs.silenceMs = options.silenceMs;
  pairs.firstPsn = options.firstPsn;
  return makePairNetwork(std::move(tcp), std::make_unique<RoceEngine>(std::move(endpoint), pairs.pathMtu), pairs);
}

}  // namespace

StatusOr<std::shared_ptr<Network>> roceNetwork(const Address& local, const RoceOptions& options) {
  return pairNetwork(keyOf(local, options), [&] { return makeNetwork(local, options); });
}

roce::Endpoint::Counters roceCounters() {
  return pairCounters();
}

}  // namespace hpu::collectives::net
