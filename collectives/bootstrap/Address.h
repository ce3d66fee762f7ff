// SPDX-License-Identifier: Apache-2.0
// Address: where a coordinator listens (IPv4 or IPv6 and a port), as text and as bytes; which
// interface it takes; and the UniqueId that carries it.
// The one thing to know: an id holds a secret that only its communicator's ranks know.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/bootstrap/Proof.h"
#include "hpu/collectives.h"
#include "hpu/status.h"

namespace hpu::collectives {

struct Address {
  bool v6 = false;
  uint8_t ip[16] = {};  ///< Network order; four of them for IPv4.
  uint16_t port = 0;
  uint32_t scope = 0;  ///< Of a link-local IPv6 address: the interface's index.
  bool operator==(const Address&) const = default;
  /// "10.0.0.1:4000", "[fe80::1%2]:4000".
  std::string text() const;
};

/// fe80::/10: it means something on one link only, and its scope on one machine only.
bool isLinkLocal(const Address& address);
/// "ip:port" or "[ip]:port". Errors: kInvalidArgument; `what` names the origin in them.
StatusOr<Address> parseAddress(std::string_view text, std::string_view what);
socklen_t toSockaddr(const Address& address, sockaddr_storage& out);
StatusOr<Address> fromSockaddr(const sockaddr_storage& in);

/// Which of an interface's addresses is taken. IPv6's of its link alone (fe80::) come last in both: what is behind a
/// router does not reach them.
enum class IpOrder : uint8_t { kV4First, kV6First };
/// The lower the better.
int preference(const Address& address, IpOrder order);

/// An address of this machine for others to reach, port 0: of the first interface that is up and
/// whose name begins with one of `prefixes` (comma-separated, in that order; empty: any, loopback
/// last). Errors: kNotFound, with the interfaces that there are.
StatusOr<Address> chooseInterface(const std::string& prefixes);

/// An interface of this machine that is up, and the address to take of each IP version; port 0.
struct InterfaceAddresses {
  std::string name;
  bool loops = false;
  std::optional<Address> v4;
  std::optional<Address> v6;  ///< One of its link alone when it has no other one.
};
/// Without the ports that nobody uses: those that a prefix of `names` (of HPU_COMM_IFNAME's form) counts in, and no
/// full name, that have an address of their link alone where another interface has more.
std::vector<InterfaceAddresses> withoutUnused(std::vector<InterfaceAddresses> interfaces, const std::string& names);
/// One address of each interface, in their order, all of one IP version: the one that `order` names first if all have
/// it, else the other one if all have that; addresses of a link alone only when there is no other way. Errors:
/// kInvalidArgument, with what each interface has; `setting` names them.
StatusOr<std::vector<Address>> oneVersion(const std::vector<InterfaceAddresses>& interfaces, IpOrder order,
                                          std::string_view setting);
/// Addresses of this machine, port 0, that carry data between nodes: one of each interface that is up and whose name
/// begins with one of HPU_COMM_IFNAME's prefixes, in the prefixes' order and then the system's; up to
/// kMostDataAddresses, all of one IP version (oneVersion), and not the loopback beside others. When the setting is
/// empty `reached`, where others that reach the coordinator reach this machine (Bootstrap::local()), or another address
/// of its interface. Errors: kNotFound, with the interfaces that there are; kInvalidArgument.
inline constexpr size_t kMostDataAddresses = 8;
StatusOr<std::vector<Address>> dataAddresses(const Address& reached, IpOrder order = IpOrder::kV4First);
/// Whether with kV6First as many interfaces carry data, all by IPv6.
bool haveV6(const Address& reached);
bool isLoopback(const Address& address);

/// An address of a link alone (fe80::) as another machine told it, with the scope that it has here: that of `local`,
/// where this machine is reached on the same network. Any other address as it is.
Address scopedLike(Address told, const Address& local);
/// The same where nothing is known of the way yet: of this machine's own such addresses (`own`, the best first) the
/// scope of the one that it is, of the one that has its scope, or of the first.
Address scopedHere(Address told, const std::vector<Address>& own);
/// This machine's addresses of a link alone, on the interfaces that HCCL_SOCKET_IFNAME names.
std::vector<Address> linkLocalAddresses();

/// What a UniqueId says.
struct CoordinatorId {
  Address address;
  uint64_t nonce = 0;            ///< Its number at that address. Crosses the network as it is.
  uint64_t label = 0;            ///< What the communicator is called where others may see it.
  bool fromEnvironment = false;  ///< HCCL_COMM_ID: rank 0 starts the coordinator.
  // Of a room of a hall, and not part of a UniqueId:
  uint64_t hall = 0;    ///< Its number; 0: none.
  std::string process;  ///< Whose it is, for errors: "the process of rank 1 of 'comm 0'".
  /// Who knows it has a part in the communicator. Nothing shows it, and it crosses no network: ranks prove that they
  /// have it (Proof.h). Zeros: HCCL_COMM_ID without a secret.
  Secret secret{};
};
UniqueId encodeId(const CoordinatorId& id);
bool isZero(const UniqueId& id);
/// Errors: kInvalidArgument.
StatusOr<CoordinatorId> decodeId(const UniqueId& id);
/// That of HCCL_COMM_ID; a secret with HPU_COMM_SECRET, or with the launcher's. Errors: kInvalidArgument,
/// kFailedPrecondition (it is not set).
StatusOr<CoordinatorId> environmentId();
/// Whether ranks may meet there: nobody else knows the id, or none but this machine reaches it, or HPU_COMM_OPEN says
/// so. Errors: kFailedPrecondition.
Status checkPrivate(const CoordinatorId& id);

}  // namespace hpu::collectives
