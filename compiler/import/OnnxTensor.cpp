// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/OnnxTensor.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/Format.h"
#include "base/StatusMacros.h"

namespace hpu::importer {

using base::strCat;

std::string onnxTypeName(int32_t dataType) {
  static constexpr const char* names[] = {"UNDEFINED",      "FLOAT",    "UINT8",        "INT8",           "UINT16",
                                          "INT16",          "INT32",    "INT64",        "STRING",         "BOOL",
                                          "FLOAT16",        "DOUBLE",   "UINT32",       "UINT64",         "COMPLEX64",
                                          "COMPLEX128",     "BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2",
                                          "FLOAT8E5M2FNUZ", "UINT4",    "INT4",         "FLOAT4E2M1",     "FLOAT8E8M0"};
  if (dataType < 0 || dataType >= static_cast<int32_t>(std::size(names))) return strCat("type ", dataType);
  return names[dataType];
}

ElementType elementOfOnnxType(int32_t dataType) {
  switch (dataType) {
    case 1:
      return ElementType::kF32;
    case 2:
      return ElementType::kU8;
    case 3:
      return ElementType::kI8;
    case 4:
      return ElementType::kU16;
    case 5:
      return ElementType::kI16;
    case 6:
      return ElementType::kI32;
    case 7:
      return ElementType::kI64;
    case 9:
      return ElementType::kBool;
    case 10:
      return ElementType::kF16;
    case 11:
      return ElementType::kF64;
    case 12:
      return ElementType::kU32;
    case 13:
      return ElementType::kU64;
    case 16:
      return ElementType::kBF16;
    case 17:
      return ElementType::kF8E4M3;
    case 19:
      return ElementType::kF8E5M2;
    case 21:
      return ElementType::kU8;
    case 22:
      return ElementType::kI8;
    default:
      return ElementType::kInvalid;
  }
}

bool isFourBits(int32_t dataType) {
  return dataType == 21 || dataType == 22;
}

namespace {

/// `count * unit` bytes of fresh memory that `owner` frees.
uint8_t* allocate(int64_t bytes, std::shared_ptr<const void>& owner) {
  auto memory = std::make_shared<std::vector<uint64_t>>((bytes + 7) / 8);
  auto* data = reinterpret_cast<uint8_t*>(memory->data());
  owner = std::move(memory);
  return data;
}

template <typename To, typename Field>
void narrowInto(const Field& field, TensorData& tensor) {
  auto* out = reinterpret_cast<To*>(allocate(field.size() * sizeof(To), tensor.owner));
  for (int i = 0; i < field.size(); ++i) out[i] = static_cast<To>(field[i]);
  tensor.data = out;
}

template <typename Field>
void pointTo(const Field& field, std::shared_ptr<const void> owner, TensorData& tensor) {
  tensor.data = field.data();
  tensor.owner = std::move(owner);
}

/// Takes the elements from the typed field of the tensor's type; the number of them.
int64_t decodeTyped(const onnx::TensorProto& proto, std::shared_ptr<const void> owner, TensorData& tensor) {
  switch (tensor.type.element) {
    case ElementType::kF32:
      pointTo(proto.float_data(), owner, tensor);
      return proto.float_data_size();
    case ElementType::kF64:
      pointTo(proto.double_data(), owner, tensor);
      return proto.double_data_size();
    case ElementType::kI32:
      pointTo(proto.int32_data(), owner, tensor);
      return proto.int32_data_size();
    case ElementType::kI64:
      pointTo(proto.int64_data(), owner, tensor);
      return proto.int64_data_size();
    case ElementType::kU64:
      pointTo(proto.uint64_data(), owner, tensor);
      return proto.uint64_data_size();
    case ElementType::kU32:
      narrowInto<uint32_t>(proto.uint64_data(), tensor);
      return proto.uint64_data_size();
    case ElementType::kI8:
      narrowInto<int8_t>(proto.int32_data(), tensor);
      break;
    case ElementType::kU8:
    case ElementType::kF8E4M3:
    case ElementType::kF8E4M3Ieee:
    case ElementType::kF8E5M2:
      narrowInto<uint8_t>(proto.int32_data(), tensor);
      break;
    case ElementType::kI16:
      narrowInto<int16_t>(proto.int32_data(), tensor);
      break;
    case ElementType::kU16:
    case ElementType::kF16:
    case ElementType::kBF16:
      narrowInto<uint16_t>(proto.int32_data(), tensor);
      break;
    case ElementType::kBool:
      narrowInto<bool>(proto.int32_data(), tensor);
      break;
    case ElementType::kInvalid:
      return 0;
  }
  return proto.int32_data_size();
}

StatusOr<int64_t> offsetOrLength(const std::string& text, const std::string& key, const std::string& location,
                                 const std::string& what) {
  StatusOr<int64_t> value = base::parseInt(text);
  if (!value.ok() || *value < 0)
    return dataLoss(strCat(what, ": external data in '", location, "' has ", key, " '", text,
                           "'; it must be a whole number; export the "
                           "model again"));
  return value;
}

/// A byte for each of the 4-bit integers that `packed` holds two of a byte of, the lower half first.
void unpack(TensorData& tensor, const uint8_t* packed) {
  const int64_t count = numElements(tensor.type.shape);
  const bool isSigned = tensor.type.element == ElementType::kI8;
  std::shared_ptr<const void> owner;
  uint8_t* out = allocate(count, owner);
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t four = packed[i / 2] >> (i % 2 * 4) & 15;
    out[i] = isSigned && four > 7 ? four | 0xf0 : four;
  }
  tensor.data = out;
  tensor.owner = std::move(owner);
}

/// Points `tensor` at the bytes in another file.
Status decodeExternal(const onnx::TensorProto& proto, ExternalFiles& files, const std::string& what,
                      TensorData& tensor) {
  std::string location;
  int64_t offset = 0, length = -1;
  for (const auto& entry : proto.external_data())
    if (entry.key() == "location") location = entry.value();
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "offset") {
      HPU_ASSIGN(offset, offsetOrLength(entry.value(), "offset", location, what));
    }
    if (entry.key() == "length") {
      HPU_ASSIGN(length, offsetOrLength(entry.value(), "length", location, what));
    }
  }
  if (location.empty()) return dataLoss(what + ": external data names no file; export the model again");
  StatusOr<std::shared_ptr<const base::MappedFile>> file = files.open(location);
  if (!file.ok()) return file.status().withContext(what);
  int64_t need = tensor.type.bytes(), size = static_cast<int64_t>((*file)->size());
  if (length >= 0 && length != need)
    return dataLoss(strCat(what, ": ", tensor.type.toString(), " needs ", need, " bytes, its external data in '",
                           location, "' declares ", length, "; export the model again"));
  if (offset > size || need > size - offset)
    return dataLoss(strCat(what, ": needs bytes ", offset, " to ", offset + need, " of '", location, "', which has ",
                           size, "; the file is truncated: copy it again"));
  const uint8_t* data = (*file)->data() + offset;
  tensor.data = data;
  tensor.owner = *file;
  return okStatus();
}

/// Copies the elements to memory aligned for their type if they are not.
void align(TensorData& tensor) {
  int64_t unit = elementSize(tensor.type.element);
  if (reinterpret_cast<uintptr_t>(tensor.data) % unit == 0) return;
  std::shared_ptr<const void> owner;
  uint8_t* copy = allocate(tensor.type.bytes(), owner);
  std::memcpy(copy, tensor.data, tensor.type.bytes());
  tensor.data = copy;
  tensor.owner = std::move(owner);
}

/// Raw bytes of bool may be any number: what is not 0 becomes 1.
void settleBools(TensorData& tensor) {
  const auto* from = static_cast<const uint8_t*>(tensor.data);
  const int64_t count = tensor.type.element == ElementType::kBool ? tensor.type.bytes() : 0;
  if (std::all_of(from, from + count, [](uint8_t byte) { return byte <= 1; })) return;
  std::shared_ptr<const void> owner;
  uint8_t* copy = allocate(count, owner);
  std::transform(from, from + count, copy, [](uint8_t byte) { return byte != 0; });
  tensor.data = copy;
  tensor.owner = std::move(owner);
}

}  // namespace

ExternalFiles::ExternalFiles(const std::string& modelPath) {
  folder_ = std::filesystem::path(modelPath).parent_path().string();
  if (folder_.empty()) folder_ = ".";
}

StatusOr<std::shared_ptr<const base::MappedFile>> ExternalFiles::open(const std::string& location) {
  namespace fs = std::filesystem;
  auto known = files_.find(location);
  if (known != files_.end()) return known->second;
  std::error_code error;
  fs::path relative = fs::path(location).lexically_normal();
  fs::path full = fs::path(folder_) / relative;
  bool leaves = relative.is_absolute() || relative.empty() || *relative.begin() == "..";
  if (!leaves) {
    // A symbolic link may leave as well.
    fs::path root = fs::weakly_canonical(folder_, error), target = fs::weakly_canonical(full, error);
    fs::path inside = target.lexically_relative(root);
    leaves = !error && (inside.empty() || *inside.begin() == "..");
  }
  if (leaves)
    return invalidArgument(strCat("external data '", location, "' lies outside of the model's folder '", folder_,
                                  "'; put it beside the model and export with a relative location"));
  StatusOr<std::shared_ptr<const base::MappedFile>> file = base::MappedFile::open(full.string());
  if (!file.ok())
    return Status(file.status().code(), strCat("external data '", location, "': ", file.status().message(),
                                               "; it belongs beside the model: copy it there"));
  files_[location] = *file;
  return file;
}

StatusOr<TensorData> decodeTensor(const onnx::TensorProto& proto, std::shared_ptr<const void> owner,
                                  ExternalFiles& files, const std::string& what) {
  TensorData tensor;
  tensor.name = proto.name();
  tensor.type.element = elementOfOnnxType(proto.data_type());
  if (tensor.type.element == ElementType::kInvalid)
    return unimplemented(strCat(what, " has data type ", onnxTypeName(proto.data_type()), ", which is not supported"));
  int64_t bytes = elementSize(tensor.type.element);
  for (int64_t dim : proto.dims()) {
    if (dim < 0) return dataLoss(strCat(what, " has a dimension of ", dim, "; export the model again"));
    tensor.type.shape.push_back(dim);
  }
  for (int64_t dim : proto.dims())
    if (__builtin_mul_overflow(bytes, dim, &bytes) || bytes > (int64_t{1} << 46))
      return dataLoss(strCat(what, " declares ", tensor.type.toString(),
                             ", more than memory can hold; export the "
                             "model again"));
  if (isFourBits(proto.data_type())) {
    // Read as the bytes that hold them.
    const TensorType type = tensor.type;
    onnx::TensorProto bytesOf = proto;
    bytesOf.set_data_type(onnx::TensorProto::UINT8);
    bytesOf.clear_dims();
    bytesOf.add_dims((numElements(type.shape) + 1) / 2);
    auto holder = std::make_shared<onnx::TensorProto>(std::move(bytesOf));
    HPU_ASSIGN(TensorData packed, decodeTensor(*holder, holder, files, what));
    tensor.isFourBits = true;
    unpack(tensor, static_cast<const uint8_t*>(packed.data));
    return tensor;
  }
  if (proto.has_segment()) return unimplemented(what + " is stored in segments; export the model again in one piece");
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
    HPU_RETURN_IF_ERROR(decodeExternal(proto, files, what, tensor));
  } else if (proto.has_raw_data()) {
    int64_t size = static_cast<int64_t>(proto.raw_data().size());
    if (size != bytes)
      return dataLoss(strCat(what, ": ", tensor.type.toString(), " needs ", bytes, " bytes, the file holds ", size,
                             "; export the model again"));
    tensor.data = proto.raw_data().data();
    tensor.owner = owner;
  } else {
    int64_t count = decodeTyped(proto, owner, tensor), need = numElements(tensor.type.shape);
    if (count != need)
      return dataLoss(strCat(what, ": ", tensor.type.toString(), " needs ", need, " elements, the file holds ", count,
                             "; export the model again"));
  }
  if (!tensor.data) allocate(8, tensor.owner), tensor.data = tensor.owner.get();  // Empty: any address will do.
  align(tensor);
  settleBools(tensor);
  return tensor;
}

}  // namespace hpu::importer
