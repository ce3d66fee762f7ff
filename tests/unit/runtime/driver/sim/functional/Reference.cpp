// SPDX-License-Identifier: Apache-2.0
#include "Reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "recipe/PackedWeights.h"

namespace hpu::sim::testing {

using recipe::MmeDesc;
using recipe::MmeKind;
using recipe::Operand;

namespace {

/// The value of an fp8 code, by the formula of its format.
float valueOfFp8(ElementType type, uint8_t code) {
  const bool e5 = type == ElementType::kF8E5M2;
  const int mantissaBits = e5 ? 2 : 3, bias = e5 ? 15 : 7;
  const int exponent = (code & 0x7f) >> mantissaBits, mantissa = code & ((1 << mantissaBits) - 1);
  const double fraction = mantissa / static_cast<double>(1 << mantissaBits);
  const double value = exponent ? std::ldexp(1 + fraction, exponent - bias) : std::ldexp(fraction, 1 - bias);
  return static_cast<float>(code & 0x80 ? -value : value);
}

bool isFp8(ElementType type) {
  return type == ElementType::kF8E4M3 || type == ElementType::kF8E4M3Ieee || type == ElementType::kF8E5M2;
}

}  // namespace

float readElement(const std::byte* data, ElementType type, int64_t index) {
  if (isFp8(type)) return valueOfFp8(type, static_cast<uint8_t>(data[index]));
  if (type == ElementType::kF16) {
    _Float16 half16;
    std::memcpy(&half16, data + 2 * index, 2);
    return static_cast<float>(half16);
  }
  if (type == ElementType::kF32) {
    float value;
    std::memcpy(&value, data + 4 * index, 4);
    return value;
  }
  uint16_t half;
  std::memcpy(&half, data + 2 * index, 2);
  uint32_t bits = static_cast<uint32_t>(half) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

void writeElement(std::byte* data, ElementType type, int64_t index, float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if (type == ElementType::kF32) {
    std::memcpy(data + 4 * index, &bits, 4);
    return;
  }
  if (isFp8(type)) {
    // Small integers are exact in every format: their code is searched for.
    for (int code = 0; code < 256; ++code)
      if (valueOfFp8(type, static_cast<uint8_t>(code)) == value) data[index] = static_cast<std::byte>(code);
    return;
  }
  if (type == ElementType::kF16) {
    auto half16 = static_cast<_Float16>(value);
    std::memcpy(data + 2 * index, &half16, 2);
    return;
  }
  // Nearest even by comparing with the two neighbours.
  uint32_t down = bits & 0xffff0000u, up = down + 0x10000u;
  uint32_t rest = bits - down;
  bool roundUp = rest > 0x8000u || (rest == 0x8000u && (down >> 16 & 1u));
  auto half = static_cast<uint16_t>((roundUp ? up : down) >> 16);
  std::memcpy(data + 2 * index, &half, 2);
}

int64_t elementIndex(const Operand& operand, const std::vector<int64_t>& index) {
  int64_t element = 0;
  for (size_t d = 0; d < index.size(); ++d) element += index[d] * operand.strides[d];
  return element;
}

TestProgram::TestProgram() {
  program.sections.push_back({recipe::SectionKind::kSram, recipe::kNone, 0});
  memory.emplace_back();
}

Operand TestProgram::tensor(ElementType type, const std::vector<int64_t>& sizes, std::vector<int> order, int64_t gap) {
  if (order.empty()) {
    order.resize(sizes.size());
    std::iota(order.begin(), order.end(), 0);
  }
  Operand operand;
  operand.type = type;
  operand.sizes = sizes;
  operand.strides.resize(sizes.size());
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    auto d = static_cast<size_t>(order[i]);
    operand.strides[d] = stride;
    stride = stride * sizes[d] + (i + 1 == order.size() ? gap : 0);
  }
  operand.section = static_cast<uint32_t>(program.sections.size());
  operand.offset = 256;
  auto bytes = static_cast<uint64_t>(stride * elementSize(type)) + 512;
  program.sections.push_back({recipe::SectionKind::kWorkspace, recipe::kNone, bytes});
  memory.emplace_back(bytes, std::byte{0x7b});
  return operand;
}

Operand TestProgram::ring(ElementType type, const std::vector<int64_t>& sizes, uint32_t dim, int64_t tile,
                          uint32_t slots, std::vector<int> order) {
  std::vector<int64_t> slotSizes = sizes;
  slotSizes[dim] = tile;
  Operand slot = tensor(type, slotSizes, std::move(order));
  program.sections.pop_back();
  memory.pop_back();
  Operand operand = slot;
  operand.section = 0;
  operand.sizes = sizes;
  operand.offset = program.sections[0].bytes;
  operand.ring.slots = slots;
  operand.ring.dim = dim;
  operand.ring.slotBytes = static_cast<uint64_t>((numElements(slotSizes) * elementSize(type) + 255) / 256 * 256);
  program.sections[0].bytes += operand.ring.slotBytes * slots;
  return operand;
}

Operand TestProgram::packed(const MmeDesc& mme, const Operand& strided) {
  recipe::PackedShape shape;
  std::vector<int64_t> tapOffsets;
  int64_t kStride = 0, nStride = 0;
  const std::vector<int64_t>&s = strided.sizes, &st = strided.strides;
  size_t rank = s.size();
  if (mme.kind == MmeKind::kGemm) {
    shape.k = s[rank - 2];
    shape.n = s[rank - 1];
    kStride = st[rank - 2];
    nStride = st[rank - 1];
    forEachPoint(std::vector<int64_t>(s.begin(), s.end() - 2),
                 [&](const std::vector<int64_t>& i) { tapOffsets.push_back(elementIndex(strided, i)); });
  } else {
    bool transposed = mme.kind == MmeKind::kConvTranspose2d;
    shape.k = transposed ? s[0] / mme.groups : s[1];
    shape.n = transposed ? s[1] : s[0] / mme.groups;
    kStride = st[transposed ? 0 : 1];
    nStride = st[transposed ? 1 : 0];
    for (int64_t g = 0; g < mme.groups; ++g)
      for (int64_t y = 0; y < s[2]; ++y)
        for (int64_t x = 0; x < s[3]; ++x) tapOffsets.push_back(g * s[0] / mme.groups * st[0] + y * st[2] + x * st[3]);
  }
  shape.taps = static_cast<int64_t>(tapOffsets.size());
  Operand result = tensor(strided.type, {shape.elements()});
  recipe::PackedShape one{1, shape.k, shape.n};
  const int64_t size = elementSize(strided.type);
  for (size_t t = 0; t < tapOffsets.size(); ++t) {
    Status status = recipe::packWeights(one, strided.type, at(strided) + tapOffsets[t] * size, 0, kStride, nStride,
                                        at(result) + one.elements() * size * static_cast<int64_t>(t));
    EXPECT_TRUE(status.ok()) << status.message();
  }
  if (packedIsConstant)
    program.constants.push_back({result.section, result.offset, reinterpret_cast<const uint8_t*>(at(result)),
                                 static_cast<uint64_t>(shape.elements() * size), nullptr});
  result.sizes = strided.sizes;
  result.strides.clear();
  return result;
}

void TestProgram::fillRandom(const Operand& operand, Random& random, int64_t lo, int64_t hi) {
  forEachPoint(operand.sizes, [&](const std::vector<int64_t>& index) {
    writeElement(at(operand), operand.type, elementIndex(operand, index), static_cast<float>(pick(random, lo, hi)));
  });
}

std::byte* TestProgram::at(const Operand& operand) {
  return memory[operand.section].data() + operand.offset;
}

float TestProgram::get(const Operand& operand, const std::vector<int64_t>& index) {
  return readElement(at(operand), operand.type, elementIndex(operand, index));
}

uint32_t TestProgram::addMme(const MmeDesc& mme, const std::string& name) {
  recipe::Op op;
  op.engine = Engine::kMme;
  op.name = name;
  op.space = mme.c.sizes;
  op.mme = mme;
  program.ops.push_back(op);
  program.hostOrder.push_back(static_cast<uint32_t>(program.ops.size() - 1));
  return program.hostOrder.back();
}

uint32_t TestProgram::addKernel(HpuKernelFn function, uint32_t inputs, uint32_t outputs, uint32_t rank,
                                uint32_t wholeDims, uint64_t scratchBytes) {
  recipe::Kernel kernel;
  kernel.name = "test kernel";
  kernel.numInputs = inputs;
  kernel.numOutputs = outputs;
  kernel.rank = rank;
  kernel.wholeDims = wholeDims;
  kernel.scratchBytes = scratchBytes;
  program.kernels.push_back(kernel);
  functions_.push_back(function);
  return static_cast<uint32_t>(functions_.size() - 1);
}

uint32_t TestProgram::addTpc(uint32_t kernel, std::vector<Operand> inputs, std::vector<Operand> outputs) {
  recipe::Op op;
  op.engine = Engine::kTpc;
  op.name = "tpc";
  op.space = outputs[0].sizes;
  op.tpc = {kernel, std::move(inputs), std::move(outputs)};
  program.ops.push_back(op);
  program.hostOrder.push_back(static_cast<uint32_t>(program.ops.size() - 1));
  return program.hostOrder.back();
}

uint32_t TestProgram::addDma(const recipe::DmaDesc& dma) {
  recipe::Op op;
  op.engine = Engine::kDma;
  op.name = "dma";
  op.space = dma.dst.sizes;
  op.dma = dma;
  program.ops.push_back(op);
  program.hostOrder.push_back(static_cast<uint32_t>(program.ops.size() - 1));
  return program.hostOrder.back();
}

void TestProgram::addBundle(std::vector<uint32_t> ops) {
  program.bundles.push_back({"bundle", std::move(ops), 1});
}

void TestProgram::addSlices(uint32_t bundle, uint32_t op, uint32_t dim, int64_t tile) {
  recipe::Queue queue;
  queue.engine = program.ops[op].engine;
  const std::vector<int64_t>& space = program.ops[op].space;
  uint32_t slice = 0;
  for (int64_t from = 0; from < space[dim]; from += tile, ++slice) {
    recipe::Command command;
    command.op = op;
    command.bundle = bundle;
    command.slice = slice;
    command.lo.assign(space.size(), 0);
    command.hi = space;
    command.lo[dim] = from;
    command.hi[dim] = std::min(from + tile, space[dim]);
    queue.commands.push_back(command);
  }
  program.bundles[bundle].slices = slice;
  program.queues.push_back(queue);
}

StatusOr<std::unique_ptr<ProgramExecutor>> TestProgram::executor(int threads) {
  return ProgramExecutor::create(std::make_shared<recipe::Program>(program), {threads},
                                 KernelCode::fromFunctions(functions_));
}

void TestProgram::run(int threads) {
  auto made = executor(threads);
  ASSERT_TRUE(made.ok()) << made.status().message();
  std::vector<std::byte*> bases;
  for (auto& section : memory) bases.push_back(section.data());
  bases[0] = nullptr;  // SRAM is the executor's own.
  Status status = (*made)->run(bases);
  ASSERT_TRUE(status.ok()) << status.message();
}

namespace {

/// One operand as f32 values with its strides: reading through it is a load.
struct Values {
  Values(TestProgram& program, const Operand& operand) : strides(operand.strides) {
    int64_t last = 0;
    for (size_t d = 0; d < strides.size(); ++d) last += (operand.sizes[d] - 1) * strides[d];
    for (int64_t i = 0; i <= last; ++i) values.push_back(readElement(program.at(operand), operand.type, i));
  }
  double at(int64_t i, int64_t j, int64_t k, int64_t l) const {
    return values[static_cast<size_t>(i * strides[0] + j * strides[1] + k * strides[2] + l * strides[3])];
  }
  std::vector<int64_t> strides;
  std::vector<float> values;
};

/// Transposed convolution as ONNX defines it: every input point adds its window to the output.
std::vector<float> referenceTransposed(TestProgram& program, const MmeDesc& mme) {
  const Values a(program, mme.a), b(program, mme.b);
  const std::vector<int64_t>&as = mme.a.sizes, &bs = mme.b.sizes, &cs = mme.c.sizes;
  const int64_t inGroup = as[1] / mme.groups, outGroup = cs[1] / mme.groups;
  std::vector<double> sums(static_cast<size_t>(numElements(cs)));
  forEachPoint(as, [&](const std::vector<int64_t>& p) {
    const double value = a.at(p[0], p[1], p[2], p[3]);
    for (int64_t w = 0; w < outGroup; ++w)
      for (int64_t wy = 0; wy < bs[2]; ++wy)
        for (int64_t wx = 0; wx < bs[3]; ++wx) {
          int64_t channel = p[1] / inGroup * outGroup + w;
          int64_t y = p[2] * mme.strides[0] - mme.padBegin[0] + wy * mme.dilations[0];
          int64_t x = p[3] * mme.strides[1] - mme.padBegin[1] + wx * mme.dilations[1];
          if (y < 0 || y >= cs[2] || x < 0 || x >= cs[3]) continue;
          int64_t at = ((p[0] * cs[1] + channel) * cs[2] + y) * cs[3] + x;
          sums[static_cast<size_t>(at)] += value * b.at(p[1], w, wy, wx);
        }
  });
  return {sums.begin(), sums.end()};
}

std::vector<float> referenceConv(TestProgram& program, const MmeDesc& mme) {
  const Values a(program, mme.a), b(program, mme.b);
  const std::vector<int64_t>&as = mme.a.sizes, &bs = mme.b.sizes, &cs = mme.c.sizes;
  const int64_t inGroup = as[1] / mme.groups, outGroup = cs[1] / mme.groups;
  std::vector<float> result;
  forEachPoint(cs, [&](const std::vector<int64_t>& p) {
    double sum = 0;
    for (int64_t k = 0; k < inGroup; ++k)
      for (int64_t y = 0; y < bs[2]; ++y)
        for (int64_t x = 0; x < bs[3]; ++x) {
          int64_t iy = p[2] * mme.strides[0] - mme.padBegin[0] + y * mme.dilations[0];
          int64_t ix = p[3] * mme.strides[1] - mme.padBegin[1] + x * mme.dilations[1];
          if (iy < 0 || iy >= as[2] || ix < 0 || ix >= as[3]) continue;
          sum += a.at(p[0], p[1] / outGroup * inGroup + k, iy, ix) * b.at(p[1], k, y, x);
        }
    result.push_back(static_cast<float>(sum));
  });
  return result;
}

std::vector<float> referenceGemm(TestProgram& program, const MmeDesc& mme) {
  const Values a(program, mme.a), b(program, mme.b);
  const size_t m = mme.c.sizes.size() - 2, n = m + 1;
  std::vector<float> result;
  forEachPoint(mme.c.sizes, [&](const std::vector<int64_t>& p) {
    int64_t ia = p[m] * a.strides[m], ib = p[n] * b.strides[n];
    for (size_t d = 0; d < m; ++d) {
      ia += p[d] * a.strides[d];
      ib += p[d] * b.strides[d];
    }
    double sum = 0;
    for (int64_t k = 0; k < mme.a.sizes[n]; ++k, ia += a.strides[n], ib += b.strides[m])
      sum += static_cast<double>(a.values[static_cast<size_t>(ia)]) * b.values[static_cast<size_t>(ib)];
    result.push_back(static_cast<float>(sum));
  });
  return result;
}

}  // namespace

std::vector<float> referenceMme(TestProgram& program, const MmeDesc& mme) {
  if (mme.kind == MmeKind::kGemm) return referenceGemm(program, mme);
  return mme.kind == MmeKind::kConv2d ? referenceConv(program, mme) : referenceTransposed(program, mme);
}

void expectMme(TestProgram& program, const MmeDesc& mme, const std::string& what) {
  std::vector<float> expected = referenceMme(program, mme);
  MmeDesc run = mme;
  if (mme.packing == recipe::BPacking::kBlocked) run.b = program.packed(mme, mme.b);
  program.addMme(run);
  std::vector<std::byte> before = program.memory[mme.c.section];
  program.run();
  size_t i = 0, wrong = 0;
  forEachPoint(mme.c.sizes, [&](const std::vector<int64_t>& p) {
    writeElement(before.data() + mme.c.offset, mme.c.type, elementIndex(mme.c, p), expected[i]);
    float got = program.get(mme.c, p);
    float want = readElement(before.data() + mme.c.offset, mme.c.type, elementIndex(mme.c, p));
    if (got != want && ++wrong <= 3) {
      ADD_FAILURE() << what << ": element " << i << " " << shapeToString(p) << " is " << got << ", not " << want;
    }
    ++i;
  });
  EXPECT_EQ(wrong, 0u) << what;
  EXPECT_TRUE(before == program.memory[mme.c.section]) << what << ": memory beside C was written";
}

}  // namespace hpu::sim::testing
