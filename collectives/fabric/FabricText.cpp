// SPDX-License-Identifier: Apache-2.0
// Writing: what a reader would not find out by itself.
#include <nlohmann/json.hpp>

#include "collectives/fabric/FabricFile.h"

namespace hpu::collectives {
namespace {

using nlohmann::ordered_json;

void writePackets(ordered_json& links, int64_t payload, int64_t overhead, int64_t message, const LinkModel& rule) {
  if (payload != rule.packetBytes) links["packet_bytes"] = payload;
  if (overhead != rule.packetOverheadBytes) links["packet_overhead_bytes"] = overhead;
  if (message != rule.messageOverheadBytes) links["message_overhead_bytes"] = message;
}

}  // namespace

std::string fabricText(const Fabric& f) {
  // What the same numbers would give without a word on packets and constants.
  Fabric rule = uniformFabric(f.target, f.nodes, f.devicesPerNode, f.mesh.linkBytesPerNs, f.rails, f.railBytesPerNs);
  ordered_json constants = ordered_json::object();
  for (const ModelConstant& c : f.constants) {
    const ModelConstant* known = findConstant(rule, c.name);
    if (known && *known == c) continue;
    constants[c.name] = {{"value", c.value}, {"low", c.low}, {"high", c.high}, {"source", c.source}};
    (void)setConstant(rule, c);
  }
  ordered_json mesh = {{"gb_per_s", f.mesh.linkBytesPerNs}};
  writePackets(mesh, f.mesh.packetBytes, f.mesh.packetOverheadBytes, f.mesh.messageOverheadBytes, rule.mesh);
  ordered_json rails = {{"count", f.rails}, {"gb_per_s", f.railBytesPerNs}};
  writePackets(rails, f.railPacketBytes, f.railPacketOverheadBytes, f.railMessageOverheadBytes, rule.mesh);
  ordered_json out = {{"format", "openhpu-fabric-1"},
                      {"name", f.name},
                      {"target", std::string(targetName(f.target))},
                      {"nodes", f.nodes},
                      {"devices_per_node", f.devicesPerNode},
                      {"mesh", std::move(mesh)},
                      {"rails", std::move(rails)}};
  if (f.nodesPerLeaf > 0) out["leaf"] = {{"nodes", f.nodesPerLeaf}, {"oversubscription", f.oversubscription}};
  if (!constants.empty()) out["constants"] = std::move(constants);
  ordered_json exceptions = ordered_json::array();
  for (const NodeException& e : f.exceptions) {
    ordered_json j = {{"node", e.node}, {"rate", e.rate}};
    if (!e.railsDown.empty()) j["rails_down"] = e.railsDown;
    if (!e.devices.empty()) j["devices"] = e.devices;
    exceptions.push_back(std::move(j));
  }
  if (!exceptions.empty()) out["exceptions"] = std::move(exceptions);
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace hpu::collectives
