// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/compiler/import/OnnxBuilder.h"

#include <fstream>

#include "tests/common/OnnxProto.h"

namespace hpu::importer {

struct OnnxBuilder::Impl {
  onnx::ModelProto model;
};

OnnxBuilder::OnnxBuilder(int64_t opset) : impl_(new Impl{onnxtest::emptyModel(opset, 8, "test_graph")}) {}
OnnxBuilder::~OnnxBuilder() = default;
OnnxBuilder::OnnxBuilder(OnnxBuilder&&) noexcept = default;

OnnxBuilder& OnnxBuilder::input(const std::string& name, ElementType element, const std::vector<BuilderDim>& shape) {
  auto* sizes = onnxtest::fillInfo(name, element, impl_->model.mutable_graph()->add_input());
  for (const BuilderDim& dim : shape) {
    auto* proto = sizes->add_dim();
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
  onnxtest::fillTensor(name, {ElementType::kF32, shape}, values.data(), values.size() * sizeof(float),
                       impl_->model.mutable_graph()->add_initializer());
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
    std::visit(
        [attribute](const auto& held) {
          if constexpr (requires { held->impl_; }) {
            attribute->set_type(onnx::AttributeProto::GRAPH);
            *attribute->mutable_g() = held->impl_->model.graph();
          } else {
            onnxtest::setAttribute(held, attribute);
          }
        },
        value);
  }
  return *this;
}

OnnxBuilder& OnnxBuilder::function(const std::string& domain, const std::string& name, const OnnxBuilder& body,
                                   const std::vector<std::string>& attributes, int64_t opset) {
  auto* function = impl_->model.add_functions();
  function->set_domain(domain);
  function->set_name(name);
  const onnx::GraphProto& graph = body.impl_->model.graph();
  for (const auto& input : graph.input()) function->add_input(input.name());
  for (const auto& output : graph.output()) function->add_output(output.name());
  for (const std::string& attribute : attributes) function->add_attribute(attribute);
  *function->mutable_node() = graph.node();
  for (auto& node : *function->mutable_node())
    for (auto& attribute : *node.mutable_attribute())
      if (std::string text = attribute.s(); text.starts_with("@")) {
        attribute.clear_s();
        attribute.set_ref_attr_name(text.substr(1));
      }
  *function->mutable_opset_import() = body.impl_->model.opset_import();
  if (opset > 0) function->mutable_opset_import(0)->set_version(opset);
  return *this;
}

std::string OnnxBuilder::save(const std::string& path) const {
  std::ofstream out(path, std::ios::binary);
  impl_->model.SerializeToOstream(&out);
  return path;
}

}  // namespace hpu::importer
