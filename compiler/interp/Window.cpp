// SPDX-License-Identifier: Apache-2.0
// Pooling and resampling of [N, C, H, W].
#include <cmath>
#include <limits>

#include "base/Parallel.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/ResizeCoordinates.h"
#include "compiler/dialect/hpu/Windows.h"
#include "compiler/interp/Elements.h"
#include "compiler/interp/Kernels.h"

namespace hpu::interp {
namespace {

using namespace hpu::ir;
using mlir::Operation;
using Inputs = llvm::ArrayRef<Tensor>;

template <typename Op>
WindowDim windowDim(Op op, const Tensor& x, int i) {
  return {x.shape()[2 + i], op.getKernel()[i],   op.getStrides()[i], op.getDilations()[i],
          op.getPads()[i],  op.getPads()[2 + i], op.getCeilMode()};
}

/// One result element of pooling: fn(plane, row of the result, column of the result) -> value.
template <typename W, typename Fn>
StatusOr<Tensor> mapWindows(const Tensor& x, const WindowDim& h, const WindowDim& w, Fn fn) {
  const int64_t rows = h.count().value_or(0), columns = w.count().value_or(0);
  StatusOr<Tensor> out = makeTensor(x.element(), {x.shape()[0], x.shape()[1], rows, columns});
  if (!out.ok()) return out;
  std::vector<W> values(x.count());
  loadElements(x.element(), x.data(), 0, 1, x.count(), values.data());
  uint8_t* result = out->writable();
  base::parallelFor(x.shape()[0] * x.shape()[1], 1, [&](int64_t begin, int64_t end) {
    std::vector<W> row(columns);
    for (int64_t plane = begin; plane < end; ++plane) {
      for (int64_t y = 0; y < rows; ++y) {
        for (int64_t c = 0; c < columns; ++c) row[c] = fn(values.data() + plane * h.in * w.in, y, c);
        storeElements(x.element(), result, (plane * rows + y) * columns, row.data(), columns);
      }
    }
  });
  return out;
}

/// Calls visit(value) for the elements of a plane that are in a window.
template <typename W, typename Visit>
void forEachTap(const W* plane, const WindowDim& h, const WindowDim& w, int64_t y, int64_t c, Visit visit) {
  auto [top, bottom] = h.tapsInside(y);
  auto [left, right] = w.tapsInside(c);
  for (int64_t ky = top; ky < bottom; ++ky) {
    const W* row = plane + (y * h.stride + ky * h.dilation - h.padBegin) * w.in + c * w.stride - w.padBegin;
    for (int64_t kx = left; kx < right; ++kx) visit(row[kx * w.dilation]);
  }
}

template <typename W>
StatusOr<Tensor> maxPool(const Tensor& x, const WindowDim& h, const WindowDim& w) {
  return mapWindows<W>(x, h, w, [&](const W* plane, int64_t y, int64_t c) {
    W best =
        std::numeric_limits<W>::has_infinity ? -std::numeric_limits<W>::infinity() : std::numeric_limits<W>::lowest();
    forEachTap(plane, h, w, y, c, [&](W value) {
      if (value != value || value > best) best = value;
    });
    return best;
  });
}

StatusOr<Tensor> avgPool(const Tensor& x, const WindowDim& h, const WindowDim& w, bool countPadding) {
  // Padding counts if asked for, what ceil_mode adds behind it never.
  auto counted = [&](const WindowDim& d, int64_t position) {
    auto [first, last] = countPadding ? d.taps(position, -d.padBegin, d.in + d.padEnd) : d.tapsInside(position);
    return static_cast<double>(std::max<int64_t>(last - first, 1));
  };
  return mapWindows<double>(x, h, w, [&](const double* plane, int64_t y, int64_t c) {
    double sum = 0;
    forEachTap(plane, h, w, y, c, [&](double value) { sum += value; });
    return sum / (counted(h, y) * counted(w, c));
  });
}

/// -1: none that a tensor can have.
int64_t sizeOf(ResizeOp op, int dim, int64_t in, const shape::SymbolBindings& bindings) {
  const int64_t size = bindShape(op.getSizes(), op.getSymbols(), bindings)[dim];
  const double scale = op.getScales()[dim];
  if (!mlir::ShapedType::isDynamic(size)) return size;
  return scale == 0 ? -1 : scaledSize(in, scale).value_or(-1);
}

std::vector<LinearTap> taps(ResizeOp op, int dim, int64_t in, int64_t out) {
  const ResizeDim dimension{op.getCoordinates(), in, out, op.getScales()[dim]};
  std::vector<LinearTap> result(out);
  for (int64_t i = 0; i < out; ++i) {
    float at = dimension.coordinate(i);
    if (op.getMode() == ResizeMode::nearest) {
      int64_t index = nearestElement(op.getNearest(), at, in);
      result[i] = {index, index, 0};
    } else {
      result[i] = linearTap(at, in);
    }
  }
  return result;
}

StatusOr<Tensor> resize(ResizeOp op, const Tensor& x, const shape::SymbolBindings& bindings) {
  int64_t inH = x.shape()[2], inW = x.shape()[3];
  const int64_t outH = sizeOf(op, 0, inH, bindings), outW = sizeOf(op, 1, inW, bindings);
  if (outH < 0 || outW < 0) return invalidArgument("hpu.resize gives no size that a tensor can have");
  StatusOr<Tensor> out = makeTensor(x.element(), {x.shape()[0], x.shape()[1], outH, outW});
  if (!out.ok()) return out;
  if (x.count() == 0) return invalidArgument("hpu.resize of an empty tensor");
  std::vector<LinearTap> rows = taps(op, 0, inH, outH), columns = taps(op, 1, inW, outW);
  std::vector<double> values = toDoubles(x);
  uint8_t* result = out->writable();
  base::parallelFor(x.shape()[0] * x.shape()[1], 1, [&](int64_t begin, int64_t end) {
    std::vector<double> row(outW);
    for (int64_t plane = begin; plane < end; ++plane) {
      const double* in = values.data() + plane * inH * inW;
      for (int64_t y = 0; y < outH; ++y) {
        const double *top = in + rows[y].low * inW, *bottom = in + rows[y].high * inW;
        double v = rows[y].weight;
        for (int64_t c = 0; c < outW; ++c) {
          auto [low, high, u] = columns[c];
          row[c] = v == 0 && u == 0 ? top[low]
                                    : (1 - v) * ((1 - u) * top[low] + u * top[high]) +
                                          v * ((1 - u) * bottom[low] + u * bottom[high]);
        }
        storeElements(x.element(), result, (plane * outH + y) * outW, row.data(), outW);
      }
    }
  });
  return out;
}

}  // namespace

Evaluated evaluateWindow(Operation* op, Inputs in, const shape::SymbolBindings& bindings) {
  if (auto pool = llvm::dyn_cast<MaxPool2dOp>(op)) {
    WindowDim h = windowDim(pool, in[0], 0), w = windowDim(pool, in[0], 1);
    switch (wideKind(in[0].element())) {
      case Wide::kFloat:
        return maxPool<double>(in[0], h, w);
      case Wide::kSigned:
        return maxPool<int64_t>(in[0], h, w);
      case Wide::kUnsigned:
        return maxPool<uint64_t>(in[0], h, w);
    }
  }
  if (auto pool = llvm::dyn_cast<AvgPool2dOp>(op))
    return avgPool(in[0], windowDim(pool, in[0], 0), windowDim(pool, in[0], 1), pool.getCountIncludePad());
  if (auto resizeOp = llvm::dyn_cast<ResizeOp>(op)) return resize(resizeOp, in[0], bindings);
  return std::nullopt;
}

}  // namespace hpu::interp
