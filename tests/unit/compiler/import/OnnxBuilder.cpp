// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/compiler/import/OnnxBuilder.h"

#include <fstream>

#include <onnx/onnx_pb.h>

namespace hpu::importer {

struct OnnxBuilder::Impl {
  onnx::ModelProto model;
};

namespace {

int onnxType(ElementType element) {
  switch (element) {
    case ElementType::kF32:
      return onnx::TensorProto::FLOAT;
    case ElementType::kI64:
      return onnx::TensorProto::INT64;
    case ElementType::kI32:
      return onnx::TensorProto::INT32;
    case ElementType::kBool:
      return onnx::TensorProto::BOOL;
    default:
      return onnx::TensorProto::UNDEFINED;
  }
}

}  // namespace

OnnxBuilder::OnnxBuilder(int64_t opset) : impl_(std::make_unique<Impl>()) {
  impl_->model.set_ir_version(8);
  impl_->model.add_opset_import()->set_version(opset);
  impl_->model.mutable_graph()->set_name("test_graph");
}
OnnxBuilder::~OnnxBuilder() = default;

OnnxBuilder& OnnxBuilder::input(const std::string& name, ElementType element, const std::vector<BuilderDim>& shape) {
  auto* value = impl_->model.mutable_graph()->add_input();
  value->set_name(name);
  auto* type = value->mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnxType(element));
  type->mutable_shape();
  for (const BuilderDim& dim : shape) {
    auto* proto = type->mutable_shape()->add_dim();
    if (auto* size = std::get_if<int64_t>(&dim))
      proto->set_dim_value(*size);
    else if (!std::get<std::string>(dim).empty())
      proto->set_dim_param(std::get<std::string>(dim));
  }
  return *this;
}

OnnxBuilder& OnnxBuilder::output(const std::string& name) {
  impl_->model.mutable_graph()->add_output()->set_name(name);
  return *this;
}

OnnxBuilder& OnnxBuilder::floats(const std::string& name, const Shape& shape, const std::vector<float>& values) {
  auto* tensor = impl_->model.mutable_graph()->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(onnx::TensorProto::FLOAT);
  for (int64_t dim : shape) tensor->add_dims(dim);
  tensor->set_raw_data(values.data(), values.size() * sizeof(float));
  return *this;
}

OnnxBuilder& OnnxBuilder::ints(const std::string& name, const Shape& shape, const std::vector<int64_t>& values) {
  auto* tensor = impl_->model.mutable_graph()->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(onnx::TensorProto::INT64);
  for (int64_t dim : shape) tensor->add_dims(dim);
  for (int64_t value : values) tensor->add_int64_data(value);
  return *this;
}

OnnxBuilder& OnnxBuilder::external(const std::string& name, const Shape& shape, const std::string& location,
                                   int64_t offset, int64_t length) {
  auto* tensor = impl_->model.mutable_graph()->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(onnx::TensorProto::FLOAT);
  tensor->set_data_location(onnx::TensorProto::EXTERNAL);
  for (int64_t dim : shape) tensor->add_dims(dim);
  auto add = [&](const std::string& key, const std::string& value) {
    auto* entry = tensor->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  add("location", location);
  add("offset", std::to_string(offset));
  add("length", std::to_string(length));
  return *this;
}

OnnxBuilder& OnnxBuilder::node(const std::string& op, const std::string& name, const std::vector<std::string>& inputs,
                               const std::vector<std::string>& outputs,
                               const std::vector<std::pair<std::string, BuilderAttribute>>& attributes,
                               const std::string& domain) {
  auto* node = impl_->model.mutable_graph()->add_node();
  node->set_op_type(op);
  node->set_name(name);
  node->set_domain(domain);
  for (const std::string& input : inputs) node->add_input(input);
  for (const std::string& output : outputs) node->add_output(output);
  for (const auto& [key, value] : attributes) {
    auto* attribute = node->add_attribute();
    attribute->set_name(key);
    if (auto* i = std::get_if<int64_t>(&value)) {
      attribute->set_type(onnx::AttributeProto::INT);
      attribute->set_i(*i);
    } else if (auto* f = std::get_if<float>(&value)) {
      attribute->set_type(onnx::AttributeProto::FLOAT);
      attribute->set_f(*f);
    } else if (auto* s = std::get_if<std::string>(&value)) {
      attribute->set_type(onnx::AttributeProto::STRING);
      attribute->set_s(*s);
    } else if (auto* ints = std::get_if<std::vector<int64_t>>(&value)) {
      attribute->set_type(onnx::AttributeProto::INTS);
      for (int64_t v : *ints) attribute->add_ints(v);
    } else {
      attribute->set_type(onnx::AttributeProto::GRAPH);
      *attribute->mutable_g() = std::get<std::shared_ptr<OnnxBuilder>>(value)->impl_->model.graph();
    }
  }
  return *this;
}

std::string OnnxBuilder::save(const std::string& path) const {
  std::ofstream out(path, std::ios::binary);
  impl_->model.SerializeToOstream(&out);
  return path;
}

}  // namespace hpu::importer
