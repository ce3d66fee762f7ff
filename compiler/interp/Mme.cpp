// SPDX-License-Identifier: Apache-2.0
// Matrix products and convolutions. Of floats: exact products, accumulated in double, each result rounded once. Of
// integers: in 64 bits, wrapped.
#include <algorithm>

#include "base/Parallel.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/interp/Elements.h"
#include "compiler/interp/Kernels.h"

namespace hpu::interp {
namespace {

using namespace hpu::ir;
using mlir::Operation;
using Inputs = llvm::ArrayRef<Tensor>;

constexpr int64_t kStrip = 8;  // Columns of B that are multiplied at a time: 2 x 8 sums fit the registers.
/// What sums are made in: double, or uint64_t, which wraps and has the lowest bits of signed sums, too.
template <typename W>
struct PairOf {
  using Type __attribute__((vector_size(16))) = W;
};
template <typename W>
using Pair = typename PairOf<W>::Type;

/// sums[r][j] = sum over k of a[r][k] * b[k * kStrip + j] for the rows r of `a` (leading dimension K).
template <int kRows, typename W>
void multiplyStrip(const W* a, const W* b, int64_t K, W (*sums)[kStrip]) {
  constexpr int kPairs = kStrip / 2;
  Pair<W> sum[kRows][kPairs] = {};
  for (int64_t k = 0; k < K; ++k) {
    const Pair<W>* column = reinterpret_cast<const Pair<W>*>(b + k * kStrip);
    for (int r = 0; r < kRows; ++r) {
      Pair<W> factor = {a[r * K + k], a[r * K + k]};
      for (int j = 0; j < kPairs; ++j) sum[r][j] += factor * column[j];
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int j = 0; j < kStrip; ++j) sums[r][j] = sum[r][j / 2][j % 2];
}

/// C[M][N] (row-major, written through `element` at `out` from `offset`) = A[M][K] * B[K][N], where
/// fill(n, count, strip) writes columns [n, n + count) of B to strip[k * kStrip + j], zeros beyond.
template <typename W, typename Fill>
void multiply(int64_t M, int64_t N, int64_t K, const W* a, Fill fill, ElementType element, uint8_t* out,
              int64_t offset) {
  base::parallelFor((N + kStrip - 1) / kStrip, 1, [&](int64_t begin, int64_t end) {
    std::vector<Pair<W>> memory(K * kStrip / 2 + 1);
    W* strip = reinterpret_cast<W*>(memory.data());
    for (int64_t s = begin; s < end; ++s) {
      int64_t n = s * kStrip, count = std::min(kStrip, N - n);
      fill(n, count, strip);
      for (int64_t m = 0; m < M;) {
        W sums[2][kStrip];
        int64_t rows = M - m >= 2 ? 2 : 1;
        if (rows == 2)
          multiplyStrip<2>(a + m * K, strip, K, sums);
        else
          multiplyStrip<1>(a + m * K, strip, K, sums);
        for (int64_t r = 0; r < rows; ++r) storeElements(element, out, offset + (m + r) * N + n, sums[r], count);
        m += rows;
      }
    }
  });
}

/// As the dialect infers it: products of 8-bit floats are bf16.
ElementType productElement(ElementType operand) {
  return elementSize(operand) == 1 && wideKind(operand) == Wide::kFloat ? ElementType::kBF16 : operand;
}

template <typename W>
std::vector<W> elementsOf(const Tensor& x) {
  std::vector<W> values(x.count());
  loadElements(x.element(), x.data(), 0, 1, x.count(), values.data());
  return values;
}

template <typename W>
StatusOr<Tensor> matmul(const Tensor& lhs, const Tensor& rhs) {
  int64_t M = lhs.shape()[lhs.rank() - 2], K = lhs.shape().back(), N = rhs.shape().back();
  Shape lhsBatch(lhs.shape().begin(), lhs.shape().end() - 2), rhsBatch(rhs.shape().begin(), rhs.shape().end() - 2);
  std::optional<Shape> batch =
      broadcast({lhs.retyped({lhs.element(), lhsBatch}), rhs.retyped({rhs.element(), rhsBatch})});
  if (!batch || rhs.shape()[rhs.rank() - 2] != K) return invalidArgument("matmul operands do not fit");
  Shape shape = *batch;
  shape.push_back(M);
  shape.push_back(N);
  StatusOr<Tensor> out = makeTensor(productElement(lhs.element()), shape);
  if (!out.ok()) return out;
  std::vector<W> a = elementsOf<W>(lhs), b = elementsOf<W>(rhs);
  std::vector<int64_t> lhsStrides = broadcastStrides(lhsBatch, *batch), rhsStrides = broadcastStrides(rhsBatch, *batch);
  uint8_t* result = out->writable();
  int64_t count = numElements(*batch);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, lhsIndex = 0, rhsIndex = 0;
    for (size_t d = batch->size(); d-- > 0;) {
      lhsIndex += rest % (*batch)[d] * lhsStrides[d];
      rhsIndex += rest % (*batch)[d] * rhsStrides[d];
      rest /= (*batch)[d];
    }
    const W* matrix = b.data() + rhsIndex * K * N;
    multiply(
        M, N, K, a.data() + lhsIndex * M * K,
        [&](int64_t n, int64_t columns, W* strip) {
          for (int64_t k = 0; k < K; ++k)
            for (int64_t j = 0; j < kStrip; ++j) strip[k * kStrip + j] = j < columns ? matrix[k * N + n + j] : 0;
        },
        out->element(), result, i * M * N);
  }
  return out;
}

/// Geometry of a convolution or of its transpose.
struct ConvGeometry {
  int64_t batch, groups, inChannels, outChannels;  ///< Channels are per group.
  int64_t in[2], out[2], kernel[2], stride[2], dilation[2], pad[2];
};

/// Input index that output index `o` reads through tap `k`, or -1.
int64_t convSource(const ConvGeometry& g, int dim, int64_t o, int64_t k) {
  int64_t i = o * g.stride[dim] + k * g.dilation[dim] - g.pad[dim];
  return i >= 0 && i < g.in[dim] ? i : -1;
}
int64_t transposedSource(const ConvGeometry& g, int dim, int64_t o, int64_t k) {
  int64_t i = o + g.pad[dim] - k * g.dilation[dim];
  if (i < 0 || i % g.stride[dim] != 0) return -1;
  i /= g.stride[dim];
  return i < g.in[dim] ? i : -1;
}

/// As a product per group: weights [outChannels, K] times patches [K, out positions], K = (channel, tap).
template <typename W, typename Source>
StatusOr<Tensor> convolve(const ConvGeometry& g, const Tensor& x, const std::vector<W>& weights, Source source) {
  StatusOr<Tensor> out =
      makeTensor(productElement(x.element()), {g.batch, g.groups * g.outChannels, g.out[0], g.out[1]});
  if (!out.ok()) return out;
  std::vector<W> values = elementsOf<W>(x);
  uint8_t* result = out->writable();
  int64_t taps = g.kernel[0] * g.kernel[1], K = g.inChannels * taps, plane = g.in[0] * g.in[1];
  int64_t positions = g.out[0] * g.out[1];
  for (int64_t n = 0; n < g.batch; ++n) {
    for (int64_t group = 0; group < g.groups; ++group) {
      const W* image = values.data() + (n * g.groups + group) * g.inChannels * plane;
      const W* filter = weights.data() + group * g.outChannels * K;
      auto fill = [&](int64_t first, int64_t count, W* strip) {
        std::fill(strip, strip + K * kStrip, W{0});
        for (int64_t j = 0; j < count; ++j) {
          int64_t oy = (first + j) / g.out[1], ox = (first + j) % g.out[1];
          for (int64_t ky = 0; ky < g.kernel[0]; ++ky) {
            int64_t y = source(g, 0, oy, ky);
            if (y < 0) continue;
            for (int64_t kx = 0; kx < g.kernel[1]; ++kx) {
              int64_t c = source(g, 1, ox, kx);
              if (c < 0) continue;
              const W* pixel = image + y * g.in[1] + c;
              W* slot = strip + (ky * g.kernel[1] + kx) * kStrip + j;
              for (int64_t channel = 0; channel < g.inChannels; ++channel)
                slot[channel * taps * kStrip] = pixel[channel * plane];
            }
          }
        }
      };
      multiply(g.outChannels, positions, K, filter, fill, out->element(), result,
               (n * g.groups + group) * g.outChannels * positions);
    }
  }
  return out;
}

template <typename Op>
ConvGeometry geometryOf(Op op, const Tensor& x, const Tensor& w) {
  ConvGeometry g{};
  g.batch = x.shape()[0];
  g.groups = op.getGroups();
  for (int i = 0; i < 2; ++i) {
    g.in[i] = x.shape()[2 + i];
    g.kernel[i] = w.shape()[2 + i];
    g.stride[i] = op.getStrides()[i];
    g.dilation[i] = op.getDilations()[i];
    g.pad[i] = op.getPads()[i];
  }
  return g;
}

template <typename W>
StatusOr<Tensor> conv2d(Conv2dOp op, const Tensor& x, const Tensor& w) {
  ConvGeometry g = geometryOf(op, x, w);
  g.inChannels = w.shape()[1];
  g.outChannels = w.shape()[0] / g.groups;
  for (int i = 0; i < 2; ++i)
    g.out[i] =
        (g.in[i] + op.getPads()[i] + op.getPads()[2 + i] - (g.dilation[i] * (g.kernel[i] - 1) + 1)) / g.stride[i] + 1;
  return convolve(g, x, elementsOf<W>(w), convSource);
}

template <typename W>
StatusOr<Tensor> convTranspose2d(ConvTranspose2dOp op, const Tensor& x, const Tensor& w) {
  ConvGeometry g = geometryOf(op, x, w);
  g.inChannels = w.shape()[0] / g.groups;
  g.outChannels = w.shape()[1];
  for (int i = 0; i < 2; ++i)
    g.out[i] = g.stride[i] * (g.in[i] - 1) + op.getOutputPadding()[i] + g.dilation[i] * (g.kernel[i] - 1) + 1 -
               op.getPads()[i] - op.getPads()[2 + i];
  // [groups][in][out][taps] -> [groups][out][in][taps]
  int64_t taps = g.kernel[0] * g.kernel[1];
  std::vector<W> weights = elementsOf<W>(w), turned(weights.size());
  for (int64_t group = 0; group < g.groups; ++group)
    for (int64_t i = 0; i < g.inChannels; ++i)
      for (int64_t o = 0; o < g.outChannels; ++o)
        std::copy_n(&weights[((group * g.inChannels + i) * g.outChannels + o) * taps], taps,
                    &turned[((group * g.outChannels + o) * g.inChannels + i) * taps]);
  return convolve(g, x, turned, transposedSource);
}

template <typename W>
Evaluated evaluate(Operation* op, Inputs in) {
  if (llvm::isa<MatMulOp>(op)) return matmul<W>(in[0], in[1]);
  if (auto conv = llvm::dyn_cast<Conv2dOp>(op)) return conv2d<W>(conv, in[0], in[1]);
  if (auto conv = llvm::dyn_cast<ConvTranspose2dOp>(op)) return convTranspose2d<W>(conv, in[0], in[1]);
  return std::nullopt;
}

}  // namespace

Evaluated evaluateMme(Operation* op, Inputs in) {
  if (!llvm::isa<MatMulOp, Conv2dOp, ConvTranspose2dOp>(op)) return std::nullopt;
  return wideKind(in[0].element()) == Wide::kFloat ? evaluate<double>(op, in) : evaluate<uint64_t>(op, in);
}

}  // namespace hpu::interp
