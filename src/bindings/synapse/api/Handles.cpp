// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/api/Handles.h"

#include "base/Format.h"

namespace hpu::synapse {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<HandleTable*> tables;
};
Registry& registry() {
  static auto* instance = new Registry;  // Entry points may run while the process ends.
  return *instance;
}

}  // namespace

const char* handleKindName(HandleKind kind) {
  switch (kind) {
    case HandleKind::kStream:
      return "stream";
    case HandleKind::kEvent:
      return "event";
    case HandleKind::kGraph:
      return "graph";
    case HandleKind::kTensor:
      return "tensor";
    case HandleKind::kSection:
      return "section";
    case HandleKind::kRecipe:
      return "recipe";
    case HandleKind::kCommunicator:
      return "communicator";
    case HandleKind::kRegistration:
      return "registration";
  }
  return "";
}

HandleTable::HandleTable(HandleKind kind) : kind_(kind) {
  std::lock_guard lock(registry().mutex);
  registry().tables.push_back(this);
}

HandleTable::~HandleTable() {
  std::lock_guard lock(registry().mutex);
  std::erase(registry().tables, this);
}

void HandleTable::clearAll() {
  std::vector<HandleTable*> tables;
  {
    std::lock_guard lock(registry().mutex);
    tables = registry().tables;
  }
  for (HandleTable* table : tables) table->clear();
}

void HandleTable::abandonAll() noexcept {
  // The list only grows while the library is loaded or first used.
  base::abandon(registry().mutex);
  for (HandleTable* table : registry().tables) table->abandon();
}

Result HandleTable::fullTable(size_t limit) const {
  std::string name = handleKindName(kind_);
  return {synAllResourcesTaken, base::strCat("the process has ", limit, " ", name,
                                             "s, which is as many as there may be; "
                                             "destroy those that are not needed")};
}

Result HandleTable::missingHandle(uint64_t handle, bool parents) const {
  std::string name = handleKindName(kind_);
  if (handle == 0) return badArgument("the " + name + " handle is null");
  std::string text = "the " + name + " handle " + base::formatHex(handle);
  std::string other = handleKindName(static_cast<HandleKind>(handle >> 56));
  if (mine(handle) && parents)
    return badArgument(text + " is of the process that made the " + name + ", not of its child");
  if (mine(handle)) return badArgument(text + " is stale: the " + name + " was destroyed");
  if (!other.empty()) return badArgument(text + " is one of " + (other == "event" ? "an " : "a ") + other);
  return badArgument(text + " is not one that this library gave");
}

}  // namespace hpu::synapse
