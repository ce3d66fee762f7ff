// SPDX-License-Identifier: Apache-2.0
#include "SampleProgram.h"

#include <cstring>
#include <memory>

#include "recipe/PackedWeights.h"

namespace hpu::recipe::testing {

namespace {

/// Bytes that differ from place to place, owned by the returned pointer.
std::shared_ptr<std::vector<uint8_t>> patternBytes(size_t size, uint32_t seed) {
  auto bytes = std::make_shared<std::vector<uint8_t>>(size);
  uint32_t state = seed * 2654435761u + 1;
  for (uint8_t& byte : *bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<uint8_t>(state >> 24);
  }
  return bytes;
}

ConstantBlob constantBlob(uint32_t section, uint64_t offset, uint64_t size, uint32_t seed) {
  auto bytes = patternBytes(size, seed);
  return {section, offset, bytes->data(), size, bytes};
}

KernelImage image(CpuVariant cpu, std::vector<uint64_t> entries, uint64_t size) {
  auto bytes = patternBytes(size, static_cast<uint32_t>(cpu));
  return {cpu, std::move(entries), bytes->data(), size, bytes};
}

Command command(uint32_t op, std::vector<int64_t> lo, std::vector<int64_t> hi, std::vector<Wait> waits,
                uint32_t signal) {
  Command c;
  c.op = op;
  c.lo = std::move(lo);
  c.hi = std::move(hi);
  c.waits = std::move(waits);
  c.signal = signal;
  return c;
}

}  // namespace

Operand denseOperand(uint32_t section, uint64_t offset, ElementType type, std::vector<int64_t> sizes) {
  Operand operand;
  operand.section = section;
  operand.offset = offset;
  operand.type = type;
  operand.strides.assign(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 1;) operand.strides[d - 1] = operand.strides[d] * sizes[d];
  operand.sizes = std::move(sizes);
  return operand;
}

Program sampleProgram() {
  Program p;
  p.name = "sample";
  p.producer = "recipe tests";
  p.target = Target::kGaudi2;
  p.inputs = {{"x", {ElementType::kF32, {4, 8, 6, 6}}}};
  p.outputs = {{"probabilities", {ElementType::kF32, {4, 10}}}, {"state", {ElementType::kI32, {4}}}};

  const PackedShape packed{9, 8, 16};
  const uint64_t packedBytes = packed.elements() * 4, biasOffset = packedBytes;
  const uint64_t gemmOffset = biasOffset + 256, gemmBytes = 576 * 10 * 4;
  const uint64_t hiddenBytes = 4 * 576 * 4, slotBytes = 576 * 4;
  p.sections = {{SectionKind::kInput, 0, 4 * 8 * 6 * 6 * 4},
                {SectionKind::kOutput, 0, 256},
                {SectionKind::kOutput, 1, 16},
                {SectionKind::kConst, kNone, gemmOffset + gemmBytes},
                {SectionKind::kWorkspace, kNone, 2 * hiddenBytes + 256},
                {SectionKind::kSram, kNone, 2 * slotBytes},
                {SectionKind::kPersistent, kNone, 256}};
  p.constants = {constantBlob(kConstSection, 0, packedBytes, 1), constantBlob(kConstSection, biasOffset, 16 * 4, 2),
                 constantBlob(kConstSection, gemmOffset, gemmBytes, 3)};
  p.kernels = {{"bias_relu", {0.03125, 0.015625, 0.03125, 0.01}, 2, 1, 4, 0, 0},
               {"softmax", {0.1, 0.1, 1.5, 0.1}, 1, 1, 2, 2, 1024}};
  p.images = {image(CpuVariant::kX86_64_v3, {0, 512}, 1000), image(CpuVariant::kX86_64_v4, {64, 700}, 900)};
  p.sourceNodes = {{"/conv/Conv", "Conv"}, {"/relu/Relu", "Relu"}, {"/fc/Gemm", "Gemm"}, {"/out/Softmax", "Softmax"}};

  // Hidden activations lie channels-last in the ring and in the workspace, then row-major for the
  // gemm.
  const std::vector<int64_t> hidden = {4, 16, 6, 6}, channelsLast = {576, 1, 96, 16};
  Operand ring{kSramSection, 0, ElementType::kF32, hidden, channelsLast, {2, 0, slotBytes}};
  Operand nhwc{kWorkspaceSection, 0, ElementType::kF32, hidden, channelsLast, {}};

  Op conv;
  conv.engine = Engine::kMme;
  conv.name = "conv";
  conv.provenance = {0};
  conv.space = hidden;
  conv.mme.kind = MmeKind::kConv2d;
  conv.mme.packing = BPacking::kBlocked;
  conv.mme.a = denseOperand(kInputSection, 0, ElementType::kF32, {4, 8, 6, 6});
  conv.mme.b = denseOperand(kConstSection, 0, ElementType::kF32, {16, 8, 3, 3});
  conv.mme.c = ring;
  for (int i = 0; i < 2; ++i) conv.mme.padBegin[i] = conv.mme.padEnd[i] = 1;
  conv.mme.packingFactor = 2;

  Op relu;
  relu.engine = Engine::kTpc;
  relu.name = "bias+relu";
  relu.provenance = {0, 1};
  relu.space = hidden;
  relu.tpc.kernel = 0;
  relu.tpc.inputs = {ring, {kConstSection, biasOffset, ElementType::kF32, hidden, {0, 1, 0, 0}, {}}};
  relu.tpc.outputs = {nhwc};

  Op copy;
  copy.engine = Engine::kDma;
  copy.name = "relayout";
  copy.space = hidden;
  copy.dma.src = nhwc;
  copy.dma.dst = denseOperand(kWorkspaceSection, hiddenBytes, ElementType::kF32, hidden);

  Op gemm;
  gemm.engine = Engine::kMme;
  gemm.name = "fc";
  gemm.provenance = {2};
  gemm.space = {4, 10};
  gemm.mme.a = denseOperand(kWorkspaceSection, hiddenBytes, ElementType::kF32, {4, 576});
  gemm.mme.b = {kConstSection, gemmOffset, ElementType::kF32, {576, 10}, {1, 576}, {}};
  gemm.mme.c = denseOperand(kWorkspaceSection, 2 * hiddenBytes, ElementType::kF32, {4, 10});

  Op fill;
  fill.engine = Engine::kDma;
  fill.name = "state";
  fill.space = {4};
  fill.dma.fill = true;
  fill.dma.fillPattern = 0x01020304;
  fill.dma.dst = denseOperand(kStateSection, 0, ElementType::kI32, {4});

  Op softmax;
  softmax.engine = Engine::kTpc;
  softmax.name = "softmax";
  softmax.provenance = {3};
  softmax.space = {4, 10};
  softmax.tpc.kernel = 1;
  softmax.tpc.inputs = {denseOperand(kWorkspaceSection, 2 * hiddenBytes, ElementType::kF32, {4, 10})};
  softmax.tpc.outputs = {denseOperand(kOutputSection, 0, ElementType::kF32, {4, 10})};

  p.ops = {conv, relu, copy, gemm, fill, softmax};
  p.bundles = {{"conv+bias+relu", {kConvOp, kReluOp}, 4}};
  p.hostOrder = {kConvOp, kReluOp, kCopyOp, kGemmOp, kFillOp, kSoftmaxOp};

  // Signals: 0 conv slices, 1 relu slices, 2 copy, 3 gemm.
  p.numSignals = 4;
  p.queues = {{Engine::kMme, {}}, {Engine::kTpc, {}}, {Engine::kDma, {}}};
  auto& mme = p.queues[kMmeQueue].commands;
  auto& tpc = p.queues[kTpcQueue].commands;
  auto& dma = p.queues[kDmaQueue].commands;
  for (uint32_t i = 0; i < 4; ++i) {
    std::vector<int64_t> lo = {i, 0, 0, 0}, hi = {i + 1, 16, 6, 6};
    std::vector<Wait> slotFree;
    if (i >= 2) slotFree = {{1, i - 1}};
    mme.push_back(command(kConvOp, lo, hi, slotFree, 0));
    tpc.push_back(command(kReluOp, lo, hi, {{0, i + 1}}, 1));
    for (Command* c : {&mme.back(), &tpc.back()}) {
      c->bundle = 0;
      c->slice = i;
    }
  }
  dma.push_back(command(kFillOp, {0}, {4}, {}, kNone));
  dma.push_back(command(kCopyOp, {0, 0, 0, 0}, {4, 16, 6, 6}, {{1, 4}}, 2));
  mme.push_back(command(kGemmOp, {0, 0}, {4, 10}, {{2, 1}}, 3));
  tpc.push_back(command(kSoftmaxOp, {0, 0}, {3, 10}, {{3, 1}}, kNone));
  tpc.push_back(command(kSoftmaxOp, {3, 0}, {4, 10}, {}, kNone));

  p.estimates = {12.5, 10.25, 3 * hiddenBytes, 2 * slotBytes};
  p.ir = "module {}\n";
  return p;
}

Program largeProgram(uint32_t layers, uint32_t slices) {
  const int64_t rows = int64_t{slices} * 8, width = 64;
  const uint64_t tensorBytes = static_cast<uint64_t>(rows * width * 4);
  const uint64_t weightBytes = static_cast<uint64_t>(width * width * 4), slotBytes = 8 * width * 4;
  Program p;
  p.name = "large";
  p.target = Target::kGaudi2;
  p.inputs = {{"x", {ElementType::kF32, {rows, width}}}};
  p.outputs = {{"y", {ElementType::kF32, {rows, width}}}};
  p.sections = {{SectionKind::kInput, 0, tensorBytes},
                {SectionKind::kOutput, 0, tensorBytes},
                {SectionKind::kConst, kNone, layers * weightBytes},
                {SectionKind::kWorkspace, kNone, 2 * tensorBytes},
                {SectionKind::kSram, kNone, 2 * slotBytes}};
  p.constants = {constantBlob(2, 0, layers * weightBytes, 9)};
  p.kernels = {{"relu", {1, 1, 1, 1}, 1, 1, 2, 0, 0}};
  p.images = {image(CpuVariant::kX86_64_v3, {0}, 64)};
  p.queues = {{Engine::kMme, {}}, {Engine::kTpc, {}}};
  p.numSignals = 2;
  for (uint32_t l = 0; l < layers; ++l) {
    auto activation = [&](uint32_t layer) {  // What layer `layer` reads.
      if (layer == 0) return denseOperand(0, 0, ElementType::kF32, {rows, width});
      if (layer == layers) return denseOperand(1, 0, ElementType::kF32, {rows, width});
      return denseOperand(3, (layer % 2) * tensorBytes, ElementType::kF32, {rows, width});
    };
    Operand ring = denseOperand(4, 0, ElementType::kF32, {rows, width});
    ring.ring = {2, 0, slotBytes};
    Op gemm, relu;
    gemm.engine = Engine::kMme;
    gemm.name = "gemm" + std::to_string(l);
    relu.name = "relu" + std::to_string(l);
    gemm.space = relu.space = {rows, width};
    gemm.mme.a = activation(l);
    gemm.mme.b = denseOperand(2, l * weightBytes, ElementType::kF32, {width, width});
    gemm.mme.c = ring;
    relu.engine = Engine::kTpc;
    relu.tpc.kernel = 0;
    relu.tpc.inputs = {ring};
    relu.tpc.outputs = {activation(l + 1)};
    p.ops.push_back(gemm);
    p.ops.push_back(relu);
    p.bundles.push_back({"layer" + std::to_string(l), {2 * l, 2 * l + 1}, slices});
    p.hostOrder.push_back(2 * l);
    p.hostOrder.push_back(2 * l + 1);
    for (uint32_t s = 0; s < slices; ++s) {
      uint32_t done = l * slices + s;  // Slices of either op before this one.
      std::vector<int64_t> lo = {s * 8, 0}, hi = {s * 8 + 8, width};
      // A layer starts when the one before has ended; later a slot is free when the relu two slices
      // before is done.
      std::vector<Wait> waits;
      if (s == 0 && l > 0) waits = {{1, done}};
      if (s >= 2) waits = {{1, done - 1}};
      Command mme = command(2 * l, lo, hi, waits, 0);
      Command tpc = command(2 * l + 1, lo, hi, {{0, done + 1}}, 1);
      mme.bundle = tpc.bundle = l;
      mme.slice = tpc.slice = s;
      p.queues[0].commands.push_back(mme);
      p.queues[1].commands.push_back(tpc);
    }
  }
  return p;
}

bool samePrograms(const Program& a, const Program& b) {
  auto sameBytes = [](const auto& x, const auto& y) {
    return x.bytes == y.bytes && std::memcmp(x.data, y.data, x.bytes) == 0;
  };
  auto sameOperand = [](const Operand& x, const Operand& y) {
    return x.section == y.section && x.offset == y.offset && x.type == y.type && x.sizes == y.sizes &&
           x.strides == y.strides && x.ring == y.ring;
  };
  auto sameList = [](const auto& x, const auto& y, auto&& same) {
    if (x.size() != y.size()) return false;
    for (size_t i = 0; i < x.size(); ++i) {
      if (!same(x[i], y[i])) return false;
    }
    return true;
  };
  auto sameInfo = [](const TensorInfo& x, const TensorInfo& y) { return x.name == y.name && x.type == y.type; };
  auto sameOp = [&](const Op& x, const Op& y) {
    if (x.engine != y.engine || x.name != y.name || x.provenance != y.provenance || x.space != y.space) {
      return false;
    }
    if (x.engine == Engine::kDma) {
      return x.dma.fill == y.dma.fill && sameOperand(x.dma.dst, y.dma.dst) &&
             (x.dma.fill ? x.dma.fillPattern == y.dma.fillPattern : sameOperand(x.dma.src, y.dma.src));
    }
    if (x.engine == Engine::kTpc) {
      return x.tpc.kernel == y.tpc.kernel && sameList(x.tpc.inputs, y.tpc.inputs, sameOperand) &&
             sameList(x.tpc.outputs, y.tpc.outputs, sameOperand);
    }
    auto pair = [](const int64_t (&u)[2], const int64_t (&v)[2]) { return u[0] == v[0] && u[1] == v[1]; };
    return x.mme.kind == y.mme.kind && x.mme.packing == y.mme.packing && sameOperand(x.mme.a, y.mme.a) &&
           sameOperand(x.mme.b, y.mme.b) && sameOperand(x.mme.c, y.mme.c) && pair(x.mme.strides, y.mme.strides) &&
           pair(x.mme.dilations, y.mme.dilations) && pair(x.mme.padBegin, y.mme.padBegin) &&
           pair(x.mme.padEnd, y.mme.padEnd) && x.mme.groups == y.mme.groups &&
           x.mme.packingFactor == y.mme.packingFactor;
  };
  auto sameCommand = [&](const Command& x, const Command& y) {
    return x.op == y.op && x.bundle == y.bundle && x.slice == y.slice && x.lo == y.lo && x.hi == y.hi &&
           x.signal == y.signal && sameList(x.waits, y.waits, [](const Wait& u, const Wait& v) {
             return u.signal == v.signal && u.value == v.value;
           });
  };
  return a.name == b.name && a.producer == b.producer && a.target == b.target &&
         sameList(a.inputs, b.inputs, sameInfo) && sameList(a.outputs, b.outputs, sameInfo) &&
         sameList(a.sections, b.sections,
                  [](const Section& x, const Section& y) {
                    return x.kind == y.kind && x.binding == y.binding && x.bytes == y.bytes;
                  }) &&
         sameList(a.constants, b.constants,
                  [&](const ConstantBlob& x, const ConstantBlob& y) {
                    return x.section == y.section && x.offset == y.offset && sameBytes(x, y);
                  }) &&
         sameList(a.kernels, b.kernels,
                  [](const Kernel& x, const Kernel& y) {
                    return x.name == y.name && x.cost.loads == y.cost.loads && x.cost.stores == y.cost.stores &&
                           x.cost.vectorOps == y.cost.vectorOps && x.cost.scalarOps == y.cost.scalarOps &&
                           x.numInputs == y.numInputs && x.numOutputs == y.numOutputs && x.rank == y.rank &&
                           x.wholeDims == y.wholeDims && x.scratchBytes == y.scratchBytes;
                  }) &&
         sameList(a.images, b.images,
                  [&](const KernelImage& x, const KernelImage& y) {
                    return x.cpu == y.cpu && x.entries == y.entries && sameBytes(x, y);
                  }) &&
         sameList(a.ops, b.ops, sameOp) &&
         sameList(a.bundles, b.bundles,
                  [](const Bundle& x, const Bundle& y) {
                    return x.name == y.name && x.ops == y.ops && x.slices == y.slices;
                  }) &&
         a.hostOrder == b.hostOrder &&
         sameList(a.queues, b.queues,
                  [&](const Queue& x, const Queue& y) {
                    return x.engine == y.engine && sameList(x.commands, y.commands, sameCommand);
                  }) &&
         a.numSignals == b.numSignals &&
         sameList(a.sourceNodes, b.sourceNodes,
                  [](const SourceNode& x, const SourceNode& y) { return x.name == y.name && x.op == y.op; }) &&
         a.estimates.deviceTimeUs == b.estimates.deviceTimeUs && a.estimates.lowerBoundUs == b.estimates.lowerBoundUs &&
         a.estimates.largestLiveSetBytes == b.estimates.largestLiveSetBytes &&
         a.estimates.sramPeakBytes == b.estimates.sramPeakBytes && a.ir == b.ir;
}

}  // namespace hpu::recipe::testing
