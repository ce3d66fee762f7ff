// SPDX-License-Identifier: Apache-2.0
// Reductions, softmax and normalisations: computed in double, each result rounded once.
#include <cmath>
#include <limits>

#include "base/Parallel.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/interp/Elements.h"
#include "compiler/interp/Kernels.h"

namespace hpu::interp {
namespace {

using namespace hpu::ir;
using mlir::Operation;
using Inputs = llvm::ArrayRef<Tensor>;

constexpr int64_t kGrain = 4096;  // Elements of work below which a loop stays on one thread.

/// Offsets of all elements of the box that `dims` of a row-major tensor span, in row-major order.
std::vector<int64_t> boxOffsets(const Shape& shape, llvm::ArrayRef<int64_t> dims) {
  std::vector<int64_t> strides = rowMajorStrides(shape), offsets = {0};
  for (int64_t dim : dims) {
    std::vector<int64_t> next;
    next.reserve(offsets.size() * shape[dim]);
    for (int64_t offset : offsets)
      for (int64_t i = 0; i < shape[dim]; ++i) next.push_back(offset + i * strides[dim]);
    offsets = std::move(next);
  }
  return offsets;
}

struct ReductionPlan {
  Shape outShape;
  std::vector<int64_t> outer;  ///< Offset of the first element of each result.
  std::vector<int64_t> inner;  ///< Offsets of a result's elements from its first.
};

ReductionPlan planReduction(const Shape& shape, llvm::ArrayRef<int64_t> axes, bool keepdims) {
  ReductionPlan plan;
  llvm::SmallVector<int64_t> kept, reduced;
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d) {
    if (llvm::is_contained(axes, d)) {
      reduced.push_back(d);
      if (keepdims) plan.outShape.push_back(1);
    } else {
      kept.push_back(d);
      plan.outShape.push_back(shape[d]);
    }
  }
  plan.outer = boxOffsets(shape, kept);
  plan.inner = boxOffsets(shape, reduced);
  return plan;
}

/// out[i] = fn(values of result i) where W is double or int64_t.
template <typename W, typename Fn>
StatusOr<Tensor> reduceWith(const Tensor& x, ElementType element, const ReductionPlan& plan, Fn fn) {
  StatusOr<Tensor> out = makeTensor(element, plan.outShape);
  if (!out.ok()) return out;
  std::vector<W> values(std::max<int64_t>(1, x.count()));  // Of nothing, too, there is a place to count from.
  loadElements(x.element(), x.data(), 0, 1, x.count(), values.data());
  uint8_t* result = out->writable();
  int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, plan.inner.size()));
  base::parallelFor(plan.outer.size(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      W value = fn(values.data() + plan.outer[i], plan.inner);
      storeElements(element, result, i, &value, 1);
    }
  });
  return out;
}

/// The type that a sum stores: its own, or that of what is summed up.
template <typename Op>
ElementType storedElement(Op op, const Tensor& x) {
  if constexpr (requires { op.getTo(); })
    if (op.getTo()) return elementType(*op.getTo());
  return x.element();
}

/// The largest or least number of a type, infinities where it has them: what ONNX says a minimum, a maximum of nothing
/// is.
template <typename W>
W furthest(ElementType type, bool largest) {
  if constexpr (std::is_same_v<W, double>) {
    return largest ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
  } else {
    if (type == ElementType::kBool) return largest ? 1 : 0;
    const int unused = 64 - 8 * static_cast<int>(elementSize(type));
    return largest ? std::numeric_limits<W>::max() >> unused : std::numeric_limits<W>::min() >> unused;
  }
}

/// Sums and products of signed integers wrap as those of unsigned ones do.
template <typename W>
using Wrapping = std::conditional_t<std::is_same_v<W, double>, double, uint64_t>;

template <typename W, typename Op>
StatusOr<Tensor> reduce(Op op, const Tensor& x, const ReductionPlan& plan) {
  using Offsets = std::vector<int64_t>;
  const ElementType stored = storedElement(op, x);
  if constexpr (std::is_same_v<Op, ReduceSumOp> || std::is_same_v<Op, ReduceMeanOp>) {
    constexpr bool mean = std::is_same_v<Op, ReduceMeanOp>;
    if (mean && plan.inner.empty() && !std::is_same_v<W, double>)
      return invalidArgument("the mean of no integers has no value");
    return reduceWith<W>(x, stored, plan, [](const W* v, const Offsets& inner) {
      Wrapping<W> sum = 0;
      for (int64_t offset : inner) sum += static_cast<Wrapping<W>>(v[offset]);
      return mean ? static_cast<W>(static_cast<W>(sum) / static_cast<W>(inner.size())) : static_cast<W>(sum);
    });
  }
  if constexpr (std::is_same_v<Op, ReduceProdOp>)
    return reduceWith<W>(x, stored, plan, [](const W* v, const Offsets& inner) {
      Wrapping<W> product = 1;
      for (int64_t offset : inner) product *= static_cast<Wrapping<W>>(v[offset]);
      return static_cast<W>(product);
    });
  constexpr bool max = std::is_same_v<Op, ReduceMaxOp>;
  const W ofNone = furthest<W>(x.element(), !max);
  return reduceWith<W>(x, stored, plan, [ofNone](const W* v, const Offsets& inner) {
    W best = inner.empty() ? ofNone : v[0];
    for (int64_t offset : inner) {
      W value = v[offset];
      if (value != value || (best == best && (max ? value > best : value < best))) best = value;
    }
    return best;
  });
}

template <typename Op>
Evaluated evaluateReduce(Operation* op, const Tensor& x) {
  auto reduction = llvm::dyn_cast<Op>(op);
  if (!reduction) return std::nullopt;
  ReductionPlan plan = planReduction(x.shape(), reduction.getAxes(), reduction.getKeepdims());
  switch (wideKind(x.element())) {
    case Wide::kFloat:
      return reduce<double>(reduction, x, plan);
    case Wide::kSigned:
      return reduce<int64_t>(reduction, x, plan);
    case Wide::kUnsigned:
      return reduce<uint64_t>(reduction, x, plan);
  }
  return std::nullopt;
}

StatusOr<Tensor> argMax(const Tensor& x, int64_t axis, bool keepdims) {
  ReductionPlan plan = planReduction(x.shape(), {axis}, keepdims);
  if (plan.inner.empty() && !plan.outer.empty()) return invalidArgument("hpu.arg_max of no elements has no value");
  auto indexOfBest = [](const auto* v, const std::vector<int64_t>& inner) {
    size_t best = 0;
    // The first of the largest; the first NaN before all.
    for (size_t i = 1; i < inner.size(); ++i) {
      auto value = v[inner[i]], largest = v[inner[best]];
      if (value > largest || (value != value && largest == largest)) best = i;
    }
    return static_cast<std::remove_cvref_t<decltype(*v)>>(best);
  };
  switch (wideKind(x.element())) {
    case Wide::kFloat:
      return reduceWith<double>(x, ElementType::kI64, plan, indexOfBest);
    case Wide::kSigned:
      return reduceWith<int64_t>(x, ElementType::kI64, plan, indexOfBest);
    case Wide::kUnsigned:
      return reduceWith<uint64_t>(x, ElementType::kI64, plan, indexOfBest);
  }
  return internalError("an element type without a wide type");
}

/// Rewrites each lane along `axis`: fn(first element, stride, length).
template <typename Fn>
StatusOr<Tensor> mapLanes(const Tensor& x, int64_t axis, Fn fn) {
  StatusOr<Tensor> out = makeTensor(x.element(), x.shape());
  if (!out.ok()) return out;
  std::vector<double> values = toDoubles(x);
  int64_t length = x.shape()[axis], inner = 1, lanes = 1;
  for (int64_t d = axis + 1; d < x.rank(); ++d) inner *= x.shape()[d];
  for (int64_t d = 0; d < x.rank(); ++d)
    if (d != axis) lanes *= x.shape()[d];
  base::parallelFor(lanes, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, length)),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t lane = begin; lane < end; ++lane)
                        fn(values.data() + lane / inner * length * inner + lane % inner, inner, length);
                    });
  storeElements(x.element(), out->writable(), 0, values.data(), x.count());
  return out;
}

StatusOr<Tensor> softmax(const Tensor& x, int64_t axis, bool logarithm) {
  return mapLanes(x, axis, [logarithm](double* v, int64_t stride, int64_t length) {
    double max = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t i = 0; i < length; ++i) max = v[i * stride] > max || std::isnan(v[i * stride]) ? v[i * stride] : max;
    for (int64_t i = 0; i < length; ++i) sum += std::exp(v[i * stride] - max);
    for (int64_t i = 0; i < length; ++i) {
      double& value = v[i * stride];
      value = logarithm ? value - max - std::log(sum) : std::exp(value - max) / sum;
    }
  });
}

/// Normalises `lanes` runs of `length` contiguous elements; fn(lane, i) gives scale and bias. Not centred: as if the
/// mean were 0.
template <typename Fn>
StatusOr<Tensor> normalise(const Tensor& x, int64_t length, double epsilon, bool isCentred, Fn scaleAndBias) {
  StatusOr<Tensor> out = makeTensor(x.element(), x.shape());
  if (!out.ok() || x.count() == 0) return out;
  std::vector<double> values = toDoubles(x);
  base::parallelFor(x.count() / length, std::max<int64_t>(1, kGrain / length), [&](int64_t begin, int64_t end) {
    for (int64_t lane = begin; lane < end; ++lane) {
      double* v = values.data() + lane * length;
      double mean = 0, variance = 0;
      for (int64_t i = 0; i < length && isCentred; ++i) mean += v[i];
      mean /= length;
      for (int64_t i = 0; i < length; ++i) variance += (v[i] - mean) * (v[i] - mean);
      double factor = 1 / std::sqrt(variance / length + epsilon);
      for (int64_t i = 0; i < length; ++i) {
        auto [scale, bias] = scaleAndBias(lane, i);
        v[i] = (v[i] - mean) * factor * scale + bias;
      }
    }
  });
  storeElements(x.element(), out->writable(), 0, values.data(), x.count());
  return out;
}

/// The elements of `parameter` broadcast to `shape`, as doubles.
std::vector<double> broadcastValues(const Tensor& parameter, const Shape& shape) {
  std::vector<double> values(numElements(shape)), own = toDoubles(parameter);
  std::vector<int64_t> strides = broadcastStrides(parameter.shape(), shape);
  for (size_t i = 0; i < values.size(); ++i) {
    int64_t rest = i, offset = 0;
    for (size_t d = shape.size(); d-- > 0;) {
      offset += rest % shape[d] * strides[d];
      rest /= shape[d];
    }
    values[i] = own[offset];
  }
  return values;
}

StatusOr<Tensor> layerNorm(LayerNormOp op, Inputs in) {
  const Tensor& x = in[0];
  Shape normalised(x.shape().begin() + op.getAxis(), x.shape().end());
  std::vector<double> scale = broadcastValues(in[1], normalised), bias(scale.size(), 0.0);
  if (op.getBias()) bias = broadcastValues(in[2], normalised);
  return normalise(x, scale.size(), op.getEpsilon().convertToDouble(), op.getCentred(),
                   [&](int64_t, int64_t i) { return std::pair(scale[i], bias[i]); });
}

StatusOr<Tensor> instanceNorm(InstanceNormOp op, Inputs in) {
  const Tensor& x = in[0];
  int64_t channels = x.shape()[1], length = 1;
  for (int64_t d = 2; d < x.rank(); ++d) length *= x.shape()[d];
  std::vector<double> scale = toDoubles(in[1]), bias = toDoubles(in[2]);
  return normalise(x, length, op.getEpsilon().convertToDouble(), /*isCentred=*/true,
                   [&](int64_t lane, int64_t) { return std::pair(scale[lane % channels], bias[lane % channels]); });
}

}  // namespace

Evaluated evaluateReduction(Operation* op, Inputs in) {
  if (in.empty()) return std::nullopt;
  if (Evaluated r = evaluateReduce<ReduceSumOp>(op, in[0])) return r;
  if (Evaluated r = evaluateReduce<ReduceMeanOp>(op, in[0])) return r;
  if (Evaluated r = evaluateReduce<ReduceMaxOp>(op, in[0])) return r;
  if (Evaluated r = evaluateReduce<ReduceMinOp>(op, in[0])) return r;
  if (Evaluated r = evaluateReduce<ReduceProdOp>(op, in[0])) return r;
  if (auto arg = llvm::dyn_cast<ArgMaxOp>(op)) return argMax(in[0], arg.getAxis(), arg.getKeepdims());
  if (auto soft = llvm::dyn_cast<SoftmaxOp>(op)) return softmax(in[0], soft.getAxis(), false);
  if (auto soft = llvm::dyn_cast<LogSoftmaxOp>(op)) return softmax(in[0], soft.getAxis(), true);
  if (auto norm = llvm::dyn_cast<LayerNormOp>(op)) return layerNorm(norm, in);
  if (auto norm = llvm::dyn_cast<InstanceNormOp>(op)) return instanceNorm(norm, in);
  return std::nullopt;
}

}  // namespace hpu::interp
