// SPDX-License-Identifier: Apache-2.0
#include "compose/Emitter.h"

#include <algorithm>
#include <cstring>

#include "base/Format.h"

namespace hpu::compose {

using base::strCat;
using Ints = std::vector<int64_t>;

Value Emitter::failWith(const Status& status) {
  if (status_.ok()) status_ = status;
  return {};
}
Value Emitter::fail(std::string message) {
  return failWith(invalidArgument(std::move(message)));
}
Value Emitter::unsupported(std::string message) {
  return failWith(unimplemented(std::move(message)));
}

TensorType Emitter::type(Value v) const {
  if (!v.handle) return {};
  StatusOr<TensorType> type = graph_.type(v);
  return type.ok() ? *type : TensorType();
}

int64_t Emitter::dim(Value v, int64_t d) const {
  Shape sizes = shape(v);
  if (d < 0) d += static_cast<int64_t>(sizes.size());
  return d < 0 || d >= static_cast<int64_t>(sizes.size()) ? 0 : sizes[static_cast<size_t>(d)];
}

Value Emitter::op(std::string_view mnemonic, const std::vector<Value>& operands, const Attributes& attributes) {
  if (!ok() || std::any_of(operands.begin(), operands.end(), [](Value v) { return !v.handle; })) return {};
  StatusOr<Value> result = graph_.op(mnemonic, operands, attributes, name_);
  if (result.ok()) return *result;
  if (!reword_) return failWith(result.status());
  return failWith(Status(result.status().code(), reword_(result.status().message())));
}

Value Emitter::constant(const TensorType& type, const void* data, size_t bytes) {
  if (!ok()) return {};
  StatusOr<Value> result = graph_.constant(type, data, bytes);
  return result.ok() ? *result : failWith(result.status());
}

Value Emitter::scalar(double value, ElementType type) {
  std::vector<std::byte> data(sizeof value);
  std::memcpy(data.data(), &value, sizeof value);
  ElementType stored = type == ElementType::kBool ? ElementType::kU8 : type;
  StatusOr<std::vector<std::byte>> converted = convertElements(data, ElementType::kF64, stored, 1);
  if (!converted.ok()) return failWith(converted.status());
  return constant({type, {}}, converted->data(), converted->size());
}

Value Emitter::indices(const Shape& shape, const Ints& values) {
  bool wide = std::any_of(values.begin(), values.end(), [](int64_t v) { return v > INT32_MAX || v < INT32_MIN; });
  if (wide) return constant({ElementType::kI64, shape}, values.data(), values.size() * sizeof(int64_t));
  std::vector<int32_t> narrow(values.begin(), values.end());
  return constant({ElementType::kI32, shape}, narrow.data(), narrow.size() * sizeof(int32_t));
}

Value Emitter::full(const TensorType& type, double value) {
  return expand(scalar(value, type.element), type.shape);
}

Value Emitter::cast(Value v, ElementType to) {
  if (!v.handle || element(v) == to) return v;
  return op("cast", {v}, {{"to", std::string(elementTypeName(to))}});
}

Value Emitter::reduce(std::string_view mnemonic, Value v, Ints axes, bool keepDims) {
  if (axes.empty()) return v;
  return op(mnemonic, {v}, {{"axes", axes}, {"keepdims", int64_t{keepDims}}});
}

Value Emitter::sumTo(Value v, const Shape& to) {
  Shape from = shape(v);
  if (!v.handle || from == to) return v;
  if (from.size() < to.size()) return fail(strCat("cannot sum ", shapeToString(from), " to ", shapeToString(to)));
  size_t lead = from.size() - to.size();
  Ints axes;
  for (size_t d = 0; d < from.size(); ++d)
    if (d < lead || (to[d - lead] == 1 && from[d] != 1)) axes.push_back(static_cast<int64_t>(d));
  return reshape(reduceSum(v, axes, true), to);
}

Value Emitter::reshape(Value v, const Shape& to) {
  if (!v.handle || shape(v) == to) return v;
  return op("reshape", {v}, {{"shape", to}});
}

Value Emitter::transpose(Value v, const Ints& perm) {
  bool moves = false;
  for (size_t i = 0; i < perm.size(); ++i) moves |= perm[i] != static_cast<int64_t>(i);
  return moves ? op("transpose", {v}, {{"perm", perm}}) : v;
}

Value Emitter::expand(Value v, const Shape& to) {
  if (!v.handle || shape(v) == to) return v;
  return op("expand", {v}, {{"shape", to}});
}

Value Emitter::concat(const std::vector<Value>& values, int64_t axis) {
  std::vector<Value> pieces;
  for (Value v : values) {
    if (!v.handle) return {};
    if (dim(v, axis) != 0) pieces.push_back(v);
  }
  if (pieces.empty()) return values.empty() ? fail("nothing to join") : values[0];
  return pieces.size() == 1 ? pieces[0] : op("concat", pieces, {{"axis", axis}});
}

Value Emitter::slice(Value v, const Ints& starts, const Ints& sizes, const Ints& steps) {
  bool isPlain = std::all_of(steps.begin(), steps.end(), [](int64_t s) { return s == 1; });
  if (!v.handle || (isPlain && sizes == shape(v))) return v;
  return op("slice", {v}, {{"starts", starts}, {"sizes", sizes}, {"steps", steps}});
}

Value Emitter::sliceDim(Value v, int64_t d, int64_t start, int64_t size, int64_t step) {
  if (!v.handle) return v;
  Shape sizes = shape(v);
  if (d < 0) d += rank(v);
  Ints starts(sizes.size(), 0), steps(sizes.size(), 1);
  starts[static_cast<size_t>(d)] = start;
  steps[static_cast<size_t>(d)] = step;
  sizes[static_cast<size_t>(d)] = size;
  return slice(v, starts, sizes, steps);
}

Value Emitter::pad(Value v, const Ints& low, const Ints& high, double value) {
  auto zero = [](int64_t p) { return p == 0; };
  if (!v.handle || (std::all_of(low.begin(), low.end(), zero) && std::all_of(high.begin(), high.end(), zero))) return v;
  return op("pad", {v}, {{"low", low}, {"high", high}, {"value", value}});
}

Value Emitter::spread(Value v, const Ints& steps) {
  if (!v.handle || std::all_of(steps.begin(), steps.end(), [](int64_t s) { return s == 1; })) return v;
  // [.., n, ..] -> [.., n, 1, ..] -> [.., n, step, ..] -> [.., n * step, ..], less the zeros after the last.
  Shape sizes = shape(v), split, joined, kept;
  Ints high;
  for (size_t d = 0; d < sizes.size(); ++d) {
    split.push_back(sizes[d]);
    high.push_back(0);
    if (steps[d] > 1) {
      split.push_back(1);
      high.push_back(steps[d] - 1);
    }
    joined.push_back(sizes[d] * steps[d]);
    kept.push_back(sizes[d] == 0 ? 0 : (sizes[d] - 1) * steps[d] + 1);
  }
  Value padded = reshape(pad(reshape(v, split), Ints(split.size(), 0), high), joined);
  return slice(padded, Ints(sizes.size(), 0), kept, Ints(sizes.size(), 1));
}

}  // namespace hpu::compose
