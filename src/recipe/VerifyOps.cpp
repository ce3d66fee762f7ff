// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "arch/TargetDesc.h"
#include "base/Format.h"
#include "base/StatusMacros.h"
#include "recipe/MmePacking.h"
#include "recipe/PackedWeights.h"
#include "recipe/VerifierParts.h"

namespace hpu::recipe {

using base::strCat;

namespace {

/// kReadIfAny: of elements that there may be none of.
enum class Access { kRead, kReadIfAny, kWrite };

/// Checks the ops of one program; keeps the ranges that constants fill.
class OpVerifier {
 public:
  explicit OpVerifier(const Program& program) : program_(program) {}

  Status run(const std::vector<bool>* only) {
    for (uint32_t i = 0; i < program_.ops.size(); ++i) {
      if (only && !(*only)[i]) continue;
      op_ = i;
      HPU_RETURN_IF_ERROR(verifyOp(program_.ops[i]));
    }
    return okStatus();
  }

 private:
  struct Range {
    uint64_t begin = 0, end = 0;
  };

  /// What constants fill in each section, sorted; gaps below the alignment are padding.
  void collectFilledRanges() {
    filled_.resize(program_.sections.size());
    for (const ConstantBlob& blob : program_.constants) {
      filled_[blob.section].push_back({blob.offset, blob.offset + blob.bytes});
    }
    for (std::vector<Range>& ranges : filled_) {
      std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
      size_t kept = 0;
      for (size_t i = 1; i < ranges.size(); ++i) {
        if (ranges[i].begin - ranges[kept].end < kAlignment) {
          ranges[kept].end = ranges[i].end;
        } else {
          ranges[++kept] = ranges[i];
        }
      }
      if (!ranges.empty()) ranges.resize(kept + 1);
    }
  }

  /// Texts are made when something is wrong only: instances of a recipe are verified while a launch waits.
  std::string where() const { return opText(program_, op_); }
  struct OperandName {
    std::string_view kind;
    int number = -1;  ///< Less than 0: the kind says it.
    std::string text() const { return number < 0 ? std::string(kind) : strCat(kind, number); }
  };

  static bool sizesFit(const std::vector<int64_t>& sizes, Access access) {
    int64_t elements = 1;
    for (int64_t size : sizes) {
      const int64_t counted = access == Access::kReadIfAny && size == 0 ? 1 : size;
      if (counted < 1 || elements > kMaxPoints / counted) return false;
      elements *= counted;
    }
    return true;
  }

  Status verifyOp(const Op& op) {
    for (uint32_t node : op.provenance) {
      if (node >= program_.sourceNodes.size()) {
        return dataLoss(
            strCat(where(), " comes from source node ", node, ", but the program has ", program_.sourceNodes.size()));
      }
    }
    if (op.space.size() > kMaxRank) {
      return dataLoss(strCat(where(), " has an index space of rank ", op.space.size(), ", beyond ", kMaxRank));
    }
    if (boundedProduct(op.space, kMaxPoints) < 0) {
      return dataLoss(strCat(where(), " has the index space ", shapeToString(op.space),
                             ", with a size < 1 or more than 2^48 points"));
    }
    switch (op.engine) {
      case Engine::kMme:
        return verifyMme(op);
      case Engine::kTpc:
        return verifyTpc(op);
      case Engine::kDma:
        return verifyDma(op);
      default:
        return dataLoss(strCat(where(), " runs on engine ", op.engine, ", which takes no recipe ops"));
    }
  }

  Status verifyMme(const Op& op) {
    const MmeDesc& mme = op.mme;
    if (mme.packing > BPacking::kBlocked) {
      return dataLoss(strCat(where(), " has the unknown packing ", mme.packing, " of operand b"));
    }
    const bool packed = mme.packing == BPacking::kBlocked;
    // A product over K = 0 is zeros; which dimension is 0 is seen with the shapes.
    const Access read = mme.kind == MmeKind::kGemm && !packed ? Access::kReadIfAny : Access::kRead;
    HPU_RETURN_IF_ERROR(verifyOperand(mme.a, {"a"}, read));
    HPU_RETURN_IF_ERROR(verifyOperand(mme.c, {"c"}, Access::kWrite));
    if (packed) {
      HPU_RETURN_IF_ERROR(verifyShape(mme.b, {"b"}, Access::kRead, /*needStrides=*/false));
    } else {
      HPU_RETURN_IF_ERROR(verifyOperand(mme.b, {"b"}, read));
    }
    HPU_RETURN_IF_ERROR(verifyMmeShapes(op, where()));
    auto stores = [](ElementType t) {
      return t == ElementType::kF32 || t == ElementType::kBF16 || t == ElementType::kF16;
    };
    const arch::TargetDesc& target = arch::targetDesc(program_.target);
    if (!target.hasMmeType(mme.a.type) || mme.b.type != mme.a.type || !stores(mme.c.type)) {
      return dataLoss(strCat(where(), " multiplies ", elementTypeName(mme.a.type), " by ", elementTypeName(mme.b.type),
                             " into ", elementTypeName(mme.c.type), "; the MME of ", target.name,
                             " takes two of one type (", target.mmeTypeNames(), ") and gives f32, bf16 or f16"));
    }
    HPU_RETURN_IF_ERROR(spaceEquals(op, mme.c, "operand c"));
    if (packed) HPU_RETURN_IF_ERROR(verifyPacked(mme));
    if (std::string why = packingObstacle(mme, mme.packingFactor); !why.empty()) return dataLoss(where() + why);
    return verifyMmeRings(mme);
  }

  /// A packed weight is read as taps x panels, whatever its sizes' order is.
  Status verifyPacked(const MmeDesc& mme) {
    PackedShape shape;
    const std::vector<int64_t>& b = mme.b.sizes;
    if (mme.kind == MmeKind::kGemm) {
      shape.k = b[b.size() - 2];
      shape.n = b[b.size() - 1];
      shape.taps = boundedProduct(b, kMaxPoints) / (shape.k * shape.n);
    } else {
      shape.k = mme.a.sizes[1] / mme.groups;
      shape.n = mme.c.sizes[1] / mme.groups;
      shape.taps = mme.groups * b[2] * b[3];
    }
    if (program_.sections[mme.b.section].kind != SectionKind::kConst || mme.b.ring.slots) {
      return dataLoss(where() + " operand b is packed but not in a constant section");
    }
    // Sizes are at most 2^48 in all and padding multiplies by 64 at most, so this fits.
    auto bytes = static_cast<uint64_t>(shape.elements() * elementSize(mme.b.type));
    return verifySpan(mme.b, {"b"}, bytes);
  }

  /// A ring follows a dimension of the index space, so the operand must have that very dimension.
  Status verifyMmeRings(const MmeDesc& mme) {
    const bool gemm = mme.kind == MmeKind::kGemm;
    const uint32_t rank = static_cast<uint32_t>(mme.c.sizes.size());
    auto refuse = [&](std::string_view name, uint32_t dim) {
      return dataLoss(strCat(where(), " operand ", name, " is a ring along dimension ", dim,
                             ", which is not a dimension of the op's index space"));
    };
    if (mme.a.ring.slots) {
      uint32_t dim = mme.a.ring.dim;
      bool pointwise = !gemm && dim >= 2 && mme.strides[dim - 2] == 1 && mme.padBegin[dim - 2] == 0 &&
                       mme.padEnd[dim - 2] == 0 && mme.b.sizes[dim] == 1;
      if (gemm ? dim == rank - 1 : dim != 0 && !pointwise) return refuse("a", dim);
    }
    if (mme.b.ring.slots && (!gemm || mme.b.ring.dim == rank - 2)) return refuse("b", mme.b.ring.dim);
    return okStatus();
  }

  Status verifyTpc(const Op& op) {
    const TpcDesc& tpc = op.tpc;
    if (tpc.kernel >= program_.kernels.size()) {
      return dataLoss(strCat(where(), " calls kernel ", tpc.kernel, ", but the program has ", program_.kernels.size()));
    }
    const Kernel& kernel = program_.kernels[tpc.kernel];
    if (tpc.inputs.size() != kernel.numInputs || tpc.outputs.size() != kernel.numOutputs) {
      return dataLoss(strCat(where(), " has ", tpc.inputs.size(), " inputs and ", tpc.outputs.size(),
                             " outputs, but its kernel ", tpc.kernel, " '", kernel.name, "' takes ", kernel.numInputs,
                             " and ", kernel.numOutputs));
    }
    if (tpc.outputs.empty()) return dataLoss(where() + " has no output");
    if (kernel.rank != op.space.size()) {
      return dataLoss(strCat(where(), " has an index space of rank ", op.space.size(), ", but its kernel ", tpc.kernel,
                             " '", kernel.name, "' has one of rank ", kernel.rank));
    }
    for (size_t i = 0; i < tpc.inputs.size(); ++i) {
      const OperandName name{"input ", static_cast<int>(i)};
      HPU_RETURN_IF_ERROR(verifyOperand(tpc.inputs[i], name, Access::kReadIfAny));
      HPU_RETURN_IF_ERROR(verifyTpcRing(op, tpc.inputs[i], name));
    }
    for (size_t i = 0; i < tpc.outputs.size(); ++i) {
      const OperandName name{"output ", static_cast<int>(i)};
      HPU_RETURN_IF_ERROR(verifyOperand(tpc.outputs[i], name, Access::kWrite));
      HPU_RETURN_IF_ERROR(verifyTpcRing(op, tpc.outputs[i], name));
    }
    return spaceEquals(op, tpc.outputs[0], "output 0");
  }

  Status verifyTpcRing(const Op& op, const Operand& operand, OperandName name) {
    if (!operand.ring.slots) return okStatus();
    uint32_t dim = operand.ring.dim;
    if (operand.sizes.size() == op.space.size() && operand.sizes[dim] == op.space[dim]) return okStatus();
    return dataLoss(strCat(where(), " operand ", name.text(), " is a ring along dimension ", dim,
                           ", which is not a dimension of the op's index space"));
  }

  Status verifyDma(const Op& op) {
    const DmaDesc& dma = op.dma;
    if (arch::targetDesc(program_.target).numDmas == 0) {
      return dataLoss(strCat(where(), " is a DMA copy, but ", targetName(program_.target),
                             " has no DMA for compiled programs; copies are TPC kernels there"));
    }
    HPU_RETURN_IF_ERROR(verifyOperand(dma.dst, {"dst"}, Access::kWrite));
    HPU_RETURN_IF_ERROR(spaceEquals(op, dma.dst, "operand dst"));
    if (dma.fill) {
      int64_t bits = 8 * elementSize(dma.dst.type);
      if (bits < 64 && dma.fillPattern >> bits) {
        return dataLoss(strCat(where(), " fills with the pattern ", base::formatHex(dma.fillPattern),
                               ", wider than its ", elementTypeName(dma.dst.type), " elements"));
      }
      return okStatus();
    }
    HPU_RETURN_IF_ERROR(verifyOperand(dma.src, {"src"}, Access::kRead));
    if (dma.src.sizes != dma.dst.sizes || dma.src.type != dma.dst.type) {
      return dataLoss(strCat(where(), " copies ", shapeToString(dma.src.sizes), "x", elementTypeName(dma.src.type),
                             " to ", shapeToString(dma.dst.sizes), "x", elementTypeName(dma.dst.type)));
    }
    return okStatus();
  }

  Status spaceEquals(const Op& op, const Operand& operand, std::string_view name) {
    if (operand.sizes == op.space) return okStatus();
    return dataLoss(strCat(where(), " has the index space ", shapeToString(op.space), ", but its ", name,
                           " has the sizes ", shapeToString(operand.sizes)));
  }

  Status verifyShape(const Operand& operand, OperandName name, Access access, bool needStrides) {
    if (operand.section >= program_.sections.size()) {
      return dataLoss(strCat(where(), " operand ", name.text(), " is in section ", operand.section,
                             ", but the program has ", program_.sections.size()));
    }
    if (elementSize(operand.type) == 0) {
      return dataLoss(strCat(where(), " operand ", name.text(), " has the invalid element type ", operand.type));
    }
    if (operand.sizes.size() > kMaxRank || !sizesFit(operand.sizes, access)) {
      return dataLoss(strCat(where(), " operand ", name.text(), " has the sizes ", shapeToString(operand.sizes),
                             ", of rank beyond ", kMaxRank, ", with a size < 1 or more than 2^48 elements"));
    }
    if (needStrides && operand.strides.size() != operand.sizes.size()) {
      return dataLoss(strCat(where(), " operand ", name.text(), " has ", operand.sizes.size(), " sizes but ",
                             operand.strides.size(), " strides"));
    }
    for (size_t d = 0; d < operand.strides.size(); ++d) {
      if (operand.strides[d] < 0 && needStrides) {
        return dataLoss(strCat(where(), " operand ", name.text(), " has the negative stride ", operand.strides[d],
                               " in dimension ", d));
      }
    }
    if (operand.offset % static_cast<uint64_t>(elementSize(operand.type))) {
      return dataLoss(strCat(where(), " operand ", name.text(), " at byte ", operand.offset, " is not aligned to its ",
                             elementTypeName(operand.type), " elements"));
    }
    return okStatus();
  }

  Status verifyOperand(const Operand& operand, OperandName name, Access access) {
    HPU_RETURN_IF_ERROR(verifyShape(operand, name, access, /*needStrides=*/true));
    SectionKind kind = program_.sections[operand.section].kind;
    if (access == Access::kWrite && (kind == SectionKind::kConst || kind == SectionKind::kInput)) {
      return dataLoss(strCat(where(), " operand ", name.text(), " is written, but section ", operand.section, " is ",
                             kind == SectionKind::kConst ? "constant" : "an input"));
    }
    if (access == Access::kWrite) HPU_RETURN_IF_ERROR(verifyInjective(operand, name));
    HPU_RETURN_IF_ERROR(verifyRing(operand, name));
    return verifySpan(operand, name, operandSpanBytes(operand));
  }

  Status verifyRing(const Operand& operand, OperandName name) {
    const Ring& ring = operand.ring;
    if (ring.slots == 0) {
      if (ring.dim == 0 && ring.slotBytes == 0) return okStatus();
      return dataLoss(strCat(where(), " operand ", name.text(), " has a ring without slots"));
    }
    if (program_.sections[operand.section].kind != SectionKind::kSram) {
      return dataLoss(
          strCat(where(), " operand ", name.text(), " is a ring, but section ", operand.section, " is not SRAM"));
    }
    if (isEmpty(operand)) return dataLoss(strCat(where(), " operand ", name.text(), " is a ring, but has no elements"));
    if (ring.dim >= operand.sizes.size() || ring.slotBytes == 0 ||
        ring.slotBytes % static_cast<uint64_t>(elementSize(operand.type))) {
      return dataLoss(strCat(where(), " operand ", name.text(), " is a ring along dimension ", ring.dim, " of ",
                             operand.sizes.size(), " with slots of ", ring.slotBytes,
                             " bytes, which do not hold whole elements"));
    }
    return okStatus();
  }

  Status verifyInjective(const Operand& operand, OperandName name) {
    std::string why = selfOverlap(operand);
    return why.empty() ? okStatus() : dataLoss(strCat(where(), " operand ", name.text(), why));
  }

  Status verifySpan(const Operand& operand, OperandName name, uint64_t bytes) {
    const Section& section = program_.sections[operand.section];
    uint64_t usable = usableBytes(program_, section), end = 0;
    bool overflow = __builtin_add_overflow(operand.offset, bytes, &end);
    if (overflow || end > usable) {
      return dataLoss(strCat(where(), " operand ", name.text(), " ends at byte ",
                             overflow || bytes == UINT64_MAX ? "2^64 or later" : std::to_string(end), " of section ",
                             operand.section, ", which has ", usable));
    }
    if (section.kind != SectionKind::kConst || bytes == 0) return okStatus();
    if (filled_.empty()) collectFilledRanges();
    const std::vector<Range>& ranges = filled_[operand.section];
    auto after = std::upper_bound(ranges.begin(), ranges.end(), operand.offset,
                                  [](uint64_t offset, const Range& r) { return offset < r.begin; });
    if (after == ranges.begin() || end > std::prev(after)->end) {
      return dataLoss(strCat(where(), " operand ", name.text(), " reads bytes ", operand.offset, " to ", end - 1,
                             " of section ", operand.section, ", which no constant fills"));
    }
    return okStatus();
  }

  const Program& program_;
  std::vector<std::vector<Range>> filled_;  ///< By section; empty until it is asked for.
  uint32_t op_ = 0;                         ///< That is looked at.
};

}  // namespace

std::string selfOverlap(const Operand& operand) {
  // Sorted by stride, each dimension steps over all of the smaller ones.
  struct Dim {
    int64_t stride, size;
  };
  Dim dims[kMaxRank];
  size_t rank = 0;
  for (size_t d = 0; d < operand.sizes.size(); ++d) {
    if (operand.sizes[d] == 1 || (operand.ring.slots && d == operand.ring.dim)) continue;
    size_t at = rank++;
    for (; at > 0 && dims[at - 1].stride > operand.strides[d]; --at) dims[at] = dims[at - 1];
    dims[at] = {operand.strides[d], operand.sizes[d]};
  }
  int64_t reach = 0;  // Of the smaller dimensions, in elements.
  for (size_t d = 0; d < rank; ++d) {
    int64_t step = 0;
    if (dims[d].stride <= reach) return strCat(" is written, but its stride ", dims[d].stride, " makes points overlap");
    if (__builtin_mul_overflow(dims[d].stride, dims[d].size - 1, &step) || __builtin_add_overflow(reach, step, &reach))
      return " reaches beyond 2^63 elements";
  }
  return {};
}

Status verifyOps(const Program& program, const std::vector<bool>* only) {
  return OpVerifier(program).run(only);
}

}  // namespace hpu::recipe
