// SPDX-License-Identifier: Apache-2.0
// The phase memory: gives every unit's results an address, and every bundle its SRAM tiles.
// The one thing to know: the plan is written into the IR as attributes (`hpu.buffers`, `hpu.ring`), and
// MemoryMap reads it back.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "compiler/layout/Views.h"
#include "compiler/memory/Capacity.h"
#include "hpu/status.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir {
class Pass;
}

namespace hpu::memory {

struct MemoryStats {
  int64_t sramPeakBytes = 0;
  HbmNeeds hbm;  ///< Weights before packing: their exact bytes are known after `schedule`.
};

struct MemoryOptions {
  bool reuse = true;  ///< false: every buffer its own address (-O0).
  int64_t sramBytes = 0;
  int64_t hbmBytes = 0;
  /// The unfused graph's (pipeline/LiveSet.h): concatenations are written in place as long as that does not raise the
  /// plan above it. 0: unknown.
  int64_t largestLiveSetBytes = 0;
  MemoryStats* stats = nullptr;
  std::string* report = nullptr;
  std::string* summary = nullptr;
};

std::unique_ptr<mlir::Pass> createMemoryPass(MemoryOptions options);
/// Post-condition: until its last reader is done nobody writes over a result (but the unit that replaces it point by
/// point, and a concatenation that finds its parts in place); buffers are aligned and within the workspace; tiles fit
/// into SRAM.
std::unique_ptr<mlir::Pass> createVerifyMemoryPass(int64_t sramBytes);

/// Section numbers of a program: inputs, outputs, then these three.
struct Sections {
  unsigned inputs = 0, outputs = 0;
  unsigned constants() const { return inputs + outputs; }
  unsigned workspace() const { return inputs + outputs + 1; }
  unsigned sram() const { return inputs + outputs + 2; }
};
Sections sectionsOf(mlir::func::FuncOp function);

/// Where a view of a value lies: bytes into a section. Constants have no address before `schedule`.
struct Location {
  unsigned section = 0;
  int64_t offset = 0;
  ir::StridedView view;
};
std::optional<Location> locate(mlir::Value value);

/// The same with expressions, where sizes are given late: `offset` in bytes from the start of the storage or, without
/// one (-1), of the section.
struct SymLocation {
  int64_t storage = -1;
  shape::SymInt offset = 0;
  ir::SymView view;
};
std::optional<SymLocation> locateSymbolic(mlir::Value value);

/// The SRAM tiles of a bundle's MME result: [offset, slots, dim, slotBytes].
struct RingInfo {
  int64_t offset = 0, slots = 0, dim = 0, slotBytes = 0;
};
std::optional<RingInfo> ringOf(mlir::Operation* bundle);
/// Those of a chained unit's result, likewise; one slot holds all of it.
std::optional<RingInfo> chainRingOf(mlir::Operation* unit);

/// Attribute names.
inline constexpr const char* kBuffersAttr = "hpu.buffers";
/// Where sizes are given late: on units, pairs of a storage and the text of the offset in it (elements) for each
/// result; on the function, {bytes, begin, end, output} of each storage.
inline constexpr const char* kStoragesAttr = "hpu.storages";
inline constexpr const char* kRingAttr = "hpu.ring";
inline constexpr const char* kChainRingAttr = "hpu.chain_ring";
inline constexpr const char* kWorkspaceAttr = "hpu.workspace";
inline constexpr const char* kSramAttr = "hpu.sram";

}  // namespace hpu::memory
