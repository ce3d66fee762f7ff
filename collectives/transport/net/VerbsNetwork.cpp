// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/VerbsNetwork.h"

#if HPU_HAVE_VERBS

#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/transport/net/PairNetwork.h"
#include "collectives/transport/net/TcpNetwork.h"
#include "collectives/transport/net/VerbsEngine.h"

namespace hpu::collectives::net {
namespace {

StatusOr<std::shared_ptr<Network>> makeNetwork(const Address& local, const VerbsOptions& options) {
  HPU_ASSIGN(const VerbsLibrary library, VerbsLibrary::load(options.library));
  HPU_ASSIGN(std::unique_ptr<VerbsDevice> device,
             VerbsDevice::open(library, options.sysfs, local, options.device, options.pathMtu));
  HPU_ASSIGN(std::shared_ptr<Network> tcp, tcpNetwork(local));
  PairOptions pairs;
  pairs.pathMtu = device->choice().pathMtu;
  pairs.silenceMs = options.silenceMs;
  return makePairNetwork(std::move(tcp), std::make_unique<VerbsEngine>(std::move(device), local), pairs);
}

}  // namespace

StatusOr<std::shared_ptr<Network>> verbsNetwork(const Address& local, const VerbsOptions& options) {
  const std::string key = base::strCat("verbs ", local.text(), " ", options.device, " ", options.pathMtu, " ",
                                       options.silenceMs, " ", options.library, " ", options.sysfs);
  return pairNetwork(key, [&] { return makeNetwork(local, options); });
}

}  // namespace hpu::collectives::net

#else

namespace hpu::collectives::net {

StatusOr<std::shared_ptr<Network>> verbsNetwork(const Address&, const VerbsOptions&) {
  return Status(StatusCode::kUnimplemented,
                "this release was built without libibverbs' headers, so it has no network 'verbs': build it where "
                "libibverbs-dev (rdma-core-devel) is installed, or use HPU_COMM_NETWORK=tcp");
}

}  // namespace hpu::collectives::net

#endif
