// SPDX-License-Identifier: Apache-2.0
// Pooling and resampling of [N, C, H, W].
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

/// The windows of one spatial dimension.
struct WindowDim {
  int64_t in, out, kernel, stride, dilation, padBegin, padEnd;
};

template <typename Op>
WindowDim windowDim(Op op, const Tensor& x, int i) {
  WindowDim d{x.shape()[2 + i],   0, op.getKernel()[i], op.getStrides()[i], op.getDilations()[i], op.getPads()[i],
              op.getPads()[2 + i]};
  int64_t span = d.in + d.padBegin + d.padEnd - (d.dilation * (d.kernel - 1) + 1);
  d.out = (span + (op.getCeilMode() ? d.stride - 1 : 0)) / d.stride + 1;
  // With ceil_mode a window must still start inside the input or its leading padding.
  if (op.getCeilMode() && (d.out - 1) * d.stride >= d.in + d.padBegin) --d.out;
  return d;
}

/// One result element of pooling: fn(plane, first row and column of the window) -> value.
template <typename W, typename Fn>
StatusOr<Tensor> mapWindows(const Tensor& x, const WindowDim& h, const WindowDim& w, Fn fn) {
  StatusOr<Tensor> out = makeTensor(x.element(), {x.shape()[0], x.shape()[1], h.out, w.out});
  if (!out.ok()) return out;
  std::vector<W> values(x.count());
  loadElements(x.element(), x.data(), 0, 1, x.count(), values.data());
  uint8_t* result = out->writable();
  base::parallelFor(x.shape()[0] * x.shape()[1], 1, [&](int64_t begin, int64_t end) {
    std::vector<W> row(w.out);
    for (int64_t plane = begin; plane < end; ++plane) {
      for (int64_t y = 0; y < h.out; ++y) {
        for (int64_t c = 0; c < w.out; ++c)
          row[c] = fn(values.data() + plane * h.in * w.in, y * h.stride - h.padBegin, c * w.stride - w.padBegin);
        storeElements(x.element(), result, (plane * h.out + y) * w.out, row.data(), w.out);
      }
    }
  });
  return out;
}

template <typename W>
StatusOr<Tensor> maxPool(const Tensor& x, const WindowDim& h, const WindowDim& w) {
  return mapWindows<W>(x, h, w, [&](const W* plane, int64_t top, int64_t left) {
    W best =
        std::numeric_limits<W>::has_infinity ? -std::numeric_limits<W>::infinity() : std::numeric_limits<W>::lowest();
    for (int64_t ky = 0; ky < h.kernel; ++ky) {
      for (int64_t kx = 0; kx < w.kernel; ++kx) {
        int64_t y = top + ky * h.dilation, c = left + kx * w.dilation;
        if (y < 0 || y >= h.in || c < 0 || c >= w.in) continue;
        W value = plane[y * w.in + c];
        if (value != value || value > best) best = value;
      }
    }
    return best;
  });
}

StatusOr<Tensor> avgPool(const Tensor& x, const WindowDim& h, const WindowDim& w, bool countPadding) {
  return mapWindows<double>(x, h, w, [&](const double* plane, int64_t top, int64_t left) {
    double sum = 0;
    int64_t count = 0;
    for (int64_t ky = 0; ky < h.kernel; ++ky) {
      for (int64_t kx = 0; kx < w.kernel; ++kx) {
        int64_t y = top + ky * h.dilation, c = left + kx * w.dilation;
        bool inside = y >= 0 && y < h.in && c >= 0 && c < w.in;
        if (inside) sum += plane[y * w.in + c];
        // Padding counts if asked for, what ceil_mode adds behind it never.
        count += inside || (countPadding && y < h.in + h.padEnd && c < w.in + w.padEnd);
      }
    }
    return sum / count;
  });
}

/// Where output index i of a resized dimension lies in the input.
double sourceCoordinate(CoordMode mode, int64_t i, int64_t in, int64_t out, double scale) {
  switch (mode) {
    case CoordMode::half_pixel:
      return (i + 0.5) / scale - 0.5;
    case CoordMode::pytorch_half_pixel:
      return out > 1 ? (i + 0.5) / scale - 0.5 : 0;
    case CoordMode::align_corners:
      return out > 1 ? static_cast<double>(i) * (in - 1) / (out - 1) : 0;
    case CoordMode::asymmetric:
      return i / scale;
  }
  return 0;
}

int64_t nearestIndex(NearestMode mode, double x, int64_t in) {
  double index = 0;
  switch (mode) {
    case NearestMode::round_prefer_floor:
      index = std::ceil(x - 0.5);
      break;
    case NearestMode::round_prefer_ceil:
      index = std::floor(x + 0.5);
      break;
    case NearestMode::floor:
      index = std::floor(x);
      break;
    case NearestMode::ceil:
      index = std::ceil(x);
      break;
  }
  return std::clamp<int64_t>(static_cast<int64_t>(index), 0, in - 1);
}

/// The two neighbours of a result element and the weight of the upper one.
struct Tap {
  int64_t low, high;
  double weight;
};

std::vector<Tap> taps(ResizeOp op, int dim, int64_t in) {
  int64_t out = op.getSizes()[dim];
  double scale = op.getScales()[dim];
  std::vector<Tap> result(out);
  for (int64_t i = 0; i < out; ++i) {
    double x = sourceCoordinate(op.getCoordinates(), i, in, out, scale);
    if (op.getMode() == ResizeMode::nearest) {
      int64_t index = nearestIndex(op.getNearest(), x, in);
      result[i] = {index, index, 0};
    } else {
      x = std::clamp<double>(x, 0, in - 1);
      int64_t low = std::min<int64_t>(static_cast<int64_t>(x), in - 1);
      result[i] = {low, std::min(low + 1, in - 1), x - low};
    }
  }
  return result;
}

StatusOr<Tensor> resize(ResizeOp op, const Tensor& x) {
  int64_t inH = x.shape()[2], inW = x.shape()[3];
  int64_t outH = op.getSizes()[0], outW = op.getSizes()[1];
  StatusOr<Tensor> out = makeTensor(x.element(), {x.shape()[0], x.shape()[1], outH, outW});
  if (!out.ok()) return out;
  if (x.count() == 0) return invalidArgument("hpu.resize of an empty tensor");
  std::vector<Tap> rows = taps(op, 0, inH), columns = taps(op, 1, inW);
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

Evaluated evaluateWindow(Operation* op, Inputs in) {
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
  if (auto resizeOp = llvm::dyn_cast<ResizeOp>(op)) return resize(resizeOp, in[0]);
  return std::nullopt;
}

}  // namespace hpu::interp
