// SPDX-License-Identifier: Apache-2.0
// Emitter: adds ops to an hpu::Graph and keeps the first failure, so that a lowering reads as a formula.
// The one thing to know: a failed call returns a null Value, ops of null Values are null and say nothing, so only
// ok() at the end needs a look. Shapes are in framework order (the last dim varies fastest).
//
//   Value mean = e.reduceMean(x, {1}, true), centred = e.sub(x, mean);
//   Value variance = e.reduceMean(e.mul(centred, centred), {1}, true);
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compose/Elements.h"
#include "hpu/graph.h"
#include "hpu/status.h"
#include "hpu/types.h"

namespace hpu::compose {

class Emitter {
 public:
  /// Turns the compiler's words on a failure into the front end's (its order of sizes).
  using Reword = std::string (*)(std::string_view);

  /// `name` is what reports and traces call the ops. The graph must outlive the emitter.
  Emitter(Graph& graph, std::string name, Reword reword = nullptr)
      : graph_(graph), name_(std::move(name)), reword_(reword) {}

  // ---- failures: the first one stays ------------------------------------------------------------
  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  /// kInvalidArgument: the user's graph is wrong. Returns a null Value, for `return fail(...)`.
  Value fail(std::string message);
  /// kUnimplemented: OpenHPU lacks this.
  Value unsupported(std::string message);
  Value failWith(const Status& status);

  // ---- values -----------------------------------------------------------------------------------
  TensorType type(Value v) const;  ///< Of a null value: kInvalid, no dims.
  Shape shape(Value v) const { return type(v).shape; }
  ElementType element(Value v) const { return type(v).element; }
  int64_t rank(Value v) const { return static_cast<int64_t>(type(v).shape.size()); }
  int64_t dim(Value v, int64_t d) const;  ///< Size of dim d; negative d counts from the end.

  /// Any op of docs/dialects/hpu.md.
  Value op(std::string_view mnemonic, const std::vector<Value>& operands, const Attributes& attributes = {});

  /// Rank 0; float types round the value, integers truncate it.
  Value scalar(double value, ElementType type);
  Value scalarLike(Value v, double value) { return v.handle ? scalar(value, element(v)) : Value{}; }
  Value constant(const TensorType& type, const void* data, size_t bytes);
  Value indices(const Shape& shape, const std::vector<int64_t>& values);  ///< i32, or i64 when they are large.
  /// Every element is `value`.
  Value full(const TensorType& type, double value);

  // ---- elementwise; operands broadcast as NumPy's and have one element type -----------------------
  Value add(Value a, Value b) { return op("add", {a, b}); }
  Value sub(Value a, Value b) { return op("sub", {a, b}); }
  Value mul(Value a, Value b) { return op("mul", {a, b}); }
  Value div(Value a, Value b) { return op("div", {a, b}); }
  Value max(Value a, Value b) { return op("max", {a, b}); }
  Value min(Value a, Value b) { return op("min", {a, b}); }
  Value neg(Value a) { return op("neg", {a}); }
  Value add(Value a, double b) { return add(a, scalarLike(a, b)); }
  Value sub(Value a, double b) { return sub(a, scalarLike(a, b)); }
  Value mul(Value a, double b) { return mul(a, scalarLike(a, b)); }
  Value div(Value a, double b) { return div(a, scalarLike(a, b)); }
  Value where(Value condition, Value a, Value b) { return op("where", {condition, a, b}); }
  /// Nothing when the type is that already.
  Value cast(Value v, ElementType to);
  Value toF32(Value v) { return cast(v, ElementType::kF32); }
  Value toBool(Value v) { return cast(v, ElementType::kBool); }

  // ---- reductions: f32 sums, whatever the element type; result in the operand's type ---------------
  Value reduce(std::string_view mnemonic, Value v, std::vector<int64_t> axes, bool keepDims);
  Value reduceSum(Value v, std::vector<int64_t> axes, bool keep) {
    return reduce("reduce_sum", v, std::move(axes), keep);
  }
  Value reduceMean(Value v, std::vector<int64_t> axes, bool keep) {
    return reduce("reduce_mean", v, std::move(axes), keep);
  }
  Value reduceMax(Value v, std::vector<int64_t> axes, bool keep) {
    return reduce("reduce_max", v, std::move(axes), keep);
  }
  /// Sums the dims that broadcasting `to` up to v's shape would repeat: the gradient of a broadcast.
  Value sumTo(Value v, const Shape& to);

  // ---- movement; each is nothing when it would change nothing ---------------------------------------
  Value reshape(Value v, const Shape& shape);
  Value transpose(Value v, const std::vector<int64_t>& perm);
  Value expand(Value v, const Shape& shape);
  Value concat(const std::vector<Value>& values, int64_t axis);
  Value slice(Value v, const std::vector<int64_t>& starts, const std::vector<int64_t>& sizes,
              const std::vector<int64_t>& steps);
  /// Elements [start, start + size) of one dim; a negative one counts from the end.
  Value sliceDim(Value v, int64_t dim, int64_t start, int64_t size, int64_t step = 1);
  Value pad(Value v, const std::vector<int64_t>& low, const std::vector<int64_t>& high, double value = 0);
  /// steps[d] - 1 zeros between neighbours of dim d.
  Value spread(Value v, const std::vector<int64_t>& steps);
  Value gather(Value v, Value index, int64_t axis) { return op("gather", {v, index}, {{"axis", axis}}); }
  Value matmul(Value a, Value b) { return op("matmul", {a, b}); }

  Graph& graph() { return graph_; }

 private:
  Graph& graph_;
  std::string name_;
  Reword reword_;
  Status status_;
};

}  // namespace hpu::compose
