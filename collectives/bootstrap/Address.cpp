// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/Address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/Format.h"
#include "base/Hash.h"
#include "base/Log.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "collectives/bootstrap/Launcher.h"
#include "collectives/bootstrap/Wire.h"

namespace hpu::collectives {
namespace {

constexpr std::string_view kIdMagic = "HPUCOMM1";
constexpr size_t kShortSecret = 16;

std::vector<std::string> splitList(const std::string& text) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin <= text.size()) {
    size_t end = std::min(text.find(',', begin), text.size());
    std::string part = text.substr(begin, end - begin);
    part.erase(0, part.find_first_not_of(' '));
    part.erase(part.find_last_not_of(' ') + 1);
    if (!part.empty()) parts.push_back(part);
    begin = end + 1;
  }
  return parts;
}

}  // namespace

bool isLinkLocal(const Address& address) {
  return address.v6 && address.ip[0] == 0xfe && (address.ip[1] & 0xc0) == 0x80;
}

int preference(const Address& address, IpOrder order) {
  if (isLinkLocal(address)) return 2;
  return address.v6 == (order == IpOrder::kV6First) ? 0 : 1;
}

std::string Address::text() const {
  char buffer[INET6_ADDRSTRLEN] = {};
  inet_ntop(v6 ? AF_INET6 : AF_INET, ip, buffer, sizeof buffer);
  if (!v6) return base::strCat(buffer, ":", port);
  std::string zone = scope ? base::strCat("%", scope) : std::string();
  return base::strCat("[", buffer, zone, "]:", port);
}

StatusOr<Address> parseAddress(std::string_view text, std::string_view what) {
  auto wrong = [&](std::string_view why) {
    return invalidArgument(
        base::strCat(what, " is '", text, "': ", why, "; it has the form 10.0.0.1:4000 or [fd00::1]:4000"));
  };
  Address address;
  std::string host;
  std::string_view port;
  if (text.starts_with('[')) {
    size_t end = text.find("]:");
    if (end == std::string_view::npos) return wrong("no ']:' after the address");
    host = text.substr(1, end - 1);
    port = text.substr(end + 2);
    address.v6 = true;
    if (size_t zone = host.find('%'); zone != std::string::npos) {
      std::string name = host.substr(zone + 1);
      auto number = base::parseInt(name);
      address.scope = number.ok() && *number > 0 && *number <= INT32_MAX ? static_cast<uint32_t>(*number)
                                                                         : if_nametoindex(name.c_str());
      if (!address.scope) return wrong("no such interface");
      host.resize(zone);
    }
  } else {
    size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) return wrong("it has no port");
    if (text.find(':') != colon) return wrong("an IPv6 address needs brackets");
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  auto number = base::parseInt(port);
  if (!number.ok() || *number < 1 || *number > 65535) return wrong("not a port (1 to 65535)");
  address.port = static_cast<uint16_t>(*number);
  if (inet_pton(address.v6 ? AF_INET6 : AF_INET, host.c_str(), address.ip) != 1) return wrong("not an IP address");
  return address;
}

socklen_t toSockaddr(const Address& address, sockaddr_storage& out) {
  std::memset(&out, 0, sizeof out);
  if (address.v6) {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(address.port);
    std::memcpy(&v6.sin6_addr, address.ip, 16);
    v6.sin6_scope_id = address.scope;
    std::memcpy(&out, &v6, sizeof v6);
    return sizeof v6;
  }
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(address.port);
  std::memcpy(&v4.sin_addr, address.ip, 4);
  std::memcpy(&out, &v4, sizeof v4);
  return sizeof v4;
}

StatusOr<Address> fromSockaddr(const sockaddr_storage& in) {
  Address address;
  if (in.ss_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &in, sizeof v4);
    std::memcpy(address.ip, &v4.sin_addr, 4);
    address.port = ntohs(v4.sin_port);
  } else if (in.ss_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, &in, sizeof v6);
    address.v6 = true;
    std::memcpy(address.ip, &v6.sin6_addr, 16);
    address.port = ntohs(v6.sin6_port);
    address.scope = v6.sin6_scope_id;
  } else {
    return invalidArgument("not an IP address");
  }
  return address;
}

bool isLoopback(const Address& address) {
  if (!address.v6) return address.ip[0] == 127;
  in6_addr v6;
  std::memcpy(&v6, address.ip, sizeof v6);
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && address.ip[12] == 127);
}

namespace {

/// One address of an interface, port 0.
struct Found {
  std::string name;
  bool loops = false;
  Address address;
};

/// All addresses of interfaces that are up, in the system's order.
StatusOr<std::vector<Found>> listAddresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return unavailable("cannot list network interfaces: " + base::errnoText(errno));
  std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::vector<Found> found;
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr || !(entry->ifa_flags & IFF_UP)) continue;
    sockaddr_storage storage{};
    if (entry->ifa_addr->sa_family == AF_INET)
      std::memcpy(&storage, entry->ifa_addr, sizeof(sockaddr_in));
    else if (entry->ifa_addr->sa_family == AF_INET6)
      std::memcpy(&storage, entry->ifa_addr, sizeof(sockaddr_in6));
    else
      continue;
    auto address = fromSockaddr(storage);
    if (!address.ok()) continue;
    address->port = 0;
    found.push_back({entry->ifa_name, (entry->ifa_flags & IFF_LOOPBACK) != 0, *address});
  }
  return found;
}

/// Which of `prefixes` a name begins with, counted from 0; nothing: none. No prefixes: any name.
std::optional<int> placeIn(const std::vector<std::string>& prefixes, const std::string& name) {
  for (size_t i = 0; i < prefixes.size(); ++i)
    if (name.starts_with(prefixes[i])) return static_cast<int>(i);
  if (prefixes.empty()) return 0;
  return std::nullopt;
}

Status noInterface(const std::vector<Found>& all, const std::string& prefixes, std::string_view setting) {
  std::vector<std::string> names;
  for (const Found& one : all)
    if (std::find(names.begin(), names.end(), one.name) == names.end()) names.push_back(one.name);
  const bool any = splitList(prefixes).empty();
  return notFound(
      base::strCat("no network interface that is up has an IP address",
                   any ? std::string() : base::strCat(" and a name that begins with ", setting, " '", prefixes, "'"),
                   "; there are: ", names.empty() ? "none" : base::join(names)));
}

/// The interfaces that prefixes name, in their order and then the system's.
StatusOr<std::vector<InterfaceAddresses>> findInterfaces(const std::string& prefixes, std::string_view setting) {
  HPU_ASSIGN(const std::vector<Found> all, listAddresses());
  const std::vector<std::string> wanted = splitList(prefixes);
  std::vector<std::pair<int, InterfaceAddresses>> found;
  for (const Found& one : all) {
    const auto place = placeIn(wanted, one.name);
    if (!place) continue;
    auto known =
        std::find_if(found.begin(), found.end(), [&](const auto& other) { return other.second.name == one.name; });
    if (known == found.end())
      known = found.insert(found.end(), {*place, {.name = one.name, .loops = one.loops, .v4 = {}, .v6 = {}}});
    std::optional<Address>& kept = one.address.v6 ? known->second.v6 : known->second.v4;
    if (!kept || (isLinkLocal(*kept) && !isLinkLocal(one.address))) kept = one.address;
  }
  if (found.empty()) return noInterface(all, prefixes, setting);
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<InterfaceAddresses> interfaces;
  for (auto& [place, interface] : found) interfaces.push_back(std::move(interface));
  return interfaces;
}

}  // namespace

StatusOr<Address> chooseInterface(const std::string& prefixes) {
  HPU_ASSIGN(const std::vector<Found> all, listAddresses());
  const std::vector<std::string> wanted = splitList(prefixes);
  const Found* best = nullptr;
  int least = INT32_MAX;
  for (const Found& one : all) {
    const auto place = placeIn(wanted, one.name);
    if (!place) continue;
    int rank = *place * 4 + preference(one.address, IpOrder::kV4First);
    // A link-local address of any interface is worse than a routable one of the next; the loopback is the last resort.
    if (wanted.empty()) rank += one.loops ? 4 : isLinkLocal(one.address) ? 2 : 0;
    if (rank >= least) continue;
    least = rank;
    best = &one;
  }
  if (!best) return noInterface(all, prefixes, "HCCL_SOCKET_IFNAME");
  HPU_LOG(kInfo, base::strCat("communicators meet on interface ", best->name, ", ", best->address.text()));
  return best->address;
}

Address scopedLike(Address told, const Address& local) {
  if (isLinkLocal(told) && isLinkLocal(local) && local.scope != 0) told.scope = local.scope;
  return told;
}

Address scopedHere(Address told, const std::vector<Address>& own) {
  if (!isLinkLocal(told) || own.empty()) return told;
  for (const Address& one : own)
    if (std::equal(std::begin(one.ip), std::end(one.ip), std::begin(told.ip))) return scopedLike(told, one);
  const bool there = std::any_of(own.begin(), own.end(), [&](const Address& one) { return one.scope == told.scope; });
  return there ? told : scopedLike(told, own.front());
}

std::vector<Address> linkLocalAddresses() {
  std::vector<Address> addresses;
  const auto prefixes = settings::getString(Setting::HCCL_SOCKET_IFNAME);
  const auto all = listAddresses();
  if (!all.ok()) return addresses;
  const std::vector<std::string> wanted = splitList(prefixes.ok() ? *prefixes : std::string());
  std::vector<std::pair<int, Address>> found;
  for (const Found& one : *all)
    if (const auto place = placeIn(wanted, one.name); place && isLinkLocal(one.address))
      found.emplace_back(*place, one.address);
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [place, address] : found) addresses.push_back(address);
  return addresses;
}

namespace {

/// The IPv6 address that is best of the interface that has `known`; nothing: it has none but of its link.
std::optional<Address> v6Beside(const Address& known) {
  const auto all = listAddresses();
  if (!all.ok()) return std::nullopt;
  std::string name;
  for (const Found& one : *all) {
    // 127.0.0.1 and its neighbours are all the loopback's.
    const bool same = one.address.v6 == known.v6 && std::memcmp(one.address.ip, known.ip, sizeof known.ip) == 0;
    if (same || (isLoopback(one.address) && isLoopback(known))) name = one.name;
  }
  for (const Found& one : *all)
    if (one.name == name && one.address.v6 && !isLinkLocal(one.address)) return one.address;
  return std::nullopt;
}

std::string whatItHas(const InterfaceAddresses& one) {
  std::string has = one.v4 ? "IPv4" : "";
  if (one.v6) has += base::strCat(has.empty() ? "" : " and ", "IPv6", isLinkLocal(*one.v6) ? " of its link alone" : "");
  return base::strCat(one.name, " has ", has.empty() ? "none" : has);
}

}  // namespace

std::vector<InterfaceAddresses> withoutUnused(std::vector<InterfaceAddresses> interfaces, const std::string& names) {
  const auto hasMore = [](const InterfaceAddresses& one) { return one.v4 || (one.v6 && !isLinkLocal(*one.v6)); };
  if (std::none_of(interfaces.begin(), interfaces.end(), hasMore)) return interfaces;
  const std::vector<std::string> full = splitList(names);
  std::erase_if(interfaces, [&](const InterfaceAddresses& one) {
    const bool isUnused = !hasMore(one) && std::find(full.begin(), full.end(), one.name) == full.end();
    if (isUnused)
      HPU_LOG(kInfo, base::strCat("interface ", one.name, " carries no data between nodes: it has only an address of ",
                                  "its link, and others have more (its full name in the setting asks for it)"));
    return isUnused;
  });
  return interfaces;
}

StatusOr<std::vector<Address>> oneVersion(const std::vector<InterfaceAddresses>& interfaces, IpOrder order,
                                          std::string_view setting) {
  using Choice = std::optional<Address> (*)(const InterfaceAddresses&);
  constexpr Choice kV4 = [](const InterfaceAddresses& one) { return one.v4; };
  constexpr Choice kV6 = [](const InterfaceAddresses& one) {
    return one.v6 && !isLinkLocal(*one.v6) ? one.v6 : std::nullopt;
  };
  constexpr Choice kAnyV6 = [](const InterfaceAddresses& one) { return one.v6; };
  const bool v6First = order == IpOrder::kV6First;
  for (const Choice choice : {v6First ? kV6 : kV4, v6First ? kV4 : kV6, kAnyV6}) {
    std::vector<Address> addresses;
    for (const InterfaceAddresses& one : interfaces)
      if (const auto address = choice(one)) addresses.push_back(*address);
    if (addresses.size() == interfaces.size()) return addresses;
  }
  std::vector<std::string> each;
  for (const InterfaceAddresses& one : interfaces) each.push_back(whatItHas(one));
  return invalidArgument(base::strCat("the interfaces that ", setting,
                                      " names have no IP version in common that all could carry data by: ",
                                      base::join(each), "; name those of one version, or give them such addresses"));
}

bool haveV6(const Address& reached) {
  const auto v6 = dataAddresses(reached, IpOrder::kV6First);
  return v6.ok() && std::all_of(v6->begin(), v6->end(), [](const Address& one) { return one.v6 && !isLinkLocal(one); });
}

StatusOr<std::vector<Address>> dataAddresses(const Address& reached, IpOrder order) {
  HPU_ASSIGN(std::string prefixes, settings::getString(Setting::HPU_COMM_IFNAME));
  if (splitList(prefixes).empty()) {
    Address address = reached;
    if (order == IpOrder::kV6First && (!reached.v6 || isLinkLocal(reached)))
      address = v6Beside(reached).value_or(reached);
    address.port = 0;
    HPU_LOG(kDebug, base::strCat("data between nodes may go by ", address.text(), ", as what the coordinator is told"));
    return std::vector<Address>{address};
  }
  HPU_ASSIGN(std::vector<InterfaceAddresses> found, findInterfaces(prefixes, "HPU_COMM_IFNAME"));
  if (found[0].loops)
    found.resize(1);
  else
    std::erase_if(found, [](const InterfaceAddresses& one) { return one.loops; });
  found = withoutUnused(std::move(found), prefixes);
  if (found.size() > kMostDataAddresses) found.resize(kMostDataAddresses);
  HPU_ASSIGN(std::vector<Address> addresses,
             oneVersion(found, order, base::strCat("HPU_COMM_IFNAME '", prefixes, "'")));
  for (size_t i = 0; i < found.size(); ++i)
    HPU_LOG(kDebug, base::strCat("data between nodes may go by interface ", found[i].name, ", ", addresses[i].text()));
  return addresses;
}

// Bytes 0-7 magic, 8-15 nonce, 16 family, 17 from the environment, 18-19 port, 20-35 address,
// 36-39 scope, 40-47 label, 48-79 secret, 120-127 hash of what precedes.
UniqueId encodeId(const CoordinatorId& id) {
  wire::Writer out;
  out.raw(kIdMagic);
  out.u64(id.nonce);
  out.u8(id.address.v6 ? 6 : 4);
  out.u8(id.fromEnvironment ? 1 : 0);
  out.u8(static_cast<uint8_t>(id.address.port >> 8));
  out.u8(static_cast<uint8_t>(id.address.port));
  out.raw({reinterpret_cast<const char*>(id.address.ip), 16});
  out.u32(id.address.scope);
  out.u64(id.label);
  out.raw({reinterpret_cast<const char*>(id.secret.data()), id.secret.size()});
  std::string bytes = out.take();
  bytes.resize(120);
  wire::Writer hash;
  hash.u64(base::hash64(bytes));
  bytes += hash.take();
  UniqueId result;
  std::memcpy(result.bytes, bytes.data(), sizeof result.bytes);
  return result;
}

bool isZero(const UniqueId& id) {
  for (uint8_t byte : id.bytes)
    if (byte) return false;
  return true;
}

StatusOr<CoordinatorId> decodeId(const UniqueId& id) {
  std::string_view bytes(reinterpret_cast<const char*>(id.bytes), sizeof id.bytes);
  wire::Reader hash(bytes.substr(120));
  if (!bytes.starts_with(kIdMagic) || hash.u64() != base::hash64(bytes.substr(0, 120)))
    return invalidArgument("the communicator's id is not one that createUniqueId made (or it was changed on its way)");
  wire::Reader in(bytes.substr(8));
  CoordinatorId result;
  result.nonce = in.u64();
  result.address.v6 = in.u8() == 6;
  result.fromEnvironment = in.u8() == 1;
  result.address.port = static_cast<uint16_t>(in.u8() << 8);
  result.address.port = static_cast<uint16_t>(result.address.port | in.u8());
  std::memcpy(result.address.ip, in.rest().data(), 16);
  wire::Reader rest(in.rest().substr(16));
  result.address.scope = rest.u32();
  result.label = rest.u64();
  std::memcpy(result.secret.data(), rest.rest().data(), result.secret.size());
  return result;
}

StatusOr<CoordinatorId> environmentId() {
  HPU_ASSIGN(std::string text, settings::getString(Setting::HCCL_COMM_ID));
  if (text.empty())
    return failedPrecondition(
        "the communicator's id is all zeros and HCCL_COMM_ID is not set: pass the id that "
        "createUniqueId gave to one rank, or set HCCL_COMM_ID=ip:port on every rank");
  CoordinatorId id;
  HPU_ASSIGN(id.address, parseAddress(text, "HCCL_COMM_ID"));
  HPU_ASSIGN(std::string secret, settings::getString(Setting::HPU_COMM_SECRET));
  if (secret.empty()) secret = launcherSecret([](const char* name) -> const char* { return std::getenv(name); });
  // The interface's number is another one on each machine.
  Address place = id.address;
  place.scope = 0;
  id.label = base::hash64(place.text(), 0x4843434c);
  id.nonce = id.label;
  if (!secret.empty()) {
    static std::atomic<bool> warned{false};
    if (secret.size() < kShortSecret && !warned.exchange(true))
      HPU_LOG(kWarning, base::strCat("HPU_COMM_SECRET has ", secret.size(),
                                     " characters: who records how ranks meet can find it by trying; a random one of ",
                                     kShortSecret, " or more cannot be found (openssl rand -hex 16)"));
    id.secret = secretOfText(secret, place.text());
  }
  id.fromEnvironment = true;
  return id;
}

Status checkPrivate(const CoordinatorId& id) {
  if (isKnown(id.secret) || !id.fromEnvironment || isLoopback(id.address)) return okStatus();
  HPU_ASSIGN(bool open, settings::getBool(Setting::HPU_COMM_OPEN));
  if (open) return okStatus();
  return failedPrecondition(base::strCat(
      "HCCL_COMM_ID is ", id.address.text(),
      ", which other machines may reach, and the ranks have no secret: whoever reaches the port could take "
      "a rank's place. Set HPU_COMM_SECRET to a long random text, the same on all ranks (below Open MPI's "
      "mpirun they have one), or HPU_COMM_OPEN=1 on all ranks to meet there with whoever comes"));
}

}  // namespace hpu::collectives
