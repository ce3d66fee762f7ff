// SPDX-License-Identifier: Apache-2.0
#include "tests/common/OnnxProto.h"

#include <utility>

namespace hpu::onnxtest {
namespace {

constexpr std::pair<ElementType, int32_t> kTypes[] = {
    {ElementType::kF32, 1},   {ElementType::kU8, 2},      {ElementType::kI8, 3},     {ElementType::kU16, 4},
    {ElementType::kI16, 5},   {ElementType::kI32, 6},     {ElementType::kI64, 7},    {ElementType::kBool, 9},
    {ElementType::kF16, 10},  {ElementType::kF64, 11},    {ElementType::kU32, 12},   {ElementType::kU64, 13},
    {ElementType::kBF16, 16}, {ElementType::kF8E4M3, 17}, {ElementType::kF8E5M2, 19}};

}  // namespace

int32_t onnxType(ElementType type) {
  for (auto [ours, onnx] : kTypes)
    if (ours == type) return onnx;
  return 0;
}

ElementType elementType(int32_t onnxType) {
  for (auto [ours, onnx] : kTypes)
    if (onnx == onnxType) return ours;
  return ElementType::kInvalid;
}

onnx::ModelProto emptyModel(int64_t opset, int64_t irVersion, const std::string& graph) {
  onnx::ModelProto model;
  model.set_ir_version(irVersion);
  model.add_opset_import()->set_version(opset);
  model.mutable_graph()->set_name(graph);
  return model;
}

void fillTensor(const std::string& name, const TensorType& type, const void* data, size_t bytes,
                onnx::TensorProto* proto) {
  proto->set_name(name);
  proto->set_data_type(onnxType(type.element));
  for (int64_t size : type.shape) proto->add_dims(size);
  proto->set_raw_data(data, bytes);
}

onnx::TensorShapeProto* fillInfo(const std::string& name, ElementType element, onnx::ValueInfoProto* info) {
  info->set_name(name);
  auto* type = info->mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnxType(element));
  return type->mutable_shape();
}

void setAttribute(int64_t value, onnx::AttributeProto* attribute) {
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_i(value);
}
void setAttribute(float value, onnx::AttributeProto* attribute) {
  attribute->set_type(onnx::AttributeProto::FLOAT);
  attribute->set_f(value);
}
void setAttribute(const std::string& value, onnx::AttributeProto* attribute) {
  attribute->set_type(onnx::AttributeProto::STRING);
  attribute->set_s(value);
}
void setAttribute(const std::vector<int64_t>& values, onnx::AttributeProto* attribute) {
  attribute->set_type(onnx::AttributeProto::INTS);
  for (int64_t value : values) attribute->add_ints(value);
}
void setAttribute(const std::vector<float>& values, onnx::AttributeProto* attribute) {
  attribute->set_type(onnx::AttributeProto::FLOATS);
  for (float value : values) attribute->add_floats(value);
}

}  // namespace hpu::onnxtest
