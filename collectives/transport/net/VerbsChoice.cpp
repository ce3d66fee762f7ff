// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/VerbsChoice.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/Format.h"

namespace hpu::collectives::net {
namespace {

using base::strCat;

constexpr std::string_view kRoce2 = "RoCE v2";
constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
constexpr uint32_t kLeastMtu = 256, kMostMtu = 4096;

bool isSame(const Address& a, const Address& b) {
  return a.v6 == b.v6 && memcmp(a.ip, b.ip, a.v6 ? 16 : 4) == 0;
}

/// Without the port.
std::string ipText(Address address) {
  address.port = 0;
  std::string text = address.text();
  return text.substr(0, text.rfind(':'));
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ", ") + text;
  return all;
}

std::string placeOf(const VerbsGid& gid) {
  return strCat(gid.device, " port ", gid.port);
}

/// "rxe0 port 1: 10.0.0.1 (RoCE v2)": what there is, for errors.
std::string listOf(const std::vector<VerbsGid>& gids) {
  constexpr size_t kMost = 8;
  std::vector<std::string> texts;
  for (const VerbsGid& gid : gids) {
    if (texts.size() == kMost) {
      texts.push_back("...");
      break;
    }
    texts.push_back(strCat(placeOf(gid), ": ", ipText(gid.address), " (", gid.type, ")"));
  }
  return texts.empty() ? "none" : joined(texts);
}

}  // namespace

Address addressOfGid(const uint8_t* gid) {
  Address address;
  address.v6 = memcmp(gid, kMapped, sizeof kMapped) != 0;
  if (address.v6)
    memcpy(address.ip, gid, 16);
  else
    memcpy(address.ip, gid + sizeof kMapped, 4);
  return address;
}

void gidOf(const Address& address, uint8_t* gid) {
  if (address.v6) {
    memcpy(gid, address.ip, 16);
  } else {
    memcpy(gid, kMapped, sizeof kMapped);
    memcpy(gid + sizeof kMapped, address.ip, 4);
  }
}

StatusOr<VerbsChoice> chooseVerbs(const std::vector<VerbsGid>& gids, const std::vector<std::string>& devices,
                                  const Address& local, const std::string& device, uint32_t wantedMtu) {
  const std::string ip = ipText(local);
  if (devices.empty())
    return notFound(
        "this machine has no RDMA device (ibv_devices lists none): is the adapter's driver loaded, and does a "
        "container "
        "have /dev/infiniband? Else use HPU_COMM_NETWORK=tcp");
  if (!device.empty() && std::find(devices.begin(), devices.end(), device) == devices.end())
    return notFound(
        strCat("there is no RDMA device '", device, "' (HPU_COMM_VERBS_DEVICE); there are: ", joined(devices)));
  std::vector<VerbsGid> own, matching, usable;
  for (const VerbsGid& gid : gids) {
    if (!device.empty() && gid.device != device) continue;
    own.push_back(gid);
    if (isSame(gid.address, local) && gid.isEthernet && gid.type == kRoce2) matching.push_back(gid);
  }
  if (matching.empty())
    return notFound(strCat(device.empty() ? "no RDMA device has a GID" : strCat("RDMA device ", device, " has no GID"),
                           " for RoCE v2 of ", ip, ", where this rank's data goes out; there are: ", listOf(own),
                           ". HPU_COMM_IFNAME chooses the interface of an adapter"));
  for (const VerbsGid& gid : matching)
    if (gid.isUp) usable.push_back(gid);
  if (usable.empty())
    return unavailable(strCat("RDMA device ", placeOf(matching[0]), ", which has the address ", ip,
                              ", is down: look at its cable and interface (", matching[0].interface, ")"));
  VerbsChoice choice;
  choice.gid = usable[0];
  const uint32_t active = choice.gid.activeMtu;
  if (wantedMtu != 0 && (wantedMtu < kLeastMtu || wantedMtu > kMostMtu || (wantedMtu & (wantedMtu - 1)) != 0))
    return invalidArgument(
        strCat("a path MTU of RoCE of ", wantedMtu, " bytes; it is 256, 512, 1024, 2048 or 4096 (HPU_COMM_ROCE_MTU)"));
  if (wantedMtu > active)
    return invalidArgument(strCat("a path MTU of RoCE of ", wantedMtu, " bytes (HPU_COMM_ROCE_MTU), but ",
                                  placeOf(choice.gid), " has an active one of ", active,
                                  ": raise the MTU of its interface (", choice.gid.interface, ")"));
  choice.pathMtu = wantedMtu != 0 ? wantedMtu : active;
  choice.reason = strCat("device ", placeOf(choice.gid), ", ",
                         usable.size() > 1 ? strCat("the first of ", usable.size(), " that have")
                         : device.empty()  ? std::string("the one that has")
                                           : std::string("which HPU_COMM_VERBS_DEVICE names and which has"),
                         " a GID for RoCE v2 of ", ip, " (index ", choice.gid.index, ", interface ",
                         choice.gid.interface.empty() ? "unknown" : choice.gid.interface, "); path MTU ",
                         choice.pathMtu, wantedMtu != 0 ? ", as HPU_COMM_ROCE_MTU says" : ", the port's active one");
  return choice;
}

uint8_t verbsTimeout(int64_t silenceMs, int retries) {
  constexpr uint8_t kLeast = 14, kMost = 22;  // The least that rdma_rxe takes; 17 s.
  uint8_t code = kLeast;
  while (code < kMost && (int64_t{4096} << code) * retries < silenceMs * 1'000'000) ++code;
  return code;
}

}  // namespace hpu::collectives::net
