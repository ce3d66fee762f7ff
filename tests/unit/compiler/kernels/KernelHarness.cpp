// SPDX-License-Identifier: Apache-2.0
#include "KernelHarness.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>

#include "base/CpuFeatures.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/interp/Interpreter.h"
#include "gtest/gtest.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

namespace hpu::kernels::test {
namespace {

float fromHalf(uint16_t bits) {
  _Float16 value;
  std::memcpy(&value, &bits, 2);
  return static_cast<float>(value);
}
uint16_t toHalf(double value) {
  auto half = static_cast<_Float16>(value);
  uint16_t bits;
  std::memcpy(&bits, &half, 2);
  return bits;
}
float fromBf16(uint16_t bits) {
  uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}
uint16_t toBf16(double value) {
  auto narrow = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &narrow, 4);
  if (std::isnan(narrow)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <typename T>
double readAs(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(value);
}
template <typename T>
T narrowed(double value) {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_integral_v<T>) {
    if (std::isnan(value)) return 0;
    if (value <= static_cast<double>(Limits::min())) return Limits::min();
    if (value >= static_cast<double>(Limits::max())) return Limits::max();
  }
  return static_cast<T>(value);
}
template <typename T>
void writeAs(void* at, double value) {
  T narrow = narrowed<T>(value);
  std::memcpy(at, &narrow, sizeof narrow);
}

}  // namespace

/// Memory whose last byte is followed by an unreadable page, and whose first one is preceded by
/// one.
struct Tensor::Mapping {
  explicit Mapping(size_t bytes) {
    size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    usable = (bytes + page - 1) / page * page;
    total = usable + 2 * page;
    base = static_cast<uint8_t*>(mmap(nullptr, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base + page, usable, PROT_READ | PROT_WRITE);
    start = base + page + usable - bytes;
  }
  ~Mapping() { munmap(base, total); }
  uint8_t *base = nullptr, *start = nullptr;
  size_t usable = 0, total = 0;
};

Tensor::Tensor(ElementType elementType, Index sizesIn, Index stridesIn)
    : type(elementType), sizes(std::move(sizesIn)), strides(std::move(stridesIn)) {
  int64_t low = 0, high = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    int64_t reach = strides[d] * (sizes[d] - 1);
    (reach < 0 ? low : high) += reach;
  }
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) low = 0, high = -1;  // No element may be touched.
  int64_t element = elementSize(type);
  bytes_ = (high - low + 1) * element;
  mapping_ = std::make_shared<Mapping>(bytes_);
  origin_ = mapping_->start - low * element;
  std::memset(mapping_->start, 0x5a, bytes_);
}

Tensor Tensor::dense(ElementType type, Index sizes, Index order, int64_t gap) {
  if (order.empty())
    for (size_t d = 0; d < sizes.size(); ++d) order.push_back(static_cast<int64_t>(d));
  Index strides(sizes.size(), 1);
  int64_t stride = 1 + gap;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = stride;
    stride *= sizes[order[i]];
    stride += gap;
  }
  return {type, std::move(sizes), std::move(strides)};
}

Tensor Tensor::scalar(ElementType type, double value) {
  Tensor tensor(type, {}, {});
  tensor.set({}, value);
  return tensor;
}

Tensor Tensor::clone() const {
  Tensor copy(type, sizes, strides);
  std::memcpy(copy.mapping_->start, mapping_->start, bytes_);
  return copy;
}

void* Tensor::origin() const {
  return origin_;
}
std::vector<uint8_t> Tensor::contents() const {
  return {mapping_->start, mapping_->start + bytes_};
}

double Tensor::at(const Index& index) const {
  int64_t offset = 0;
  for (size_t d = 0; d < sizes.size(); ++d) offset += strides[d] * index[d];
  const uint8_t* at = origin_ + offset * elementSize(type);
  switch (type) {
    case ElementType::kF32:
      return readAs<float>(at);
    case ElementType::kF16:
      return fromHalf(static_cast<uint16_t>(readAs<uint16_t>(at)));
    case ElementType::kBF16:
      return fromBf16(static_cast<uint16_t>(readAs<uint16_t>(at)));
    case ElementType::kI8:
      return readAs<int8_t>(at);
    case ElementType::kU8:
      return readAs<uint8_t>(at);
    case ElementType::kI16:
      return readAs<int16_t>(at);
    case ElementType::kU16:
      return readAs<uint16_t>(at);
    case ElementType::kI32:
      return readAs<int32_t>(at);
    case ElementType::kU32:
      return readAs<uint32_t>(at);
    case ElementType::kI64:
      return readAs<int64_t>(at);
    case ElementType::kU64:
      return readAs<uint64_t>(at);
    case ElementType::kF64:
      return readAs<double>(at);
    case ElementType::kBool:
    case ElementType::kF8E4M3:
    case ElementType::kF8E4M3Ieee:
    case ElementType::kF8E5M2:  // The codes themselves.
      return readAs<uint8_t>(at);
    default:
      ADD_FAILURE() << "element type";
      return 0;
  }
}

void Tensor::set(const Index& index, double value) {
  int64_t offset = 0;
  for (size_t d = 0; d < sizes.size(); ++d) offset += strides[d] * index[d];
  uint8_t* at = origin_ + offset * elementSize(type);
  switch (type) {
    case ElementType::kF32:
      writeAs<float>(at, value);
      break;
    case ElementType::kF16: {
      uint16_t bits = toHalf(value);
      std::memcpy(at, &bits, 2);
      break;
    }
    case ElementType::kBF16: {
      uint16_t bits = toBf16(value);
      std::memcpy(at, &bits, 2);
      break;
    }
    case ElementType::kI8:
      writeAs<int8_t>(at, value);
      break;
    case ElementType::kU8:
    case ElementType::kF8E4M3:
    case ElementType::kF8E4M3Ieee:
    case ElementType::kF8E5M2:  // The codes themselves.
      writeAs<uint8_t>(at, value);
      break;
    case ElementType::kI16:
      writeAs<int16_t>(at, value);
      break;
    case ElementType::kU16:
      writeAs<uint16_t>(at, value);
      break;
    case ElementType::kI32:
      writeAs<int32_t>(at, value);
      break;
    case ElementType::kU32:
      writeAs<uint32_t>(at, value);
      break;
    case ElementType::kI64:
      writeAs<int64_t>(at, value);
      break;
    case ElementType::kU64:
      writeAs<uint64_t>(at, value);
      break;
    case ElementType::kF64:
      writeAs<double>(at, value);
      break;
    case ElementType::kBool:
      writeAs<uint8_t>(at, value);
      break;
    default:
      ADD_FAILURE() << "element type";
  }
}

void Tensor::fill(const std::function<double(const Index&)>& value) {
  forEach(sizes, [&](const Index& index) { set(index, value(index)); });
}

Tensor& Tensor::random(uint64_t seed, double low, double high) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> distribution(low, high);
  fill([&](const Index&) {
    double value = distribution(engine);
    if (type == ElementType::kBool) return value > (low + high) / 2 ? 1.0 : 0.0;
    bool isFloat = type == ElementType::kF32 || type == ElementType::kF16 || type == ElementType::kBF16;
    return isFloat ? value : std::floor(value);
  });
  return *this;
}

void forEach(const Index& lo, const Index& hi, const std::function<void(const Index&)>& body) {
  for (size_t d = 0; d < lo.size(); ++d)
    if (lo[d] >= hi[d]) return;
  Index index(lo);
  while (true) {
    body(index);
    size_t d = index.size();
    while (d > 0 && ++index[d - 1] == hi[d - 1]) {
      index[d - 1] = lo[d - 1];
      --d;
    }
    if (d == 0) return;
  }
}

std::string typeText(const Tensor& tensor) {
  std::string text = "tensor<";
  for (int64_t size : tensor.sizes) text += std::to_string(size) + "x";
  switch (tensor.type) {
    case ElementType::kBool:
      return text + "i1>";
    case ElementType::kU8:
      return text + "ui8>";
    case ElementType::kU16:
      return text + "ui16>";
    case ElementType::kU32:
      return text + "ui32>";
    case ElementType::kU64:
      return text + "ui64>";
    case ElementType::kF8E4M3:
      return text + "f8E4M3FN>";
    case ElementType::kF8E4M3Ieee:
      return text + "f8E4M3>";
    case ElementType::kF8E5M2:
      return text + "f8E5M2>";
    default:
      return text + std::string(elementTypeName(tensor.type)) + ">";
  }
}

// ---- Parsing
// ------------------------------------------------------------------------------------------

struct ParsedCluster::State {
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::Block* block = nullptr;
  std::vector<OperandView> inputs, outputs;
};

static OperandView viewOf(const Tensor& tensor) {
  OperandView view;
  view.type = tensor.type;
  view.sizes.assign(tensor.sizes.begin(), tensor.sizes.end());
  view.strides.assign(tensor.strides.begin(), tensor.strides.end());
  return view;
}

static void replaceAll(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

ParsedCluster::ParsedCluster(const std::string& bodyText, const std::vector<Tensor>& inputs,
                             const std::vector<Tensor>& outputs)
    : state_(std::make_unique<State>()) {
  std::string body = bodyText, parameters, pairs, types, results;
  for (size_t i = outputs.size(); i-- > 0;) replaceAll(body, "$out" + std::to_string(i), typeText(outputs[i]));
  for (size_t i = inputs.size(); i-- > 0;) replaceAll(body, "$" + std::to_string(i), typeText(inputs[i]));
  for (size_t i = inputs.size(); i-- > 0;) replaceAll(body, "%" + std::to_string(i), "%in" + std::to_string(i));
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string number = std::to_string(i), comma = i ? ", " : "";
    parameters += comma + "%x" + number + ": " + typeText(inputs[i]);
    pairs += comma + "%in" + number + " = %x" + number;
    types += comma + typeText(inputs[i]);
    state_->inputs.push_back(viewOf(inputs[i]));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    results += (i ? ", " : "") + typeText(outputs[i]);
    state_->outputs.push_back(viewOf(outputs[i]));
  }
  std::string text = "func.func @f(" + parameters + ") -> (" + results + ") {\n  %r:" + std::to_string(outputs.size()) +
                     " = hpu.cluster (" + pairs + ") : (" + types + ") -> (" + results + ") {\n" + body +
                     "\n  }\n  return ";
  for (size_t i = 0; i < outputs.size(); ++i) text += (i ? ", %r#" : "%r#") + std::to_string(i);
  text += " : " + results + "\n}\n";
  state_->context.loadDialect<ir::HpuDialect, mlir::func::FuncDialect>();
  state_->module = mlir::parseSourceString<mlir::ModuleOp>(text, &state_->context);
  EXPECT_TRUE(state_->module) << text;
  if (state_->module) state_->module->walk([&](ir::ClusterOp cluster) { state_->block = &cluster.getBody().front(); });
}
ParsedCluster::~ParsedCluster() = default;
mlir::Block* ParsedCluster::block() const {
  return state_->block;
}
std::vector<mlir::Operation*> ParsedCluster::ops() const {
  std::vector<mlir::Operation*> ops;
  for (mlir::Operation& op : state_->block->without_terminator()) ops.push_back(&op);
  return ops;
}
KernelRequest ParsedCluster::request(const std::string& name) const {
  KernelRequest request;
  request.name = name;
  request.body = state_->block;
  request.inputs.assign(state_->inputs.begin(), state_->inputs.end());
  request.outputs.assign(state_->outputs.begin(), state_->outputs.end());
  return request;
}

// ---- Running
// ------------------------------------------------------------------------------------------

struct Kernel::State {
  State(const std::string& body, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs)
      : cluster(body, inputs, outputs) {}
  ~State() {
    for (auto [base, bytes] : maps) munmap(base, bytes);
  }
  ParsedCluster cluster;
  KernelSet set;
  std::vector<std::pair<void*, size_t>> maps;
};

Kernel::Kernel(std::string body, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
               const KernelOptions& options, const std::function<void(KernelRequest&)>& adjust)
    : state_(std::make_unique<State>(body, inputs, outputs)) {
  if (!state_->cluster.block()) {
    status_ = invalidArgument("the test's text does not parse");
    return;
  }
  KernelRequest request = state_->cluster.request("test");
  if (adjust) adjust(request);
  StatusOr<KernelSet> set = compileKernels({request}, options);
  status_ = set.status();
  if (!set.ok()) return;
  state_->set = std::move(*set);
  info_ = state_->set.kernels[0];
  for (const recipe::KernelImage& image : state_->set.images) {
    void* base = mmap(nullptr, image.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memcpy(base, image.data, image.bytes);
    mprotect(base, image.bytes, PROT_READ | PROT_EXEC);
    state_->maps.emplace_back(base, image.bytes);
  }
}
Kernel::~Kernel() = default;
Kernel::Kernel(Kernel&&) noexcept = default;

int Kernel::variants() const {
  return base::detectCpuLevel() >= base::CpuLevel::kV4 ? 2 : 1;
}
size_t Kernel::imageBytes(int variant) const {
  return state_->set.images[variant].bytes;
}
std::string Kernel::ir() const {
  StatusOr<std::string> text = kernelIr(state_->cluster.request("test"), recipe::CpuVariant::kX86_64_v4);
  return text.ok() ? *text : text.status().toString();
}

void Kernel::run(int variant, const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs, const Index& lo,
                 const Index& hi, const std::vector<int64_t>& dims) const {
  std::vector<void*> buffers;
  for (const Tensor& tensor : inputs) buffers.push_back(tensor.origin());
  for (const Tensor& tensor : outputs) buffers.push_back(tensor.origin());
  std::vector<uint8_t> scratch(info_.scratchBytes + 64);
  void* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64);
  HpuKernelArgs args{buffers.data(), lo.data(), hi.data(), dims.empty() ? nullptr : dims.data(),
                     info_.scratchBytes ? aligned : nullptr};
  auto* code = static_cast<uint8_t*>(state_->maps[variant].first) + state_->set.images[variant].entries[0];
  reinterpret_cast<HpuKernelFn>(code)(&args);
}

void check(const std::string& body, std::vector<Tensor> inputs, std::vector<Tensor> outputs,
           const std::function<double(int, const Index&)>& expected, Tolerance tolerance,
           const KernelOptions& options) {
  Kernel kernel(body, inputs, outputs, options);
  ASSERT_TRUE(kernel.status().ok()) << kernel.status().toString() << "\n" << body;
  std::vector<std::vector<uint8_t>> before;
  for (const Tensor& input : inputs) before.push_back(input.contents());
  // What the outputs' types make of the expected values, in index order.
  std::vector<std::vector<double>> wantedOf(outputs.size());
  for (size_t k = 0; k < outputs.size(); ++k) {
    Tensor rounded = Tensor::scalar(outputs[k].type, 0);
    forEach(outputs[k].sizes, [&](const Index& index) {
      rounded.set({}, expected(static_cast<int>(k), index));
      wantedOf[k].push_back(rounded.at({}));
    });
  }
  const Index& space = outputs[0].sizes;
  uint32_t whole = kernel.info().wholeDims;
  for (int variant = 0; variant < kernel.variants(); ++variant) {
    std::mt19937 engine(7);
    for (int slice = 0; slice < 4; ++slice) {
      Index lo(space.size(), 0), hi(space);
      for (size_t d = 0; d < space.size() && slice > 0; ++d) {
        if (whole >> d & 1 || space[d] < 2 || (slice == 1 && d > 0)) continue;
        int64_t a = std::uniform_int_distribution<int64_t>(0, space[d] - 1)(engine);
        int64_t b = std::uniform_int_distribution<int64_t>(0, space[d] - 1)(engine);
        lo[d] = std::min(a, b);
        hi[d] = std::max(a, b) + 1;
      }
      std::vector<Tensor> results, untouched;
      for (const Tensor& output : outputs) {
        results.push_back(output.clone());
        untouched.push_back(output.clone());
      }
      kernel.run(variant, inputs, results, lo, hi);
      for (size_t k = 0; k < outputs.size(); ++k) {
        int failures = 0;
        size_t position = 0;
        forEach(results[k].sizes, [&](const Index& index) {
          bool inside = true;
          for (size_t d = 0; d < index.size(); ++d)
            inside &= results[k].sizes[d] == 1 || (index[d] >= lo[d] && index[d] < hi[d]);
          double actual = results[k].at(index);
          double inSlice = wantedOf[k][position++], wanted = inside ? inSlice : untouched[k].at(index);
          bool same =
              actual == wanted || (std::isnan(actual) && std::isnan(wanted)) ||
              (inside && std::abs(actual - wanted) <= tolerance.absolute + tolerance.relative * std::abs(wanted));
          if (same || ++failures > 3) return;
          ADD_FAILURE() << "variant " << variant << " slice " << slice << " output " << k << " at "
                        << shapeToString(index) << (inside ? "" : " (outside the slice)") << ": got " << actual
                        << ", want " << wanted << "\n"
                        << body;
        });
        if (failures) return;
      }
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) EXPECT_EQ(inputs[i].contents(), before[i]) << "input " << i << " changed";
}

void checkBoth(const std::string& body, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
               const std::function<double(int, const Index&)>& expected, Tolerance tolerance) {
  check(body, inputs, outputs, expected, tolerance);
  ParsedCluster cluster(body, inputs, outputs);
  ASSERT_TRUE(cluster.block());
  llvm::DenseMap<mlir::Value, interp::Tensor> values;
  for (size_t i = 0; i < inputs.size(); ++i)
    values[cluster.block()->getArgument(static_cast<unsigned>(i))] =
        interp::Tensor::copyOf({inputs[i].type, inputs[i].sizes}, inputs[i].contents().data());
  mlir::Operation* yield = cluster.block()->getTerminator();
  ASSERT_TRUE(mlir::succeeded(interp::evaluateRange(cluster.block()->begin(), yield->getIterator(), values))) << body;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const interp::Tensor result = values[yield->getOperand(static_cast<unsigned>(k))];
    ASSERT_EQ(result.shape(), outputs[k].sizes) << body;
    Tensor rounded = Tensor::scalar(outputs[k].type, 0);
    int failures = 0;
    int64_t position = 0;
    forEach(outputs[k].sizes, [&](const Index& index) {
      rounded.set({}, expected(static_cast<int>(k), index));
      double actual = result.number(position++), wanted = rounded.at({});
      bool same = actual == wanted || (std::isnan(actual) && std::isnan(wanted)) ||
                  std::abs(actual - wanted) <= tolerance.absolute + tolerance.relative * std::abs(wanted);
      if (same || ++failures > 3) return;
      ADD_FAILURE() << "interpreter, output " << k << " at " << shapeToString(index) << ": got " << actual << ", want "
                    << wanted << "\n"
                    << body;
    });
  }
}

}  // namespace hpu::kernels::test
