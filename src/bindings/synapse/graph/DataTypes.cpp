// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/graph/DataTypes.h"

namespace hpu::synapse {
namespace {

// Formats that the device holds as f32 (tf32, hb_float) are f32 in memory.
constexpr DataTypeInfo kTypes[] = {
    {1 << 0, 8, "int8", "i8", ElementType::kI8},         {1 << 1, 16, "bfloat16", "bf16", ElementType::kBF16},
    {1 << 2, 32, "float32", "f32", ElementType::kF32},   {1 << 3, 16, "int16", "i16", ElementType::kI16},
    {1 << 4, 32, "int32", "i32", ElementType::kI32},     {1 << 5, 8, "uint8", "u8", ElementType::kU8},
    {1 << 6, 4, "int4", "i4", ElementType::kInvalid},    {1 << 7, 4, "uint4", "u4", ElementType::kInvalid},
    {1 << 8, 16, "float16", "f16", ElementType::kF16},   {1 << 9, 16, "uint16", "u16", ElementType::kU16},
    {1 << 10, 32, "uint32", "u32", ElementType::kU32},   {1 << 11, 32, "tf32", "", ElementType::kF32},
    {1 << 12, 32, "hb_float", "", ElementType::kF32},    {1 << 13, 8, "fp8_143", "hf8", ElementType::kF8E4M3Ieee},
    {1 << 14, 8, "fp8_152", "f8", ElementType::kF8E5M2}, {1 << 15, 64, "int64", "i64", ElementType::kI64},
    {1 << 16, 64, "uint64", "u64", ElementType::kU64},   {1 << 17, 16, "ufp16", "", ElementType::kInvalid},
};

}  // namespace

const DataTypeInfo* findDataType(uint32_t type) {
  for (const DataTypeInfo& info : kTypes)
    if (info.type == type) return &info;
  return nullptr;
}

const DataTypeInfo* findDataTypeBySuffix(std::string_view suffix) {
  if (suffix.empty()) return nullptr;
  for (const DataTypeInfo& info : kTypes)
    if (info.suffix == suffix) return &info;
  return nullptr;
}

ElementType deviceElementType(uint32_t type, Target target) {
  const DataTypeInfo* info = findDataType(type);
  if (!info) return ElementType::kInvalid;
  bool ocp = info->element == ElementType::kF8E4M3Ieee && target != Target::kGaudi2;
  return ocp ? ElementType::kF8E4M3 : info->element;
}

std::string_view dataTypeName(uint32_t type) {
  const DataTypeInfo* info = findDataType(type);
  return info ? info->name : "none";
}

}  // namespace hpu::synapse
