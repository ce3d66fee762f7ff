// SPDX-License-Identifier: Apache-2.0
#include "recipe/ConstantPool.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/Format.h"
#include "base/Hash.h"
#include "base/StatusMacros.h"
#include "recipe/CommandAccess.h"
#include "recipe/Dynamic.h"

namespace hpu::recipe {

using base::strCat;

namespace {

/// As moveOperands.
class Mover {
 public:
  Mover(const Program& source, const std::vector<uint32_t>& sections, const std::vector<uint64_t>& moved,
        Program& program)
      : source_(source), sections_(sections), moved_(moved), program_(program) {
    for (uint32_t i = 0; i < source.constants.size(); ++i) order_.push_back(i);
    std::sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) { return startOf(a) < startOf(b); });
  }

  Status run() {
    if (source_.dynamic) dynamic_ = std::make_shared<Dynamic>(*source_.dynamic);
    for (uint32_t index = 0; index < program_.ops.size(); ++index) {
      uint32_t number = 0;
      while (Operand* operand = operandAt(program_.ops[index], number))
        HPU_RETURN_IF_ERROR(move(index, number++, *operand));
    }
    if (!dynamic_) return okStatus();
    for (Storage& storage : dynamic_->storages)
      if (storage.section != kNone) storage.section = sections_[storage.section];
    for (Patch& patch : dynamic_->patches) {
      if (patch.field != Patch::Field::kOperandOffset) continue;
      auto by = shifts_.find({patch.index, patch.operand});
      if (by != shifts_.end()) patch.expr = plus(patch.expr, by->second);
    }
    program_.dynamic = dynamic_;
    return okStatus();
  }

 private:
  std::pair<uint32_t, uint64_t> startOf(uint32_t constant) const {
    return {source_.constants[constant].section, source_.constants[constant].offset};
  }

  Status move(uint32_t op, uint32_t number, Operand& operand) {
    if (operand.section == kNone) return okStatus();
    const uint32_t from = operand.section;
    operand.section = sections_[from];
    if (source_.sections[from].kind != SectionKind::kConst) return okStatus();
    // What has no elements may lie anywhere.
    auto after = std::upper_bound(order_.begin(), order_.end(), std::pair(from, operand.offset),
                                  [&](const auto& at, uint32_t constant) { return at < startOf(constant); });
    const uint32_t constant = after == order_.begin() ? 0 : *(after - 1);
    const bool found = after != order_.begin() && source_.constants[constant].section == from;
    if (!found && isEmpty(operand)) {
      operand.offset = 0;
      return okStatus();
    }
    const ConstantBlob* blob = found ? &source_.constants[constant] : nullptr;
    const uint64_t within = found ? operand.offset - blob->offset : 0;
    if (!found || (!isEmpty(operand) && (within > blob->bytes || spanOf(op, number, operand) > blob->bytes - within)))
      return internalError(strCat("operand ", number, " of op '", program_.ops[op].name,
                                  "' does not lie in one constant, so it cannot be shared with other programs"));
    const auto shift = static_cast<int64_t>(moved_[constant] - blob->offset);
    operand.offset += static_cast<uint64_t>(shift);
    if (shift != 0) shifts_[{op, number}] = shift;
    return okStatus();
  }

  /// Strides of packed weights say nothing: they lie in one block.
  uint64_t spanOf(uint32_t op, uint32_t number, const Operand& operand) const {
    const bool packed =
        program_.ops[op].engine == Engine::kMme && number == 1 && program_.ops[op].mme.packing == BPacking::kBlocked;
    return packed ? 0 : operandSpanBytes(operand);
  }

  uint32_t add(SizeExpr expr) {
    dynamic_->exprs.push_back(std::move(expr));
    return static_cast<uint32_t>(dynamic_->exprs.size() - 1);
  }
  uint32_t plus(uint32_t expr, int64_t number) {
    auto [known, fresh] = sums_.try_emplace({expr, number}, 0);
    if (fresh) {
      const uint32_t constant = add({SizeExpr::Kind::kConstant, number, {}});
      known->second = add({SizeExpr::Kind::kSum, 0, {expr, constant}});
    }
    return known->second;
  }

  const Program& source_;
  const std::vector<uint32_t>& sections_;
  const std::vector<uint64_t>& moved_;
  Program& program_;
  std::shared_ptr<Dynamic> dynamic_;
  std::vector<uint32_t> order_;                              ///< Constants by their place.
  std::map<std::pair<uint32_t, uint32_t>, int64_t> shifts_;  ///< By op and operand.
  std::map<std::pair<uint32_t, int64_t>, uint32_t> sums_;
};

uint64_t aligned(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Status moveOperands(const Program& source, const std::vector<uint32_t>& sections, const std::vector<uint64_t>& moved,
                    Program& program) {
  return Mover(source, sections, moved, program).run();
}

void KnownConstants::add(const ConstantBlob& blob, size_t index) {
  known_.emplace(base::hash64(blob.data, blob.bytes), index);
}

uint64_t KnownConstants::place(const ConstantBlob& blob, uint32_t section, std::vector<ConstantBlob>& list,
                               uint64_t& sectionBytes) {
  const uint64_t hash = base::hash64(blob.data, blob.bytes);
  for (auto [at, end] = known_.equal_range(hash); at != end; ++at) {
    const ConstantBlob& own = list[at->second];
    if (own.bytes == blob.bytes && (own.data == blob.data || std::memcmp(own.data, blob.data, blob.bytes) == 0))
      return own.offset;
  }
  ConstantBlob made = blob;
  made.section = section;
  made.offset = aligned(sectionBytes);
  sectionBytes = made.offset + blob.bytes;
  known_.emplace(hash, list.size());
  list.push_back(std::move(made));
  addedBytes_ += blob.bytes;
  return list.back().offset;
}

StatusOr<uint32_t> ConstantPool::add(std::shared_ptr<Program> program) {
  uint32_t own = kNone;
  std::vector<uint32_t> sections;
  for (uint32_t s = 0; s < program->sections.size(); ++s) {
    const bool isConst = program->sections[s].kind == SectionKind::kConst;
    if (isConst && own == kNone) own = s;
    sections.push_back(isConst ? own : s);
  }
  if (own == kNone && program->ops.empty()) {
    own = static_cast<uint32_t>(program->sections.size());
    sections.push_back(own);
    program->sections.push_back({SectionKind::kConst, kNone, 0});
  }
  if (own == kNone) return own;
  std::vector<uint64_t> moved;
  for (const ConstantBlob& blob : program->constants) moved.push_back(known_.place(blob, kNone, constants_, bytes_));
  const Program source = *program;
  HPU_RETURN_IF_ERROR(moveOperands(source, sections, moved, *program));
  // Sections keep their numbers, which places name; those that are left over are empty.
  for (uint32_t s = 0; s < program->sections.size(); ++s)
    if (program->sections[s].kind == SectionKind::kConst) program->sections[s].bytes = 0;
  program->constants.clear();
  users_.emplace_back(std::move(program), own);
  return own;
}

void ConstantPool::finish() {
  for (auto& [program, section] : users_) {
    program->sections[section].bytes = bytes_;
    program->constants = constants_;
    for (ConstantBlob& blob : program->constants) blob.section = section;
  }
  users_.clear();
}

}  // namespace hpu::recipe
