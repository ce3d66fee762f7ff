// SPDX-License-Identifier: Apache-2.0
#include "tools/common/Npy.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/File.h"
#include "base/Format.h"
#include "base/StatusMacros.h"
#include "tools/common/TensorProtoIo.h"

namespace hpu::tools {
namespace {

constexpr char kMagic[] = "\x93NUMPY";

struct Dtype {
  const char* text;
  ElementType element;
};
constexpr Dtype kDtypes[] = {{"<f4", ElementType::kF32},  {"<f8", ElementType::kF64}, {"<f2", ElementType::kF16},
                             {"<i8", ElementType::kI64},  {"<i4", ElementType::kI32}, {"<i2", ElementType::kI16},
                             {"|i1", ElementType::kI8},   {"|u1", ElementType::kU8},  {"<u2", ElementType::kU16},
                             {"<u4", ElementType::kU32},  {"<u8", ElementType::kU64}, {"|b1", ElementType::kBool},
                             {"|V2", ElementType::kBF16}, {"<V2", ElementType::kBF16}};

/// The text behind 'key': in the header's Python dictionary.
StatusOr<std::string_view> dictionaryValue(std::string_view header, std::string_view key) {
  std::string quoted = "'" + std::string(key) + "'";
  size_t at = header.find(quoted);
  if (at == header.npos) return dataLoss("the header has no " + quoted);
  at = header.find(':', at + quoted.size());
  if (at == header.npos) return dataLoss("the header has no value for " + quoted);
  at = header.find_first_not_of(' ', at + 1);
  if (at == header.npos) return dataLoss("the header has no value for " + quoted);
  return header.substr(at);
}

StatusOr<Shape> parseTuple(std::string_view text) {
  size_t end = text.find(')');
  if (text.empty() || text[0] != '(' || end == text.npos) return dataLoss("the header's shape is not a tuple");
  Shape shape;
  std::string_view inside = text.substr(1, end - 1);
  while (!inside.empty()) {
    size_t comma = inside.find(',');
    std::string_view part = inside.substr(0, comma);
    inside = comma == inside.npos ? std::string_view() : inside.substr(comma + 1);
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    if (part.empty()) continue;
    StatusOr<int64_t> dim = base::parseInt(part);
    if (!dim.ok()) return dataLoss("the header's shape has '" + std::string(part) + "'");
    shape.push_back(*dim);
  }
  return shape;
}

/// Column-major elements into row-major order.
void toRowMajor(HostTensor& tensor) {
  const Shape& shape = tensor.type.shape;
  int64_t size = elementSize(tensor.type.element), rank = static_cast<int64_t>(shape.size());
  std::vector<uint8_t> out(tensor.bytes.size());
  std::vector<int64_t> index(rank, 0), strides(rank, 1);
  for (int64_t d = 1; d < rank; ++d) strides[d] = strides[d - 1] * shape[d - 1];
  for (int64_t i = 0; i < tensor.count(); ++i) {
    int64_t from = 0;
    for (int64_t d = 0; d < rank; ++d) from += index[d] * strides[d];
    memcpy(out.data() + i * size, tensor.bytes.data() + from * size, size);
    for (int64_t d = rank - 1; d >= 0 && ++index[d] == shape[d]; --d) index[d] = 0;
  }
  tensor.bytes = std::move(out);
}

bool endsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

}  // namespace

StatusOr<HostTensor> parseNpy(const uint8_t* data, size_t size) {
  if (size < 10 || memcmp(data, kMagic, 6) != 0) return dataLoss("not a .npy file");
  int major = data[6];
  if (major < 1 || major > 3) return dataLoss("unknown .npy version " + std::to_string(major));
  size_t prefix = major == 1 ? 10 : 12;
  if (size < prefix) return dataLoss("the file ends in its header");
  size_t length = data[8] | data[9] << 8;
  if (major > 1) length |= static_cast<size_t>(data[10]) << 16 | static_cast<size_t>(data[11]) << 24;
  if (length > size - prefix) return dataLoss("the file ends in its header");
  std::string_view header(reinterpret_cast<const char*>(data) + prefix, length);
  HPU_ASSIGN(std::string_view descr, dictionaryValue(header, "descr"));
  HPU_ASSIGN(std::string_view order, dictionaryValue(header, "fortran_order"));
  HPU_ASSIGN(std::string_view shapeText, dictionaryValue(header, "shape"));
  HostTensor tensor;
  for (const Dtype& dtype : kDtypes)
    if (descr.size() > 5 && descr.substr(1, 3) == dtype.text && descr[4] == descr[0])
      tensor.type.element = dtype.element;
  if (tensor.type.element == ElementType::kInvalid)
    return unimplemented("dtype " + std::string(descr.substr(0, descr.find(','))) + " is not supported");
  HPU_ASSIGN(tensor.type.shape, parseTuple(shapeText));
  HPU_ASSIGN(int64_t bytes, checkedBytes(tensor.type));
  size_t left = size - prefix - length;
  if (static_cast<size_t>(bytes) > left)
    return dataLoss("an array " + tensor.type.toString() + " needs " + std::to_string(bytes) + " bytes, the file has " +
                    std::to_string(left));
  tensor.bytes.assign(data + prefix + length, data + prefix + length + bytes);
  settleBools(tensor);
  if (order.substr(0, 4) == "True") toRowMajor(tensor);
  return tensor;
}

StatusOr<HostTensor> readNpy(const std::string& path) {
  HPU_ASSIGN(std::vector<uint8_t> bytes, base::readFile(path));
  StatusOr<HostTensor> tensor = parseNpy(bytes.data(), bytes.size());
  if (!tensor.ok()) return tensor.status().withContext("'" + path + "'");
  return tensor;
}

std::vector<uint8_t> serializeNpy(const HostTensor& narrow) {
  // NumPy has f16, but neither bf16 nor f8.
  HostTensor tensor = narrow.type.element == ElementType::kF16 ? narrow : widened(narrow);
  const char* descr = "";
  for (const Dtype& dtype : kDtypes)
    if (dtype.element == tensor.type.element && !*descr) descr = dtype.text;
  std::string header = std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': (";
  for (int64_t dim : tensor.type.shape) header += std::to_string(dim) + ", ";
  if (tensor.type.shape.size() > 1) header.resize(header.size() - 2);
  header += "), }";
  // The data begins at a multiple of 64, as NumPy writes it.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string start = std::string(kMagic) + '\1' + '\0' + static_cast<char>(header.size() & 0xFF) +
                      static_cast<char>(header.size() >> 8) + header;
  std::vector<uint8_t> out(start.size() + tensor.bytes.size());
  memcpy(out.data(), start.data(), start.size());
  if (!tensor.bytes.empty()) memcpy(out.data() + start.size(), tensor.bytes.data(), tensor.bytes.size());
  return out;
}

Status writeNpy(const std::string& path, const HostTensor& tensor) {
  std::vector<uint8_t> bytes = serializeNpy(tensor);
  return base::writeFileAtomic(path, bytes.data(), bytes.size());
}

StatusOr<HostTensor> readTensorFile(const std::string& path) {
  if (endsWith(path, ".npy")) return readNpy(path);
  if (endsWith(path, ".pb")) return readTensorProto(path);
  if (size_t colon = path.rfind(".npz:"); colon != path.npos) {
    std::string archive = path.substr(0, colon + 4), name = path.substr(colon + 5);
    HPU_ASSIGN(std::vector<HostTensor> tensors, readNpz(archive));
    std::string names;
    for (HostTensor& tensor : tensors) {
      if (tensor.name == name) return std::move(tensor);
      names += (names.empty() ? "" : ", ") + tensor.name;
    }
    return notFound("'" + archive + "' has no array '" + name + "'; it has " + names);
  }
  if (::access(path.c_str(), R_OK) != 0) return base::errnoStatus(errno, "open", path);
  return invalidArgument("'" + path + "' is not a tensor file; give a .npy or .pb file, or FILE.npz:NAME");
}

}  // namespace hpu::tools
