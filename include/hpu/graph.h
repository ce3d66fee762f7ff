// SPDX-License-Identifier: Apache-2.0
// Graph: a model as tensor ops, built by hand or imported from ONNX; what `hpu::compile` takes.
// The one thing to know: ops are named as the `hpu` dialect names them (docs/dialects/hpu.md) and
// their result types are inferred; a wrong operand is an error of the call that adds the op.
//
//   hpu::Graph graph("mlp");
//   HPU_ASSIGN(auto x, graph.input("x", {hpu::ElementType::kF32, {8, 64}}));
//   HPU_ASSIGN(auto w, graph.constant({hpu::ElementType::kF32, {64, 32}}, weights, sizeof weights));
//   HPU_ASSIGN(auto y, graph.op("matmul", {x, w}));
//   HPU_RETURN_IF_ERROR(graph.output("y", *graph.op("relu", {y})));
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hpu/status.h"
#include "hpu/types.h"

namespace hpu {

/// A tensor of a Graph; valid as long as the graph.
struct Value {
  const void* handle = nullptr;
};

using Attribute = std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>>;
using Attributes = std::map<std::string, Attribute>;

/// Not thread-safe; different graphs may be used by different threads. Movable, not copyable: one that was moved from
/// is empty, its calls (and those that it is given to) return kFailedPrecondition, lists and text are empty.
class HPU_API Graph {
 public:
  explicit Graph(std::string_view name);
  ~Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;

  /// Adds an input. A dimension of kDynamic needs its size in CompileOptions::shapes.
  StatusOr<Value> input(std::string_view name, const TensorType& type);
  /// Adds a constant; `bytes` (dense, row-major) are copied and must be type.bytes() long.
  StatusOr<Value> constant(const TensorType& type, const void* data, size_t bytes);
  /// Adds an op of the hpu dialect ("matmul", "conv2d", "gelu" ...) with one result. `name` is what
  /// reports and traces call it; generated when empty.
  StatusOr<Value> op(std::string_view mnemonic, const std::vector<Value>& operands, const Attributes& attributes = {},
                     std::string_view name = {});
  /// Names a value as an output of the graph.
  Status output(std::string_view name, Value value);

  /// The inferred type of a value of this graph.
  StatusOr<TensorType> type(Value value) const;
  std::vector<TensorInfo> inputs() const;
  std::vector<TensorInfo> outputs() const;
  /// The graph as MLIR text in the hpu dialect.
  std::string toString() const;

  struct Impl;
  Impl& impl() const { return *impl_; }

 private:
  friend struct GraphAccess;
  Graph();
  std::unique_ptr<Impl> impl_;
};

}  // namespace hpu
