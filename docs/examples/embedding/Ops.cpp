// SPDX-License-Identifier: Apache-2.0
#include "Ops.h"

#include <hpu/compiler.h>
#include <hpu/executable.h>
#include <hpu/graph.h>

#include <functional>
#include <utility>

namespace mini::ops {
namespace {

using hpu::ElementType;
using Values = std::vector<hpu::Value>;
using Build = std::function<hpu::Value(hpu::Graph&, const Values&)>;

hpu::Value op(hpu::Graph& graph, const char* name, const Values& operands, const hpu::Attributes& attributes = {}) {
  return take(graph.op(name, operands, attributes));
}
hpu::Value scalar(hpu::Graph& graph, double value) {
  float f = static_cast<float>(value);
  return take(graph.constant({ElementType::kF32, {}}, &f, sizeof f));
}

hpu::Recipe compileOp(const hpu::Device& device, const std::vector<Tensor>& inputs, const Build& build) {
  hpu::Graph graph("op");
  Values values;
  for (size_t i = 0; i < inputs.size(); ++i)
    values.push_back(take(graph.input("x" + std::to_string(i), {ElementType::kF32, inputs[i].shape})));
  check(graph.output("y", build(graph, values)));
  hpu::CompileOptions options;
  options.target = device.info().target;
  options.cpu = "native";  // Runs here and now.
  return take(hpu::compile(graph, options)).recipe;
}

/// `key` names what `build` builds, with every number that is compiled into it. Writes over `into`, if there is one.
Tensor apply(hpu::EagerKey::Builder key, const std::vector<Tensor>& inputs, const Build& build,
             const Tensor* into = nullptr) {
  Backend& backend = inputs[0].backend();
  std::vector<hpu::Buffer> buffers;
  for (const Tensor& input : inputs) {
    key.add(input.shape.size());
    for (int64_t dim : input.shape) key.add(dim);
    buffers.push_back(input.buffer());
  }
  hpu::Executable executable = take(backend.cache.executable(
      backend.device, key.add(static_cast<int>(backend.device.info().target)).build(),
      [&]() -> hpu::StatusOr<hpu::Recipe> {
        try {
          return compileOp(backend.device, inputs, build);
        } catch (const Error& error) {
          return error.status;  // The cache hands it to every thread that waits for this operation.
        }
      }));
  Tensor output = into ? *into : empty(backend, executable.recipe().outputs()[0].type.shape);
  check(executable.launch(backend.compute, buffers, {output.buffer()}));
  return output;
}

hpu::EagerKey::Builder key(const char* name) {
  return hpu::EagerKey::Builder().add(std::string_view(name));
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, bool transposeA, bool transposeB) {
  return apply(key("matmul").add(transposeA).add(transposeB), {a, b}, [&](hpu::Graph& graph, const Values& in) {
    hpu::Attributes swap = {{"perm", std::vector<int64_t>{1, 0}}};
    hpu::Value lhs = transposeA ? op(graph, "transpose", {in[0]}, swap) : in[0];
    hpu::Value rhs = transposeB ? op(graph, "transpose", {in[1]}, swap) : in[1];
    return op(graph, "matmul", {lhs, rhs});
  });
}

Tensor add(const Tensor& a, const Tensor& b) {
  return apply(key("add"), {a, b}, [](hpu::Graph& graph, const Values& in) { return op(graph, "add", in); });
}

Tensor relu(const Tensor& x) {
  return apply(key("relu"), {x}, [](hpu::Graph& graph, const Values& in) { return op(graph, "relu", in); });
}

Tensor reluGrad(const Tensor& dy, const Tensor& y) {
  return apply(key("relu_grad"), {dy, y}, [](hpu::Graph& graph, const Values& in) {
    hpu::Value zero = scalar(graph, 0);
    return op(graph, "where", {op(graph, "greater", {in[1], zero}), in[0], zero});
  });
}

Tensor lossGrad(const Tensor& y, const Tensor& t, double n) {
  return apply(key("loss_grad").addReal(n), {y, t}, [&](hpu::Graph& graph, const Values& in) {
    return op(graph, "mul", {op(graph, "sub", in), scalar(graph, 2 / n)});
  });
}

Tensor sumRows(const Tensor& x) {
  return apply(key("sum_rows"), {x}, [](hpu::Graph& graph, const Values& in) {
    return op(graph, "reduce_sum", in, {{"axes", std::vector<int64_t>{0}}, {"keepdims", int64_t{0}}});
  });
}

void subtractScaled(const Tensor& w, const Tensor& g, double factor) {
  auto build = [&](hpu::Graph& graph, const Values& in) {
    return op(graph, "sub", {in[0], op(graph, "mul", {in[1], scalar(graph, factor)})});
  };
  apply(key("subtract_scaled").addReal(factor), {w, g}, build, &w);
}

}  // namespace mini::ops
