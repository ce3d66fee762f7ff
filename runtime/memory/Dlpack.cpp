// SPDX-License-Identifier: Apache-2.0
#include "hpu/dlpack.h"

#include <limits>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "base/Format.h"
#include "base/ProgramCall.h"
#include "base/StatusMacros.h"
#include "runtime/device/DeviceState.h"
#include "runtime/memory/BufferState.h"
#include "runtime/memory/DlpackLayout.h"
#include "runtime/trace/Recorder.h"

namespace hpu {
namespace {

/// More than any framework has; a larger number is no rank but damage.
constexpr int32_t kMostDimensions = 1024;
constexpr uintptr_t kLastAddress = std::numeric_limits<intptr_t>::max();

/// What the elements of a dense tensor take. Errors: kInvalidArgument.
StatusOr<int64_t> denseBytes(ElementType type, const Shape& shape, std::string_view what) {
  if (elementSize(type) == 0) return invalidArgument(base::strCat(what, ": the element type is invalid"));
  int64_t bytes = elementSize(type);
  bool empty = false;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] < 0) return invalidArgument(base::strCat(what, ": dimension ", d, " is ", shapeToString({shape[d]})));
    empty |= shape[d] == 0;
  }
  if (empty) return 0;
  for (int64_t dimension : shape)
    if (__builtin_mul_overflow(bytes, dimension, &bytes))
      return invalidArgument(base::strCat(what, ": a tensor ", shapeToString(shape), " of ", elementTypeName(type),
                                          " has too many bytes"));
  return bytes;
}

/// The element types of DLPack 0.8; none for those that it lacks.
std::optional<dlpack::DataType> dataTypeOf(ElementType type) {
  const auto bits = static_cast<uint8_t>(8 * elementSize(type));
  switch (type) {
    case ElementType::kF16:
    case ElementType::kF32:
    case ElementType::kF64:
      return dlpack::DataType{dlpack::kFloat, bits, 1};
    case ElementType::kBF16:
      return dlpack::DataType{dlpack::kBfloat, bits, 1};
    case ElementType::kI8:
    case ElementType::kI16:
    case ElementType::kI32:
    case ElementType::kI64:
      return dlpack::DataType{dlpack::kInt, bits, 1};
    case ElementType::kU8:
    case ElementType::kU16:
    case ElementType::kU32:
    case ElementType::kU64:
      return dlpack::DataType{dlpack::kUInt, bits, 1};
    case ElementType::kBool:
      return dlpack::DataType{dlpack::kBool, bits, 1};
    default:
      return std::nullopt;
  }
}

/// Errors: kInvalidArgument (lanes), kUnimplemented.
StatusOr<ElementType> elementTypeOf(const dlpack::DataType& type) {
  if (type.lanes != 1)
    return invalidArgument(
        base::strCat("fromDlpack: elements have ", type.lanes, " lanes; a dense tensor has 1, and a dimension more"));
  for (int t = 1; elementSize(static_cast<ElementType>(t)) != 0; ++t) {
    auto element = static_cast<ElementType>(t);
    auto known = dataTypeOf(element);
    if (known && known->code == type.code && known->bits == type.bits) return element;
  }
  static constexpr std::string_view kCodes[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
  const std::string name = type.code < std::size(kCodes)
                               ? std::string(kCodes[type.code])
                               : base::strCat("type code ", static_cast<int>(type.code), ", ");
  return unimplemented(base::strCat("fromDlpack: OpenHPU has no element type ", name, static_cast<int>(type.bits),
                                    "; convert the tensor first"));
}

std::string placeName(int32_t type) {
  static constexpr std::string_view kNames[] = {"",
                                                "CPU",
                                                "CUDA",
                                                "CUDA host memory",
                                                "OpenCL",
                                                "",
                                                "",
                                                "Vulkan",
                                                "Metal",
                                                "VPI",
                                                "ROCm",
                                                "ROCm host memory",
                                                "another extension's device",
                                                "CUDA managed memory",
                                                "oneAPI",
                                                "WebGPU",
                                                "Hexagon"};
  const auto index = static_cast<size_t>(type);
  if (type > 0 && index < std::size(kNames) && !kNames[index].empty()) return std::string(kNames[index]);
  return base::strCat("device type ", type);
}

using Strides = std::vector<int64_t>;

/// The first dimension whose stride is not row-major order's, and that; of dimensions of one element any will do.
std::optional<std::pair<size_t, int64_t>> notRowMajor(const Strides& strides, const Shape& shape) {
  int64_t expected = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] != 1 && strides[d] != expected) return std::pair(d, expected);
    expected *= shape[d];  // The size was found not to overflow.
  }
  return std::nullopt;
}

Status checkRowMajor(const Strides& strides, const Shape& shape) {
  const auto other = notRowMajor(strides, shape);
  if (!other) return okStatus();
  return invalidArgument(base::strCat("fromDlpack: dimension ", other->first, " of ", shapeToString(shape),
                                      " has stride ", strides[other->first], ", and row-major order needs ",
                                      other->second, "; make the tensor contiguous first"));
}

/// All bytes from the first to the last element, either way, are in the address space.
Status checkReach(const void* data, uint64_t offset, ElementType type, const Shape& shape, const Strides& strides,
                  std::string_view what) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  uint64_t begin = 0, end = 0;
  bool fits = !__builtin_add_overflow(address, offset, &begin);
  fits &= !__builtin_add_overflow(begin, static_cast<uint64_t>(elementSize(type)), &end);
  for (size_t d = 0; fits && d < shape.size(); ++d) {
    int64_t span = 0;
    fits &= !__builtin_mul_overflow(strides[d], elementSize(type), &span);
    fits &= !__builtin_mul_overflow(span, shape[d] - 1, &span);
    if (span < 0)
      fits &= !__builtin_sub_overflow(begin, -static_cast<uint64_t>(span), &begin);
    else
      fits &= !__builtin_add_overflow(end, static_cast<uint64_t>(span), &end);
  }
  if (fits && begin <= kLastAddress && end <= kLastAddress) return okStatus();
  return invalidArgument(base::strCat(what, ": the elements of a tensor ", shapeToString(shape), " with the strides ",
                                      shapeToString(strides), ", from offset ", offset,
                                      ", pass the end of the address space"));
}

bool isHost(int32_t place) {
  return place == dlpack::kCpu || place == dlpack::kCudaHost || place == dlpack::kRocmHost;
}

/// Calls a tensor's deleter unless it is told not to.
class Taken {
 public:
  explicit Taken(DLManagedTensor* tensor) : tensor_(tensor) {}
  ~Taken() {
    if (tensor_ && tensor_->deleter)
      base::callProgramOrLog("the deleter of a DLManagedTensor", [&] { tensor_->deleter(tensor_); });
  }
  Taken(Taken&& other) noexcept : tensor_(std::exchange(other.tensor_, nullptr)) {}
  Taken& operator=(Taken&&) = delete;
  const DLManagedTensor& operator*() const { return *tensor_; }
  const DLManagedTensor* operator->() const { return tensor_; }

 private:
  DLManagedTensor* tensor_;
};

/// Calls a function once, at its end.
class Release {
 public:
  explicit Release(std::function<void()> function) noexcept : function_(std::move(function)) {}
  ~Release() {
    if (function_) base::callProgramOrLog("the release function of SharedTensor::ofHost", function_);
  }
  Release(Release&& other) noexcept : function_(std::move(other.function_)) { other.function_ = nullptr; }
  Release& operator=(Release&&) = delete;

 private:
  std::function<void()> function_;
};

}  // namespace

struct SharedTensor::State {
  ElementType type = ElementType::kInvalid;
  Shape shape;
  Strides strides;  ///< Empty: row-major order.
  int64_t bytes = 0;
  void* data = nullptr;
  Buffer buffer;
  // One of them keeps host memory.
  std::optional<Taken> taken;
  std::optional<Release> release;
};

namespace {

/// What toDlpack gives out: the tensor, and what it points to.
struct Lent {
  DLManagedTensor managed;
  SharedTensor tensor;
  std::vector<int64_t> shape, strides;
};

void letGo(DLManagedTensor* tensor) {
  delete static_cast<Lent*>(tensor->context);
}

}  // namespace

SharedTensor::SharedTensor() = default;
SharedTensor::~SharedTensor() = default;

ElementType SharedTensor::type() const {
  return state_ ? state_->type : ElementType::kInvalid;
}
const Shape& SharedTensor::shape() const {
  static const auto* empty = new Shape;  // Never destroyed.
  return state_ ? state_->shape : *empty;
}
const std::vector<int64_t>& SharedTensor::strides() const {
  static const auto* empty = new Strides;  // Never destroyed.
  return state_ ? state_->strides : *empty;
}
int64_t SharedTensor::bytes() const {
  return state_ ? state_->bytes : 0;
}
bool SharedTensor::onDevice() const {
  return state_ && state_->buffer.valid();
}
void* SharedTensor::data() const {
  return state_ ? state_->data : nullptr;
}
Buffer SharedTensor::buffer() const {
  return state_ ? state_->buffer : Buffer();
}

StatusOr<SharedTensor> SharedTensor::ofHost(void* data, ElementType type, const Shape& shape,
                                            std::function<void()> release) {
  return ofHost(data, type, shape, {}, std::move(release));
}

StatusOr<SharedTensor> SharedTensor::ofHost(void* data, ElementType type, const Shape& shape,
                                            const std::vector<int64_t>& strides, std::function<void()> release) {
  Release keeper(std::move(release));
  HPU_ASSIGN(int64_t bytes, denseBytes(type, shape, "SharedTensor::ofHost"));
  if (!strides.empty() && strides.size() != shape.size())
    return invalidArgument(base::strCat("SharedTensor::ofHost: ", strides.size(), " strides were given for the ",
                                        shape.size(), " dimensions of ", shapeToString(shape)));
  if (!strides.empty() && bytes > 0)
    HPU_RETURN_IF_ERROR(checkReach(data, 0, type, shape, strides, "SharedTensor::ofHost"));
  if (!data && bytes > 0)
    return invalidArgument(base::strCat("SharedTensor::ofHost: the address is null, and ", shapeToString(shape), " of ",
                                        elementTypeName(type), " has ", bytes, " bytes"));
  SharedTensor tensor;
  tensor.state_ = std::make_shared<State>();
  tensor.state_->type = type;
  tensor.state_->shape = shape;
  if (bytes > 0 && !strides.empty() && notRowMajor(strides, shape)) tensor.state_->strides = strides;
  tensor.state_->bytes = bytes;
  tensor.state_->data = data;
  tensor.state_->release.emplace(std::move(keeper));
  return tensor;
}

StatusOr<SharedTensor> SharedTensor::ofBuffer(const Buffer& buffer, ElementType type, const Shape& shape) {
  HPU_ASSIGN(int64_t bytes, denseBytes(type, shape, "SharedTensor::ofBuffer"));
  if (!buffer.valid()) return invalidArgument("SharedTensor::ofBuffer: the buffer is empty");
  if (bytes > buffer.size())
    return outOfRange(base::strCat("SharedTensor::ofBuffer: ", shapeToString(shape), " of ", elementTypeName(type),
                                   " needs ", bytes, " bytes, and the buffer has ", buffer.size()));
  SharedTensor tensor;
  tensor.state_ = std::make_shared<State>();
  tensor.state_->type = type;
  tensor.state_->shape = shape;
  tensor.state_->bytes = bytes;
  tensor.state_->buffer = buffer;
  return tensor;
}

StatusOr<SharedTensor> fromDlpack(DLManagedTensor* given) {
  return fromDlpack(given, DlpackStrides::kRowMajor);
}

StatusOr<SharedTensor> fromDlpack(DLManagedTensor* given, DlpackStrides allowed) try {
  trace::HostScope scope("fromDlpack");
  if (!given) return invalidArgument("fromDlpack: the tensor is null");
  Taken taken(given);
  const dlpack::Tensor& tensor = taken->tensor;
  if (tensor.rank < 0 || tensor.rank > kMostDimensions)
    return invalidArgument(base::strCat("fromDlpack: the tensor has ", tensor.rank, " dimensions"));
  if (tensor.rank > 0 && !tensor.shape)
    return invalidArgument(base::strCat("fromDlpack: the tensor has ", tensor.rank, " dimensions and no shape"));
  Shape shape;
  if (tensor.rank > 0) shape.assign(tensor.shape, tensor.shape + tensor.rank);
  HPU_ASSIGN(ElementType type, elementTypeOf(tensor.type));
  HPU_ASSIGN(int64_t bytes, denseBytes(type, shape, "fromDlpack"));
  Strides strides;
  if (bytes > 0 && tensor.strides) strides.assign(tensor.strides, tensor.strides + tensor.rank);
  if (!strides.empty() && (allowed == DlpackStrides::kRowMajor || !isHost(tensor.device.type)))
    HPU_RETURN_IF_ERROR(checkRowMajor(strides, shape));
  if (!strides.empty() && !notRowMajor(strides, shape)) strides.clear();
  const bool ours = taken->deleter == letGo;
  if (!isHost(tensor.device.type) && !(tensor.device.type == dlpack::kExtDev && ours))
    return unimplemented(base::strCat("fromDlpack: the tensor is on ", placeName(tensor.device.type), " ",
                                      tensor.device.index, "; copy it to the host first"));
  if (!tensor.data && bytes > 0)
    return invalidArgument(base::strCat("fromDlpack: the tensor of ", bytes, " bytes has no data (null)"));
  const auto address = reinterpret_cast<uintptr_t>(tensor.data);
  // No program has addresses in the upper half.
  if (address > kLastAddress || tensor.byteOffset > kLastAddress - address ||
      static_cast<uint64_t>(bytes) > kLastAddress - address - tensor.byteOffset)
    return invalidArgument(base::strCat("fromDlpack: ", bytes, " bytes from offset ", tensor.byteOffset,
                                        " pass the end of the address space"));
  if (!strides.empty())
    HPU_RETURN_IF_ERROR(checkReach(tensor.data, tensor.byteOffset, type, shape, strides, "fromDlpack"));
  SharedTensor result;
  result.state_ = std::make_shared<SharedTensor::State>();
  result.state_->type = type;
  result.state_->shape = std::move(shape);
  result.state_->strides = std::move(strides);
  result.state_->bytes = bytes;
  if (isHost(tensor.device.type)) {
    result.state_->data = tensor.data ? static_cast<char*>(tensor.data) + tensor.byteOffset : nullptr;
    result.state_->taken.emplace(std::move(taken));
    return result;
  }
  // A device's memory that toDlpack lent: the buffer is known, and what is pointed to must lie in it.
  const Buffer& whole = static_cast<const Lent*>(taken->context)->tensor.buffer();
  HPU_ASSIGN(void* view, whole.hostView());
  const uintptr_t begin = reinterpret_cast<uintptr_t>(view), first = address + tensor.byteOffset;
  if (first < begin || first - begin > static_cast<uint64_t>(whole.size()) ||
      bytes > whole.size() - static_cast<int64_t>(first - begin))
    return invalidArgument(base::strCat("fromDlpack: ", bytes, " bytes do not lie in the device's buffer of ",
                                        whole.size(), " bytes that was given out (toDlpack)"));
  if (first == begin && bytes == whole.size()) {
    result.state_->buffer = whole;
  } else {
    HPU_ASSIGN(result.state_->buffer, whole.slice(static_cast<int64_t>(first - begin), bytes));
  }
  return result;
} catch (const std::bad_alloc&) {
  return resourceExhausted("out of host memory: the DLPack tensor was let go");
}

StatusOr<DLManagedTensor*> toDlpack(const SharedTensor& tensor) try {
  trace::HostScope scope("toDlpack");
  if (!tensor.valid()) return invalidArgument("toDlpack: the SharedTensor handle is empty");
  auto type = dataTypeOf(tensor.type());
  if (!type)
    return unimplemented(base::strCat("toDlpack: DLPack 0.8 has no element type ", elementTypeName(tensor.type()),
                                      "; give the bytes out as u8, or convert them"));
  auto lent = std::make_unique<Lent>();
  dlpack::Tensor& given = lent->managed.tensor;
  given.data = tensor.data();
  given.device = {dlpack::kCpu, 0};
  if (tensor.onDevice()) {
    const Buffer& buffer = tensor.buffer();
    HPU_ASSIGN(given.data, buffer.hostView());
    given.device = {dlpack::kExtDev, buffer.state()->device()->info().index};
  }
  lent->tensor = tensor;
  lent->shape = tensor.shape();
  lent->strides = tensor.strides();
  const bool rowMajor = lent->strides.empty();
  lent->strides.resize(lent->shape.size());
  int64_t stride = 1;
  for (size_t d = lent->shape.size(); rowMajor && d-- > 0;) {
    lent->strides[d] = stride;
    // Of an empty tensor strides say nothing, and its other dimensions may be of any size.
    if (tensor.bytes() > 0) stride *= lent->shape[d];
  }
  given.rank = static_cast<int32_t>(lent->shape.size());
  given.type = *type;
  given.shape = lent->shape.data();
  given.strides = lent->strides.data();
  lent->managed.context = lent.get();
  lent->managed.deleter = letGo;
  return &lent.release()->managed;
} catch (const std::bad_alloc&) {
  return resourceExhausted("out of host memory: no DLPack tensor was made");
}

}  // namespace hpu
