// SPDX-License-Identifier: Apache-2.0
// The encoding of every struct of Recipe.h, one function each, for reading and writing alike.
// The one thing to know: the order of the fields is the format. A released struct never changes;
// what a later minor version adds goes into a section of its own (docs/recipe-format.md).
#pragma once

#include "recipe/Container.h"
#include "recipe/Dynamic.h"
#include "recipe/Recipe.h"
#include "recipe/Serializer.h"

namespace hpu::recipe {

/// A ConstantBlob as stored: where its bytes are in the constant-data section.
struct StoredConstant {
  uint32_t section = kNone;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t dataOffset = 0;
};

/// An InputDefault as stored: its bytes are in the constant-data section, too.
struct StoredDefault {
  uint32_t input = kNone;
  uint64_t bytes = 0;
  uint64_t dataOffset = 0;
};

/// A KernelImage as stored: where its bytes are in the image-data section.
struct StoredImage {
  CpuVariant cpu = CpuVariant::kX86_64_v3;
  std::vector<uint64_t> entries;
  uint64_t bytes = 0;
  uint64_t dataOffset = 0;
};

/// MmeDesc::packingFactor where it is not 1: the struct itself is that of format 1.0.
struct StoredPacking {
  uint32_t op = kNone;
  int64_t factor = 1;
};

template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<TensorInfo> v) {
  ar(v.name, v.type.element, v.type.shape);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<Section> v) {
  ar(v.kind, v.binding, v.bytes);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<State> v) {
  ar(v.input, v.output, v.capacity);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<DataSize> v) {
  ar(v.output, v.dim, v.element);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<StoredConstant> v) {
  ar(v.section, v.offset, v.bytes, v.dataOffset);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<StoredDefault> v) {
  ar(v.input, v.bytes, v.dataOffset);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<StoredImage> v) {
  ar(v.cpu, v.entries, v.bytes, v.dataOffset);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<StoredPacking> v) {
  ar(v.op, v.factor);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<TpcCost> v) {
  ar(v.loads, v.stores, v.vectorOps, v.scalarOps);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<Kernel> v) {
  ar(v.name, v.cost, v.numInputs, v.numOutputs, v.rank, v.wholeDims, v.scratchBytes);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<Ring> v) {
  ar(v.slots, v.dim, v.slotBytes);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<Operand> v) {
  ar(v.section, v.offset, v.type, v.sizes, v.strides, v.ring);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<MmeDesc> v) {
  ar(v.kind, v.packing, v.a, v.b, v.c, v.strides, v.dilations, v.padBegin, v.padEnd, v.groups);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<TpcDesc> v) {
  ar(v.kernel, v.inputs, v.outputs);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<DmaDesc> v) {
  ar(v.fill, v.dst);
  if (v.fill) {
    ar(v.fillPattern);
  } else {
    ar(v.src);
  }
}
/// Only the descriptor of the op's own engine is stored.
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<Op> v) {
  ar(v.engine, v.name, v.provenance, v.space);
  switch (v.engine) {
    case Engine::kMme:
      ar(v.mme);
      break;
    case Engine::kTpc:
      ar(v.tpc);
      break;
    case Engine::kDma:
      ar(v.dma);
      break;
    case Engine::kNic:
      break;
  }
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<Bundle> v) {
  ar(v.name, v.ops, v.slices);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<Wait> v) {
  ar(v.signal, v.value);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<Command> v) {
  ar(v.op, v.bundle, v.slice, v.lo, v.hi, v.waits, v.signal);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<Queue> v) {
  ar(v.engine, v.commands);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<SourceNode> v) {
  ar(v.name, v.op);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<Estimates> v) {
  ar(v.deviceTimeUs, v.lowerBoundUs, v.largestLiveSetBytes, v.sramPeakBytes);
}

// ---- Dynamic.h ---------------------------------------------------------------------------------------

template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<Symbol> v) {
  ar(v.name, v.min, v.max, v.sample);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<SizeExpr> v) {
  ar(v.kind, v.number, v.args);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<Guard> v) {
  ar(v.relation, v.left, v.right, v.text);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<Patch> v) {
  ar(v.field, v.index, v.operand, v.dim, v.expr);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<Storage> v) {
  ar(v.bytes, v.begin, v.end, v.section);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<StoragePlacement> v) {
  ar(v.op, v.operand, v.storage, v.offset);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<TileStorage::User> v) {
  ar(v.op, v.operand, v.dims, v.strides, v.offset);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<TileStorage> v) {
  ar(v.unit, v.part, v.elementBytes, v.sizes, v.order, v.dim, v.slots, v.begin, v.end, v.users);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<DynamicUnit::Part> v) {
  ar(v.ops, v.slots, v.kept, v.reader);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<DynamicUnit> v) {
  ar(v.parts, v.bundle);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<TileChoice> v) {
  ar(v.min, v.max, v.slices);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<DynamicKernel::CostTerm> v) {
  ar(v.loads, v.stores, v.vectorOps, v.scalarOps, v.trips);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<DynamicKernel::Read> v) {
  ar(v.dim, v.scale, v.low, v.high);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<DynamicKernel> v) {
  ar(v.dims, v.cost, v.scratchBytes, v.reads);
}

template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<InputValue> v) {
  ar(v.input, v.element, v.symbol);
}

struct StoredVariant;
struct StoredPart;

/// The lists that the container stores in place of Program::constants, Program::defaults, Program::images, packing
/// factors, Program::dynamic, Program::variants and Program::parts.
struct StoredTables {
  std::vector<StoredConstant> constants;
  std::vector<StoredDefault> defaults;
  std::vector<StoredImage> images;
  std::vector<StoredPacking> packings;  ///< In the order of ops.
  Dynamic dynamic;
  std::vector<StoredVariant> variants;
  std::vector<StoredPart> parts;
};

/// A Variant as stored: the metadata sections of its program one after another, but for its constants, which are the
/// holder's.
struct StoredVariant {
  std::vector<int64_t> sizes;
  Program program;
  StoredTables tables;
  bool isDynamic = false;  ///< The sections of Program::dynamic follow.
};
inline constexpr SectionId kVariantSections[] = {
    SectionId::kProgram, SectionId::kMemory, SectionId::kKernels, SectionId::kImages,    SectionId::kOps,
    SectionId::kBundles, SectionId::kQueues, SectionId::kSources, SectionId::kEstimates, SectionId::kPackings};

/// A Part as stored: as a variant, and whose part it is. Parts of parts are in the same list, each behind its holder:
/// how deep a file nests them takes none of the reader's stack.
struct StoredPart {
  uint32_t holder = kNone;  ///< The place in the list of the part that it is a part of; kNone: the program's.
  std::vector<PartPlace> sections;
  uint64_t trips = 1;
  PartPlace count, condition;
  bool conditionInverted = false;
  Program program;
  StoredTables tables;
};

template <typename Ar>
bool sectionSchema(SectionId id, Ar& ar, typename Ar::template Ref<Program> p,
                   typename Ar::template Ref<StoredTables> tables);

template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<PartPlace> v) {
  ar(v.section, v.offset, v.step, v.turns, v.oddSection, v.oddOffset);
}
template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<StoredPart> v) {
  ar(v.holder, v.sections, v.trips, v.count, v.condition, v.conditionInverted);
  for (SectionId id : kVariantSections) sectionSchema(id, ar, v.program, v.tables);
}

template <typename Ar>
void schema(Ar& ar, typename Ar::template Ref<StoredVariant> v) {
  ar(v.sizes);
  for (SectionId id : kVariantSections) sectionSchema(id, ar, v.program, v.tables);
  ar(v.isDynamic);
  if (!v.isDynamic) return;
  for (SectionId id : kDynamicSections) sectionSchema(id, ar, v.program, v.tables);
}

/// The contents of one metadata section. False when the id is not one of a metadata section (kIr is
/// raw text).
template <typename Ar>
bool sectionSchema(SectionId id, Ar& ar, typename Ar::template Ref<Program> p,
                   typename Ar::template Ref<StoredTables> tables) {
  switch (id) {
    case SectionId::kProgram:
      return ar(p.name, p.producer, p.inputs, p.outputs), true;
    case SectionId::kMemory:
      return ar(p.sections), true;
    case SectionId::kConstants:
      return ar(tables.constants), true;
    case SectionId::kKernels:
      return ar(p.kernels), true;
    case SectionId::kImages:
      return ar(tables.images), true;
    case SectionId::kOps:
      return ar(p.ops), true;
    case SectionId::kBundles:
      return ar(p.bundles, p.hostOrder), true;
    case SectionId::kQueues:
      return ar(p.numSignals, p.queues), true;
    case SectionId::kSources:
      return ar(p.sourceNodes), true;
    case SectionId::kEstimates:
      return ar(p.estimates), true;
    case SectionId::kPackings:
      return ar(tables.packings), true;
    case SectionId::kSizes:
      return ar(tables.dynamic.symbols, tables.dynamic.exprs, tables.dynamic.guards), true;
    case SectionId::kPatches:
      return ar(tables.dynamic.patches), true;
    case SectionId::kPlacements:
      return ar(tables.dynamic.storages, tables.dynamic.placements, tables.dynamic.tiles), true;
    case SectionId::kUnits:
      return ar(tables.dynamic.units, tables.dynamic.choices, tables.dynamic.reorder), true;
    case SectionId::kKernelSizes:
      return ar(tables.dynamic.kernels), true;
    case SectionId::kInputValues:
      return ar(tables.dynamic.values), true;
    case SectionId::kStates:
      return ar(p.states), true;
    case SectionId::kDataSizes:
      return ar(p.dataSizes), true;
    case SectionId::kDefaults:
      return ar(tables.defaults), true;
    case SectionId::kVariants:
      return ar(tables.variants), true;
    case SectionId::kParts:
      return ar(tables.parts), true;
    default:
      return false;
  }
}

}  // namespace hpu::recipe
