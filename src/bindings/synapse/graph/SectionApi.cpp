// SPDX-License-Identifier: Apache-2.0
// Entry points: sections of memory.
#include "base/Format.h"
#include "bindings/synapse/api/EntryPoint.h"
#include "bindings/synapse/graph/Tables.h"

namespace hpu::synapse {
namespace {

constexpr uint64_t kMaxGroup = 255;  // As SynapseAI has it.

/// Changes a property of a section that no tensor uses yet.
template <typename Change>
Result change(const char* function, synSectionHandle handle, Change&& apply) {
  SYN_FIND(section, sections(), handle);
  std::lock_guard lock(section->mutex);
  if (section->used)
    return {synFail,
            base::strCat("section ", section->id, " has tensors; call ", function, " before the first is assigned")};
  apply(*section);
  return {};
}

template <typename T, typename Read>
Result read(synSectionHandle handle, T* out, const char* name, Read&& get) {
  SYN_FIND(section, sections(), handle);
  if (!out) return badArgument(base::strCat(name, " is null"));
  std::lock_guard lock(section->mutex);
  *out = get(*section);
  return {};
}

}  // namespace
}  // namespace hpu::synapse

using namespace hpu::synapse;

synStatus SYN_API_CALL synSectionCreate(synSectionHandle* sectionHandle, uint64_t sectionDescriptor,
                                        const synGraphHandle graph) {
  return guardedCreate("synSectionCreate", sectionHandle, [&]() -> Result {
    SYN_REQUIRE(sectionHandle);
    SYN_FIND(owner, graphs(), graph);
    constexpr uint64_t kKnown =
        MEMORY_ATTRIBUTE_DEVICE | MEMORY_ATTRIBUTE_HOST | MEMORY_ATTRIBUTE_SRAM | MEMORY_ATTRIBUTE_PERSISTENT;
    if (sectionDescriptor & ~kKnown)
      return badArgument(hpu::base::strCat("the section descriptor ", hpu::base::formatHex(sectionDescriptor),
                                           " has bits that are no synMemoryAttribute"));
    std::lock_guard lock(owner->mutex);
    *sectionHandle = sections().insert(std::make_shared<SectionObject>(owner->nextSection++, owner->id));
    return {};
  });
}

synStatus SYN_API_CALL synSectionDestroy(synSectionHandle sectionHandle) {
  return guarded("synSectionDestroy", [&]() -> Result {
    return sections().remove(sectionHandle) ? Result() : sections().missing(sectionHandle);
  });
}

synStatus SYN_API_CALL synSectionSetGroup(synSectionHandle sectionHandle, uint64_t sectionGroup) {
  return guarded("synSectionSetGroup", [&]() -> Result {
    if (sectionGroup > kMaxGroup)
      return {synUnsupported, hpu::base::strCat("section groups are at most ", kMaxGroup, ", not ", sectionGroup)};
    return change("synSectionSetGroup", sectionHandle, [&](SectionObject& s) { s.group = sectionGroup; });
  });
}

synStatus SYN_API_CALL synSectionGetGroup(synSectionHandle sectionHandle, uint64_t* sectionGroup) {
  return guarded("synSectionGetGroup", [&]() -> Result {
    return read(sectionHandle, sectionGroup, "sectionGroup", [](const SectionObject& s) { return s.group; });
  });
}

synStatus SYN_API_CALL synSectionSetPersistent(synSectionHandle sectionHandle, bool sectionIsPersistent) {
  return guarded("synSectionSetPersistent", [&]() -> Result {
    return change("synSectionSetPersistent", sectionHandle,
                  [&](SectionObject& s) { s.persistent = sectionIsPersistent; });
  });
}

synStatus SYN_API_CALL synSectionGetPersistent(synSectionHandle sectionHandle, bool* sectionIsPersistent) {
  return guarded("synSectionGetPersistent", [&]() -> Result {
    return read(sectionHandle, sectionIsPersistent, "sectionIsPersistent",
                [](const SectionObject& s) { return s.persistent; });
  });
}

synStatus SYN_API_CALL synSectionSetConst(synSectionHandle sectionHandle, bool sectionIsConst) {
  return guarded("synSectionSetConst", [&]() -> Result {
    return change("synSectionSetConst", sectionHandle, [&](SectionObject& s) { s.isConst = sectionIsConst; });
  });
}

synStatus SYN_API_CALL synSectionGetConst(synSectionHandle sectionHandle, bool* sectionIsConst) {
  return guarded("synSectionGetConst", [&]() -> Result {
    return read(sectionHandle, sectionIsConst, "sectionIsConst", [](const SectionObject& s) { return s.isConst; });
  });
}

synStatus SYN_API_CALL synSectionSetRMW(synSectionHandle sectionHandle, bool sectionIsRMW) {
  return guarded("synSectionSetRMW", [&]() -> Result {
    return change("synSectionSetRMW", sectionHandle, [&](SectionObject& s) { s.rmw = sectionIsRMW; });
  });
}

synStatus SYN_API_CALL synSectionGetRMW(synSectionHandle sectionHandle, bool* sectionIsRMW) {
  return guarded("synSectionGetRMW", [&]() -> Result {
    return read(sectionHandle, sectionIsRMW, "sectionIsRMW", [](const SectionObject& s) { return s.rmw; });
  });
}
