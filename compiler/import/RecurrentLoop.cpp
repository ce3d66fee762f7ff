// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/RecurrentLoop.h"

#include <numeric>

#include "compiler/import/Composed.h"
#include "compiler/import/DeviceFlow.h"

namespace hpu::importer {

using compose::Emitter;
using Formulas = std::vector<hpu::Value>;

std::optional<RecurrentValues> recurrentLoop(NodeContext& node, const std::vector<DirectionOperands>& operands,
                                             const std::vector<compose::Recurrence>& how) {
  const size_t directions = operands.size();
  const bool hasCell = how.front().cell == compose::Cell::kLstm;
  enum Common : size_t { kProducts, kR, kStateBias, kLengths, kPeephole, kH, kC, kCommon };
  std::vector<std::vector<Value>> common;
  for (size_t d = 0; d < directions; ++d) {
    common.push_back(composedValues(node, operands[d], [&](Emitter& e, const Formulas& in) -> Formulas {
      compose::RecurrentState first;
      const compose::RecurrentSteps made =
          compose::recurrentSteps(e, {in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7]}, how[d], first);
      return {made.products, made.r, made.stateBias, made.lengths, made.peephole, first.h, first.c};
    }));
    if (node.failed()) return std::nullopt;
  }
  const bool hasLengths = common[0][kLengths] != nullptr;

  LoopSpec spec;
  spec.trips = NodeContext::typeOf(common[0][kProducts]).getDimSize(0);
  for (const std::vector<Value>& own : common) {
    spec.carried.push_back(own[kH]);
    if (hasCell) spec.carried.push_back(own[kC]);
  }
  for (size_t d = 0; d < directions; ++d) {
    spec.scanned.push_back(common[d][kProducts]);
    if (hasLengths) {
      std::vector<int32_t> numbers(static_cast<size_t>(spec.trips));
      std::iota(numbers.begin(), numbers.end(), 0);
      Value listed = node.constantTensor(interp::Tensor::of<int32_t>(ElementType::kI32, {spec.trips}, numbers));
      spec.scanned.push_back(node.cast(listed, node.elementOf(common[d][kLengths])));
    }
    spec.scannedBackwards.append(hasLengths ? 2 : 1, how[d].isReverse);
    spec.collectedBackwards.push_back(how[d].isReverse);
  }
  if (node.failed()) return std::nullopt;

  FlowBody body(node.builder());
  std::vector<Value> states, slices;
  for (Value value : spec.carried) states.push_back(body.addArgument(value.getType()));
  for (Value value : spec.scanned) {
    const mlir::RankedTensorType type = NodeContext::typeOf(value);
    slices.push_back(
        body.addArgument(mlir::RankedTensorType::get(type.getShape().drop_front(), type.getElementType())));
  }
  llvm::SmallVector<Value> next, ys;
  for (size_t d = 0; d < directions; ++d) {
    const size_t state = d * (hasCell ? 2 : 1), slice = d * (hasLengths ? 2 : 1);
    const std::vector<Value> inputs = {states[state],       hasCell ? states[state + 1] : Value(),
                                       slices[slice],       hasLengths ? slices[slice + 1] : Value(),
                                       common[d][kR],       common[d][kStateBias],
                                       common[d][kLengths], common[d][kPeephole]};
    const std::vector<Value> made = composedValues(node, inputs, [&](Emitter& e, const Formulas& in) -> Formulas {
      compose::RecurrentState own{in[0], in[1]};
      hpu::Value y = compose::recurrentStep(e, {{}, in[4], in[5], in[6], in[7]}, how[d], in[2], in[3], own);
      return {y, own.h, own.c};
    });
    if (node.failed()) return std::nullopt;
    ys.push_back(made[0]);
    next.push_back(made[1]);
    if (hasCell) next.push_back(made[2]);
  }
  next.append(ys);
  body.yield(next);
  body.leave();
  const llvm::SmallVector<Value> results = makeLoop(node.builder(), node.location(), spec, body);
  RecurrentValues values;
  for (size_t d = 0; d < directions; ++d) {
    values.h.push_back(results[d * (hasCell ? 2 : 1)]);
    if (hasCell) values.c.push_back(results[2 * d + 1]);
    values.y.push_back(results[spec.carried.size() + d]);
  }
  return values;
}

}  // namespace hpu::importer
