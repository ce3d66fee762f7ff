// SPDX-License-Identifier: Apache-2.0
#include "collectives/fabric/Fabric.h"

#include <algorithm>
#include <cmath>

#include "arch/NetworkDesc.h"
#include "arch/TargetDesc.h"
#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/topology/Traffic.h"

namespace hpu::collectives {
namespace {

using base::strCat;

// --- Constants ---

int64_t psOf(double us) {
  return std::llround(us * 1e6);
}

// A constant's bounds, and what it sets. What depends on several is set again by each.
struct Setter {
  std::string_view name;
  double least, most;
  void (*set)(Fabric& fabric, double value);
};

double valueOf(const Fabric& fabric, std::string_view name) {
  const ModelConstant* constant = findConstant(fabric, name);
  return constant ? constant->value : 0;
}

void setRailLatency(Fabric& f, double) {
  const double hop = valueOf(f, "switch_us");
  f.railMessagePs = psOf(valueOf(f, "message_us") + valueOf(f, "rail_nic_us") + hop);
  f.uplinkPs = psOf(2 * hop);
}

constexpr double kMostUs = 1e6, kMostRate = 1e6;
constexpr Setter kSetters[] = {
    {"start_us", 0, kMostUs, [](Fabric& f, double v) { f.mesh.startPs = psOf(v); }},
    {"message_us", 0, kMostUs,
     [](Fabric& f, double v) {
       f.mesh.messagePs = psOf(v);
       setRailLatency(f, v);
     }},
    {"message_issue_us", 0, kMostUs, [](Fabric& f, double v) { f.mesh.messageIssuePs = psOf(v); }},
    {"packets_per_ack", 1, 1e6,
     [](Fabric& f, double v) {
       const int64_t before = f.mesh.packetOverheadBytes;
       setPacketsPerAck(f.mesh, std::llround(v));
       f.railPacketOverheadBytes += f.mesh.packetOverheadBytes - before;
     }},
    {"copy_start_us", 0, kMostUs, [](Fabric& f, double v) { f.mesh.stepPs = psOf(v); }},
    {"copy_gb_per_s", 1e-3, kMostRate, [](Fabric& f, double v) { f.mesh.copyBytesPerNs = v; }},
    {"reduce_gb_per_s", 1e-3, kMostRate, [](Fabric& f, double v) { f.mesh.reduceBytesPerNs = v; }},
    {"switch_us", 0, kMostUs, setRailLatency},
    {"rail_nic_us", 0, kMostUs, setRailLatency},
    {"rail_issue_us", 0, kMostUs, [](Fabric& f, double v) { f.railIssuePs = psOf(v); }},
};

std::string setterNames() {
  std::string names;
  for (const Setter& setter : kSetters) names += strCat(names.empty() ? "" : ", ", setter.name);
  return names;
}

// --- Checks ---

template <typename Number>
Status checkRange(std::string_view field, Number value, Number least, Number most) {
  if (value >= least && value <= most) return {};  // False for a NaN.
  return invalidArgument(strCat("'", field, "' is ", value, ", not from ", least, " to ", most));
}

Status checkAscending(std::string_view what, const std::vector<int32_t>& values, int32_t size) {
  for (size_t i = 0; i < values.size(); ++i) {
    HPU_RETURN_IF_ERROR(checkRange(what, values[i], 0, size - 1));
    if (i > 0 && values[i] <= values[i - 1])
      return invalidArgument(
          strCat("'", what, "' names ", values[i], " after ", values[i - 1], ": each once, ascending"));
  }
  return {};
}

Status checkException(const NodeException& e, const Fabric& f) {
  HPU_RETURN_IF_ERROR(checkRange("rate", e.rate, kLeastNodeRate, 1.0));
  HPU_RETURN_IF_ERROR(checkAscending("rails_down", e.railsDown, f.rails));
  return checkAscending("devices", e.devices, f.devicesPerNode);
}

Status checkMesh(const LinkModel& m, int32_t devices) {
  HPU_RETURN_IF_ERROR(checkRange("rate of the mesh", m.linkBytesPerNs, kLeastLinkRate, kMostLinkRate));
  for (const auto& [name, rate] :
       {std::pair("copy_gb_per_s", m.copyBytesPerNs), {"reduce_gb_per_s", m.reduceBytesPerNs}})
    if (!(rate >= 1e-3 && rate <= kMostRate))
      return invalidArgument(strCat("'", name, "' is ", rate, ": the links of ", devices,
                                    " devices in one mesh ('devices_per_node') and the rails leave copies nothing of "
                                    "the memory's rate; have fewer of them or lower rates, or set the constant"));
  HPU_RETURN_IF_ERROR(
      checkRange<int64_t>("packet_bytes of the mesh", m.packetBytes, kLeastPacketBytes, kMostPacketBytes));
  HPU_RETURN_IF_ERROR(
      checkRange<int64_t>("packet_overhead_bytes of the mesh", m.packetOverheadBytes, 0, kMostOverheadBytes));
  return checkRange<int64_t>("message_overhead_bytes of the mesh", m.messageOverheadBytes, 0, kMostOverheadBytes);
}

}  // namespace

const NodeException* Fabric::exceptionOf(int32_t node) const {
  auto it = std::lower_bound(exceptions.begin(), exceptions.end(), node,
                             [](const NodeException& e, int32_t n) { return e.node < n; });
  return it != exceptions.end() && it->node == node ? &*it : nullptr;
}

double Fabric::rateOf(int32_t node) const {
  const NodeException* exception = exceptionOf(node);
  return exception ? exception->rate : 1;
}

int32_t Fabric::railOf(int32_t node, int32_t device) const {
  const int32_t own = device * rails / devicesPerNode;
  const NodeException* exception = exceptionOf(node);
  if (!exception) return own;
  for (int32_t shift = 0; shift < rails; ++shift) {
    const int32_t rail = (own + shift) % rails;
    const auto& down = exception->railsDown;
    if (std::find(down.begin(), down.end(), rail) == down.end()) return rail;
  }
  return -1;
}

int64_t Fabric::railPs(int64_t bytes) const {
  const auto wire = static_cast<double>(railFraming(*this).of(bytes).bytes);
  return railIssuePs + static_cast<int64_t>(std::ceil(wire / railBytesPerNs * 1000));
}

int64_t Fabric::railPs(int32_t node, int64_t bytes) const {
  return slowedPs(railPs(bytes), rateOf(node));
}

int64_t Fabric::linkPs(int32_t node, int64_t bytes) const {
  return slowedPs(mesh.linkPs(bytes), rateOf(node));
}

int64_t slowedPs(int64_t fullPs, double rate) {
  return rate == 1 ? fullPs : static_cast<int64_t>(std::ceil(static_cast<double>(fullPs) / rate));
}

double Fabric::railPayloadBytesPerNs() const {
  return railBytesPerNs * static_cast<double>(railPacketBytes) /
         static_cast<double>(railPacketBytes + railPacketOverheadBytes);
}

const ModelConstant* findConstant(const Fabric& fabric, std::string_view name) {
  for (const ModelConstant& constant : fabric.constants)
    if (constant.name == name) return &constant;
  return nullptr;
}

Status setConstant(Fabric& fabric, ModelConstant constant) {
  const std::string& name = constant.name;
  const auto* setter =
      std::find_if(std::begin(kSetters), std::end(kSetters), [&](const Setter& s) { return s.name == name; });
  if (setter == std::end(kSetters))
    return invalidArgument(strCat("there is no constant '", name, "'; there are ", setterNames()));
  HPU_RETURN_IF_ERROR(checkRange(name, constant.value, setter->least, setter->most));
  if (name == "packets_per_ack" && constant.value != std::floor(constant.value))
    return invalidArgument(strCat("'", name, "' is ", constant.value, ", not a whole number"));
  if (!(constant.low <= constant.value && constant.value <= constant.high))
    return invalidArgument(strCat("'", name, "' is ", constant.value, ", outside of its interval from ", constant.low,
                                  " to ", constant.high));
  const double value = constant.value;
  if (const ModelConstant* known = findConstant(fabric, name))
    fabric.constants[static_cast<size_t>(known - fabric.constants.data())] = std::move(constant);
  else
    fabric.constants.push_back(std::move(constant));
  setter->set(fabric, value);
  return {};
}

Fabric uniformFabric(Target target, int32_t nodes, int32_t devicesPerNode, double linkBytesPerNs, int32_t rails,
                     double railBytesPerNs) {
  Fabric f;
  f.target = target;
  f.nodes = nodes;
  f.devicesPerNode = devicesPerNode;
  f.rails = rails;
  f.railBytesPerNs = railBytesPerNs;
  // Devices of one node send nothing by rails.
  const double ofRails = nodes > 1 && devicesPerNode > 0 ? railBytesPerNs * rails / devicesPerNode : 0;
  f.mesh = meshModel(target, devicesPerNode, linkBytesPerNs, ofRails);
  f.railPacketBytes = f.mesh.packetBytes;
  f.railPacketOverheadBytes = f.mesh.packetOverheadBytes;
  f.railMessageOverheadBytes = f.mesh.messageOverheadBytes;
  f.constants = meshConstants(f.mesh);
  const double peak = arch::targetDesc(target).hbmBytesPerNs;
  for (const auto& [name, rate] :
       {std::pair("copy_gb_per_s", f.mesh.copyBytesPerNs), {"reduce_gb_per_s", f.mesh.reduceBytesPerNs}})
    f.constants.push_back({name, rate, rate / 2, peak,
                           "src/arch: the memory's rate x its efficiency, less what links and rails take of it both "
                           "ways when all are busy; not measured. Up to: the memory's rate by itself"});
  f.constants.push_back({"switch_us", 0.6, 0.3, 4,
                         "chosen: one switch with its cables. Data sheets of data-centre switches give 0.4 to 1 us a "
                         "hop, those with deep buffers up to 4; 10 m of cable are 0.05 us"});
  f.constants.push_back({"rail_nic_us", 0, 0, 4,
                         "chosen: nothing is published of Gaudi's latency between nodes; its own ports are taken to "
                         "need what a link of the mesh does. Host NICs need more: a file says so"});
  f.constants.push_back({"rail_issue_us", 0.01, 0.005, 0.1, "as message_issue_us: the same NICs"});
  f.railIssuePs = psOf(valueOf(f, "rail_issue_us"));
  setRailLatency(f, 0);
  return f;
}

Fabric standardFabric(Target target, int32_t nodes) {
  const arch::NetworkDesc& network = arch::networkDesc(target);
  Fabric f = uniformFabric(target, nodes, network.devices, network.bytesPerNsPerPeer(), network.devices,
                           network.scaleOutBytesPerNs());
  f.name = target == Target::kGaudi1 ? "hls-1" : target == Target::kGaudi2 ? "hls-2" : "hls-3";
  return f;
}

Status checkFabric(const Fabric& f) {
  if (f.name.size() > 100) return invalidArgument("'name' has more than 100 bytes");
  HPU_RETURN_IF_ERROR(checkRange("nodes", f.nodes, 1, kMaxFabricDevices));
  HPU_RETURN_IF_ERROR(checkRange("devices_per_node", f.devicesPerNode, 1, kMaxDevicesPerNode));
  if (int64_t{f.nodes} * f.devicesPerNode > kMaxFabricDevices)
    return invalidArgument(strCat("'nodes' x 'devices_per_node' are ", int64_t{f.nodes} * f.devicesPerNode,
                                  " devices; at most ", kMaxFabricDevices));
  HPU_RETURN_IF_ERROR(checkRange("count of the rails", f.rails, 1, f.devicesPerNode));
  HPU_RETURN_IF_ERROR(checkRange("rate of the rails", f.railBytesPerNs, kLeastLinkRate, kMostLinkRate));
  HPU_RETURN_IF_ERROR(checkRange("nodes of a leaf", f.nodesPerLeaf, 0, kMaxFabricDevices));
  HPU_RETURN_IF_ERROR(checkRange("oversubscription", f.oversubscription, 1.0, kMostOversubscription));
  if (f.nodesPerLeaf == 0 && f.oversubscription != 1)
    return invalidArgument(
        "'oversubscription' is that of a leaf's uplinks, but there are no leaves: set the nodes of a leaf");
  for (const auto& [name, ps] : {std::pair("railMessagePs", f.railMessagePs),
                                 {"uplinkPs", f.uplinkPs},
                                 {"railIssuePs", f.railIssuePs},
                                 {"startPs of the mesh", f.mesh.startPs},
                                 {"messagePs of the mesh", f.mesh.messagePs},
                                 {"messageIssuePs of the mesh", f.mesh.messageIssuePs},
                                 {"stepPs of the mesh", f.mesh.stepPs}})
    HPU_RETURN_IF_ERROR(checkRange<int64_t>(name, ps, 0, 4 * psOf(kMostUs)));
  HPU_RETURN_IF_ERROR(
      checkRange<int64_t>("packet_bytes of the rails", f.railPacketBytes, kLeastPacketBytes, kMostPacketBytes));
  HPU_RETURN_IF_ERROR(
      checkRange<int64_t>("packet_overhead_bytes of the rails", f.railPacketOverheadBytes, 0, kMostOverheadBytes));
  HPU_RETURN_IF_ERROR(
      checkRange<int64_t>("message_overhead_bytes of the rails", f.railMessageOverheadBytes, 0, kMostOverheadBytes));
  if (f.mesh.target != f.target)
    return invalidArgument(
        strCat("the mesh is ", targetName(f.mesh.target), "'s, the fabric ", targetName(f.target), "'s"));
  HPU_RETURN_IF_ERROR(checkMesh(f.mesh, f.devicesPerNode));
  for (size_t i = 0; i < f.exceptions.size(); ++i) {
    const NodeException& e = f.exceptions[i];
    const auto at = [&](std::string_view what) {
      return invalidArgument(strCat("'exceptions', node ", e.node, ": ", what));
    };
    if (e.node < 0 || e.node >= f.nodes) return at(strCat("there are nodes 0 to ", f.nodes - 1));
    if (i > 0 && e.node <= f.exceptions[i - 1].node)
      return at(strCat("it comes after node ", f.exceptions[i - 1].node, ": each node once, ascending"));
    if (Status status = checkException(e, f); !status.ok()) return at(status.message());
  }
  for (size_t i = 0; i < f.constants.size(); ++i) {
    const ModelConstant& c = f.constants[i];
    if (findConstant(f, c.name) != &c) return invalidArgument(strCat("'constants': '", c.name, "' comes twice"));
  }
  return {};
}

}  // namespace hpu::collectives
