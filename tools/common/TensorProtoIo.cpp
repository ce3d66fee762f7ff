// SPDX-License-Identifier: Apache-2.0
#include "tools/common/TensorProtoIo.h"

#include <cstring>
#include <optional>

#include "base/File.h"
#include "base/Format.h"
#include "base/StatusMacros.h"

namespace hpu::tools {
namespace {

// Field numbers of TensorProto in onnx.proto3.
enum Field : uint32_t {
  kDims = 1,
  kDataType = 2,
  kFloatData = 4,
  kInt32Data = 5,
  kStringData = 6,
  kInt64Data = 7,
  kName = 8,
  kRawData = 9,
  kDoubleData = 10,
  kUint64Data = 11,
  kExternalData = 13,
  kDataLocation = 14,
};

struct OnnxType {
  int onnx;
  ElementType element;
};
// TensorProto.DataType.
constexpr OnnxType kTypes[] = {{1, ElementType::kF32},   {2, ElementType::kU8},      {3, ElementType::kI8},
                               {4, ElementType::kU16},   {5, ElementType::kI16},     {6, ElementType::kI32},
                               {7, ElementType::kI64},   {9, ElementType::kBool},    {10, ElementType::kF16},
                               {11, ElementType::kF64},  {12, ElementType::kU32},    {13, ElementType::kU64},
                               {16, ElementType::kBF16}, {17, ElementType::kF8E4M3}, {19, ElementType::kF8E5M2}};

/// Protobuf's wire format over a range of bytes.
class Wire {
 public:
  Wire(const uint8_t* data, size_t size) : begin_(data), at_(data), end_(data + size) {}
  bool done() const { return at_ == end_; }
  size_t offset() const { return at_ - begin_; }

  std::optional<uint64_t> varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && at_ < end_; shift += 7) {
      uint8_t byte = *at_++;
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (!(byte & 0x80)) return value;
    }
    return std::nullopt;
  }
  std::optional<Wire> bytes() {
    std::optional<uint64_t> size = varint();
    if (!size || *size > static_cast<uint64_t>(end_ - at_)) return std::nullopt;
    Wire inner(at_, *size);
    at_ += *size;
    return inner;
  }
  template <typename T>
  std::optional<T> fixed() {
    T value;
    if (end_ - at_ < static_cast<ptrdiff_t>(sizeof value)) return std::nullopt;
    memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  bool skip(uint32_t wireType) {
    switch (wireType) {
      case 0:
        return varint().has_value();
      case 1:
        return fixed<uint64_t>().has_value();
      case 2:
        return bytes().has_value();
      case 5:
        return fixed<uint32_t>().has_value();
      default:
        return false;
    }
  }
  const uint8_t* data() const { return at_; }
  size_t left() const { return end_ - at_; }

 private:
  const uint8_t *begin_, *at_, *end_;
};

/// A repeated number field: packed (wire type 2) or one element.
template <typename T, typename Read>
bool readRepeated(Wire& wire, uint32_t wireType, std::vector<T>& out, Read read) {
  if (wireType != 2) {
    auto value = read(wire);
    if (value) out.push_back(static_cast<T>(*value));
    return value.has_value();
  }
  std::optional<Wire> packed = wire.bytes();
  while (packed && !packed->done()) {
    auto value = read(*packed);
    if (!value) return false;
    out.push_back(static_cast<T>(*value));
  }
  return packed.has_value();
}

struct Parsed {
  Shape dims;
  int dataType = 0;
  std::string name;
  std::optional<Wire> raw;
  std::vector<float> floats;
  std::vector<int64_t> int32s, int64s;
  std::vector<double> doubles;
  std::vector<uint64_t> uint64s;
  bool external = false, strings = false;
};

bool readField(Wire& wire, uint32_t field, uint32_t type, Parsed& out) {
  auto varint = [](Wire& w) { return w.varint(); };
  switch (field) {
    case kDims:
      return readRepeated(wire, type, out.dims, varint);
    case kDataType: {
      auto value = wire.varint();
      if (value) out.dataType = static_cast<int>(*value);
      return type == 0 && value;
    }
    case kFloatData:
      return readRepeated(wire, type, out.floats, [](Wire& w) { return w.fixed<float>(); });
    case kInt32Data:
      return readRepeated(wire, type, out.int32s, varint);
    case kInt64Data:
      return readRepeated(wire, type, out.int64s, varint);
    case kDoubleData:
      return readRepeated(wire, type, out.doubles, [](Wire& w) { return w.fixed<double>(); });
    case kUint64Data:
      return readRepeated(wire, type, out.uint64s, varint);
    case kName:
    case kRawData: {
      if (type != 2) return false;
      std::optional<Wire> bytes = wire.bytes();
      if (!bytes) return false;
      if (field == kRawData)
        out.raw = bytes;
      else
        out.name.assign(reinterpret_cast<const char*>(bytes->data()), bytes->left());
      return true;
    }
    case kStringData:
      out.strings = true;
      return wire.skip(type);
    case kExternalData:
      out.external = true;
      return wire.skip(type);
    default:
      return wire.skip(type);
  }
}

/// Stores numbers as elements of `size` bytes, as TensorProto keeps small types in wider fields.
template <typename T>
Status store(const std::vector<T>& values, HostTensor& tensor) {
  int64_t size = elementSize(tensor.type.element);
  if (static_cast<int64_t>(values.size()) != tensor.count())
    return dataLoss("the dims " + shapeToString(tensor.type.shape) + " need " + std::to_string(tensor.count()) +
                    " elements, the data has " + std::to_string(values.size()));
  for (size_t i = 0; i < values.size(); ++i) memcpy(tensor.bytes.data() + i * size, &values[i], size);
  return okStatus();
}

void putVarint(std::vector<uint8_t>& out, uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<uint8_t>(value) | 0x80);
    value >>= 7;
  }
  out.push_back(static_cast<uint8_t>(value));
}
void putKey(std::vector<uint8_t>& out, Field field, uint32_t type) {
  putVarint(out, field << 3 | type);
}

}  // namespace

StatusOr<HostTensor> parseTensorProto(const uint8_t* data, size_t size) {
  Wire wire(data, size);
  Parsed parsed;
  while (!wire.done()) {
    size_t offset = wire.offset();
    std::optional<uint64_t> key = wire.varint();
    if (!key || *key >> 3 == 0 || *key >> 32 ||
        !readField(wire, static_cast<uint32_t>(*key >> 3), static_cast<uint32_t>(*key & 7), parsed))
      return dataLoss("not an ONNX tensor: bad field at byte " + std::to_string(offset));
  }
  if (parsed.strings) return unimplemented("string tensors are not supported");
  if (parsed.external) return unimplemented("the tensor's data is in an external file; store it inside");
  HostTensor tensor;
  tensor.name = parsed.name;
  for (const OnnxType& type : kTypes)
    if (type.onnx == parsed.dataType) tensor.type.element = type.element;
  if (tensor.type.element == ElementType::kInvalid)
    return parsed.dataType == 0
               ? dataLoss("not an ONNX tensor: it has no element type")
               : unimplemented("ONNX element type " + std::to_string(parsed.dataType) + " is not supported");
  tensor.type.shape = parsed.dims;
  HPU_ASSIGN(int64_t bytes, checkedBytes(tensor.type));
  if (parsed.raw) {
    if (static_cast<int64_t>(parsed.raw->left()) != bytes)
      return dataLoss("a tensor " + tensor.type.toString() + " needs " + std::to_string(bytes) +
                      " bytes, raw_data has " + std::to_string(parsed.raw->left()));
    tensor.bytes.assign(parsed.raw->data(), parsed.raw->data() + bytes);
    settleBools(tensor);
    return tensor;
  }
  // A size that no field backs must not be allocated.
  size_t elements = parsed.floats.size() + parsed.int32s.size() + parsed.int64s.size() + parsed.doubles.size() +
                    parsed.uint64s.size();
  if (static_cast<int64_t>(elements) != tensor.count())
    return dataLoss("a tensor " + tensor.type.toString() + " needs " + std::to_string(tensor.count()) +
                    " elements, its data has " + std::to_string(elements));
  tensor.bytes.resize(bytes);
  switch (tensor.type.element) {
    case ElementType::kF32:
      HPU_RETURN_IF_ERROR(store(parsed.floats, tensor));
      break;
    case ElementType::kF64:
      HPU_RETURN_IF_ERROR(store(parsed.doubles, tensor));
      break;
    case ElementType::kI64:
      HPU_RETURN_IF_ERROR(store(parsed.int64s, tensor));
      break;
    case ElementType::kU32:
    case ElementType::kU64:
      HPU_RETURN_IF_ERROR(store(parsed.uint64s, tensor));
      break;
    default:
      HPU_RETURN_IF_ERROR(store(parsed.int32s, tensor));
      break;
  }
  settleBools(tensor);
  return tensor;
}

StatusOr<HostTensor> readTensorProto(const std::string& path) {
  HPU_ASSIGN(std::vector<uint8_t> bytes, base::readFile(path));
  StatusOr<HostTensor> tensor = parseTensorProto(bytes.data(), bytes.size());
  if (!tensor.ok()) return tensor.status().withContext("'" + path + "'");
  return tensor;
}

std::vector<uint8_t> serializeTensorProto(const HostTensor& tensor) {
  std::vector<uint8_t> out;
  for (int64_t dim : tensor.type.shape) {
    putKey(out, kDims, 0);
    putVarint(out, static_cast<uint64_t>(dim));
  }
  for (const OnnxType& type : kTypes)
    if (type.element == tensor.type.element) {
      putKey(out, kDataType, 0);
      putVarint(out, type.onnx);
    }
  if (!tensor.name.empty()) {
    putKey(out, kName, 2);
    putVarint(out, tensor.name.size());
    out.insert(out.end(), tensor.name.begin(), tensor.name.end());
  }
  putKey(out, kRawData, 2);
  putVarint(out, tensor.bytes.size());
  out.insert(out.end(), tensor.bytes.begin(), tensor.bytes.end());
  return out;
}

ElementType elementOfDataType(int32_t dataType) {
  for (const OnnxType& type : kTypes)
    if (type.onnx == dataType) return type.element;
  return ElementType::kInvalid;
}

Status writeTensorProto(const std::string& path, const HostTensor& tensor) {
  std::vector<uint8_t> bytes = serializeTensorProto(tensor);
  return base::writeFileAtomic(path, bytes.data(), bytes.size());
}

}  // namespace hpu::tools
