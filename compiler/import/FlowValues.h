// SPDX-License-Identifier: Apache-2.0
// FlowValues: what the operands of If, Loop and Scan have in common; internal to the importer.
#pragma once

#include <cstring>

#include "base/Format.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/import/NodeContext.h"

namespace hpu::importer {

inline ImportedValue ofTensor(interp::Tensor tensor) {
  ImportedValue value;
  value.constant = std::move(tensor);
  return value;
}
inline ImportedValue ofValue(mlir::Value made) {
  ImportedValue value;
  value.value = made;
  return value;
}
inline ImportedValue ofBool(bool holds) {
  interp::Tensor tensor = interp::Tensor::zeros({ElementType::kBool, {}});
  tensor.writable()[0] = holds;
  return ofTensor(std::move(tensor));
}

inline std::optional<int64_t> knownNumber(const ImportedValue& value) {
  if (value.constant && value.constant->count() == 1) return value.constant->integer(0);
  if (value.elements && value.elements->divisor == 1 && value.elements->values.size() == 1 && value.elements->values[0])
    return value.elements->values[0]->constant();
  return std::nullopt;
}

inline bool sameConstants(const interp::Tensor& a, const interp::Tensor& b) {
  return a.type() == b.type() && std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) == 0;
}

/// What ops on the operands of one control flow node have in common. Failures are the context's.
class FlowValues {
 public:
  explicit FlowValues(NodeContext& context) : context_(context) {}

  Value tensor(const ImportedValue& value) {
    ImportedValue copy = value;
    return context_.materialize(copy);
  }
  /// A value of one element, of rank 0.
  Value scalar(const ImportedValue& value) {
    Value made = tensor(value);
    if (!made) return {};
    const mlir::RankedTensorType type = NodeContext::typeOf(made);
    if (type.hasStaticShape() && type.getNumElements() == 1) return context_.reshape(made, llvm::ArrayRef<int64_t>{});
    context_.invalid(base::strCat("a condition or number of iterations of the type ", ir::typeToString(type),
                                  "; it has one element"));
    return {};
  }

  /// `isFirst` (a bool of rank 0) ? first : second, of any values that have one type.
  std::optional<ImportedValue> choose(Value isFirst, const ImportedValue& first, const ImportedValue& second) {
    if (first.isAbsent && second.isAbsent) return first;
    if (first.sequence && second.sequence && first.sequence->size() == second.sequence->size()) {
      auto chosen = std::make_shared<std::vector<ImportedValue>>();
      for (size_t k = 0; k < first.sequence->size(); ++k) {
        std::optional<ImportedValue> each = choose(isFirst, (*first.sequence)[k], (*second.sequence)[k]);
        if (!each) return std::nullopt;
        chosen->push_back(std::move(*each));
      }
      ImportedValue all;
      all.sequence = std::move(chosen);
      return all;
    }
    if (first.sequence || second.sequence || first.isAbsent || second.isAbsent) {
      context_.unsupported("the device cannot choose between a tensor, a sequence of another length, and no value");
      return std::nullopt;
    }
    if (first.value && first.value == second.value) return first;
    if (first.constant && second.constant && sameConstants(*first.constant, *second.constant)) return first;
    Value a = tensor(first), b = tensor(second);
    if (!a || !b) return std::nullopt;
    if (a.getType() != b.getType()) {
      context_.unsupported(base::strCat("the device chooses between ", ir::typeToString(NodeContext::typeOf(a)),
                                        " and ", ir::typeToString(NodeContext::typeOf(b)),
                                        "; a value that depends on run-time data has one type and shape"));
      return std::nullopt;
    }
    return ofValue(context_.op("where", {isFirst, a, b}));
  }

  /// Neighbours along a new dimension `axis`; null after a failure.
  Value stack(const std::vector<Value>& all, int64_t axis) {
    llvm::SmallVector<Value> longer;
    for (Value each : all) {
      if (!each) return {};
      if (each.getType() != all[0].getType()) {
        context_.unsupported(base::strCat("a result that it collects is ",
                                          ir::typeToString(NodeContext::typeOf(all[0])), " in one iteration and ",
                                          ir::typeToString(NodeContext::typeOf(each)), " in another"));
        return {};
      }
      ir::SymShape shape = ir::symShape(NodeContext::typeOf(each));
      shape.insert(shape.begin() + axis, ir::SymDim{1});
      longer.push_back(context_.reshape(each, shape));
    }
    return longer.size() == 1 ? longer[0] : context_.op("concat", longer, {{"axis", axis}});
  }
  /// x[k] along `axis`, which has no dimension any more.
  Value pick(Value x, int64_t axis, int64_t k) {
    if (!x) return {};
    ir::SymShape shape = ir::symShape(NodeContext::typeOf(x));
    shape.erase(shape.begin() + axis);
    return context_.reshape(context_.sliceDim(x, axis, k, k + 1), shape);
  }
  Value both(Value a, Value b) { return a && b ? context_.op("and", {a, b}) : a ? a : b; }

 private:
  NodeContext& context_;
};

}  // namespace hpu::importer
