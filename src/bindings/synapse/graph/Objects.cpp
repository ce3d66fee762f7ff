// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/graph/Objects.h"

#include <algorithm>

#include "base/Format.h"

namespace hpu::synapse {
namespace {

uint64_t nextId() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

bool TensorProperties::isPersistent() const {
  if (!section) return false;
  std::lock_guard lock(section->mutex);
  return section->persistent;
}

TensorObject::TensorObject() : id(nextId()) {}

GraphObject::GraphObject(synDeviceType type, Target t, bool isEager)
    : id(nextId()), deviceType(type), target(t), eager(isEager) {}

NodeRecord* GraphObject::findNode(synNodeId nodeId) {
  auto at = std::lower_bound(nodes.begin(), nodes.end(), nodeId,
                             [](const NodeRecord& node, synNodeId wanted) { return node.description.id < wanted; });
  return at != nodes.end() && at->description.id == nodeId ? &*at : nullptr;
}

synNodeId nextNodeId() {
  static std::atomic<synNodeId> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

std::string deviceTypeName(synDeviceType type) {
  switch (type) {
    case synDeviceGreco:
      return "Greco";
    case synDeviceGaudi:
      return "Gaudi";
    case synDeviceGaudi2:
      return "Gaudi2";
    case synDeviceGaudi3:
      return "Gaudi3";
    case synDeviceEmulator:
      return "Emulator";
    default:
      return base::strCat("device type ", static_cast<int>(type));
  }
}

}  // namespace hpu::synapse
