// SPDX-License-Identifier: Apache-2.0
// What a program of free dimensions has beside its descriptors: how they, its memory and its commands follow from the
// sizes of a launch. Plain structs; src/plan/Instantiate.h makes a Program of fixed sizes from them, without a
// compiler. The one thing to know: the program's own ops and tensors have the sizes of the representatives
// (Symbol::sample); every field that depends on a size is named by a Patch or a placement below, and all others are the
// same for all sizes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hpu::recipe {

/// Symbols that a program may have.
inline constexpr uint32_t kMaxSymbols = 32;
inline constexpr uint32_t kMaxTileChoices = 8;
/// Expressions of a program; they are all evaluated for new sizes, which then takes some 0.3 ms. Models of hundreds of
/// layers have some thousands, as layers share theirs.
inline constexpr uint32_t kMaxSizeExprs = 1u << 16;
/// Arguments of one; a sum in normal form (shape::DimExpr) has as many terms.
inline constexpr uint32_t kMaxExprArgs = 64;
/// The planner compares each two of them. Storages are one or two a layer's unit.
inline constexpr uint32_t kMaxStorages = 4096;
inline constexpr uint32_t kMaxTileStorages = 2048;
inline constexpr uint32_t kMaxTileSlots = 64;
/// Commands of an instance: at 10 us each it takes 0.3 s to plan them. Large models have some thousands.
inline constexpr uint32_t kMaxInstanceCommands = 1u << 15;

/// A free dimension. min <= size <= max; 0 <= min.
struct Symbol {
  std::string name;
  int64_t min = 1, max = 1;
  int64_t sample = 1;  ///< The representative: the size that the program's own numbers are for.
};

/// A node of the expressions' graph; arguments come before it. Values are those of int64_t, without overflow: an
/// instance in which one overflows, or a divisor is less than 1, is refused.
struct SizeExpr {
  enum class Kind : uint8_t {
    kConstant = 0,     ///< `number`.
    kSymbol = 1,       ///< The symbol of index `number`.
    kSum = 2,          ///< args[0] + args[1] ...
    kProduct = 3,      ///< args[0] * args[1] ...
    kFloorDiv = 4,     ///< args[0] / args[1], rounded down.
    kMin = 5,          //
    kMax = 6,          //
    kSelectEqual = 7,  ///< args[0] == args[1] ? args[2] : args[3]; only what is chosen needs a value.
    kSelectLess = 8,   ///< args[0] < args[1] ? args[2] : args[3]
  };
  Kind kind = Kind::kConstant;
  int64_t number = 0;
  /// None of a constant or symbol, 2 of a quotient, 4 of a choice; of the others 2 to kMaxExprArgs.
  std::vector<uint32_t> args;
  bool operator==(const SizeExpr&) const = default;
};

/// A field that takes the value of an expression. Operands of an op are numbered inputs first: a, b, c of an MME op,
/// src, dst of a copy, dst of a fill (operandAt). Each field at most once.
struct Patch {
  enum class Field : uint8_t {
    kInputSize = 0,      ///< Program::inputs[index].type.shape[dim]
    kOutputSize = 1,     ///< Program::outputs[index] likewise.
    kSpace = 2,          ///< ops[index].space[dim]
    kOperandSize = 3,    ///< Of operand `operand` of ops[index].
    kOperandStride = 4,  ///< Elements.
    kOperandOffset = 5,  ///< Bytes from the start of its section; of an operand without a placement.
  };
  Field field = Field::kInputSize;
  uint32_t index = 0, operand = 0, dim = 0;
  uint32_t expr = 0;
};

/// What must hold between sizes for the program to mean what the model says; checked before anything is launched.
struct Guard {
  enum class Relation : uint8_t { kEqual = 0, kLessEqual = 1 };
  Relation relation = Relation::kEqual;
  uint32_t left = 0, right = 0;  ///< Expressions.
  std::string text;              ///< Who asks for it: "Add 'add_3' adds sizes n and m".
};

/// A block of HBM that the planner places as a whole, or an output. Every operand in the workspace lies in one.
struct Storage {
  uint32_t bytes = 0;             ///< Expression.
  uint32_t begin = 0, end = 0;    ///< Units, in program order: the first that writes, the last that reads.
  uint32_t section = 0xffffffff;  ///< The section of the output that it is; kNone: workspace, placed at launch.
};

/// An operand that lies in a storage.
struct StoragePlacement {
  uint32_t op = 0, operand = 0;
  uint32_t storage = 0;
  uint32_t offset = 0;  ///< Expression: bytes from the storage's start.
};

/// Tiles of a result in SRAM (Ring) that both its writer and its readers see; every operand in SRAM is a user of one.
/// Where all users are ops of one part (a bundle's product), or there are several slots (units that take turns), and
/// the unit is cut along `dim`, which each user has, slices are tiles. Else all of the result lies in SRAM, however the
/// units are cut. Where it does not fit, such a unit is cut as the last choice says, and other results lie in the
/// workspace.
struct TileStorage {
  uint32_t unit = 0, part = 0;  ///< The one whose slices fill it; `part` counts into DynamicUnit::parts.
  uint32_t elementBytes = 0;    ///< Those of each user's elements.
  std::vector<uint32_t> sizes;  ///< Expressions: of the whole result, in its logical dims, those of the part's space.
  std::vector<uint32_t> order;  ///< Its dims from the slowest to the fastest of a tile.
  uint32_t dim = 0;             ///< The dimension of the result that is cut, where one is.
  uint32_t slots = 1;           ///< When there is more than one slice; else 1.
  uint32_t begin = 0, end = 0;  ///< Places in the order of bundles, as those of Storage.
  struct User {
    uint32_t op = 0, operand = 0;  ///< Its section is the SRAM's.
    /// The view of the tile: by dim of the operand the dim of the result that it is, or kNone for one of size 1 or one
    /// that repeats.
    std::vector<uint32_t> dims;
    /// Another view, one that parts or joins dims of the result: by dim of the operand its stride, an expression. Then
    /// `dims` only says which one of them follows the slices (the result's `dim`), and all others are kNone.
    std::vector<uint32_t> strides = {};
    /// Expression: bytes from the start of a tile. Of a user with `strides`, or a scalar.
    uint32_t offset = kNoOffset;
    static constexpr uint32_t kNoOffset = 0xffffffff;
  };
  std::vector<User> users;
};

/// Ops that run slice by slice (plan::IssueUnit); several parts follow one another in each slice. Ops of a part have
/// one index space; a bundle's ops are those of its unit, in this order.
struct DynamicUnit {
  struct Part {
    std::vector<uint32_t> ops;
    uint32_t slots = 0, kept = 0, reader = 0;  ///< As plan::IssueUnit has them.
  };
  std::vector<Part> parts;
  uint32_t bundle = 0xffffffff;
};

/// How units are cut, for launches whose symbols lie in a box.
struct TileChoice {
  std::vector<int64_t> min, max;  ///< By symbol, both inclusive. The first choice that holds all sizes is taken.
  /// By unit and part: slices along each dim of its space; empty: one slice. A slice has ceil(size / slices) points.
  /// Parts of one unit are cut along one dim each, into as many slices; they are cut in the same proportion, so that a
  /// slice has ceil(g / slices) * (size / g) points, g being the greatest common divisor of their sizes. The last
  /// choice cuts parts that fill tiles along the tiles' dimension or not at all.
  std::vector<std::vector<std::vector<uint32_t>>> slices;
};

/// What a kernel's launches need beside its image.
struct DynamicKernel {
  std::vector<uint32_t> dims;  ///< Expressions: Kernel::dims.
  /// Issue slots of the whole index space: each term times the product of its trips.
  struct CostTerm {
    double loads = 0, stores = 0, vectorOps = 0, scalarOps = 0;
    std::vector<uint32_t> trips;  ///< Expressions.
  };
  std::vector<CostTerm> cost;
  uint32_t scratchBytes = 0;  ///< Expression.
  /// What it reads, as DimRead: by input and dimension. Of all inputs; dimensions that are left out may be read whole.
  struct Read {
    int32_t dim = -1;                       ///< Of the index space; less than 0: maybe all.
    uint32_t scale = 0, low = 0, high = 0;  ///< Expressions.
  };
  std::vector<std::vector<Read>> reads;
};

/// A free dimension that is the value of an element of an input, which a launch says on the host. An input has all of
/// its elements here, in order, or none; inputs are in order.
struct InputValue {
  uint32_t input = 0, element = 0;
  uint32_t symbol = 0;
  bool operator==(const InputValue&) const = default;
};

struct Dynamic {
  std::vector<Symbol> symbols;
  std::vector<SizeExpr> exprs;
  std::vector<Guard> guards;
  std::vector<Patch> patches;
  std::vector<Storage> storages;
  std::vector<StoragePlacement> placements;
  std::vector<TileStorage> tiles;
  std::vector<DynamicUnit> units;      ///< In program order: their ops, one after another, are Program::hostOrder.
  std::vector<TileChoice> choices;     ///< At least one; the last one holds all sizes.
  std::vector<DynamicKernel> kernels;  ///< By kernel.
  bool reorder = true;                 ///< plan::issueCommands'.
  std::vector<InputValue> values;
};

}  // namespace hpu::recipe
