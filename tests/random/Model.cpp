// SPDX-License-Identifier: Apache-2.0
#include "tests/random/Model.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include <onnx/onnx_pb.h>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "tools/common/TensorProtoIo.h"

namespace hpu::randomtest {
namespace {

using base::strCat;

constexpr std::pair<ElementType, int32_t> kTypes[] = {
    {ElementType::kF32, 1},   {ElementType::kU8, 2},      {ElementType::kI8, 3},     {ElementType::kU16, 4},
    {ElementType::kI16, 5},   {ElementType::kI32, 6},     {ElementType::kI64, 7},    {ElementType::kBool, 9},
    {ElementType::kF16, 10},  {ElementType::kF64, 11},    {ElementType::kU32, 12},   {ElementType::kU64, 13},
    {ElementType::kBF16, 16}, {ElementType::kF8E4M3, 17}, {ElementType::kF8E5M2, 19}};

void fillTensor(const HostTensor& tensor, const std::string& name, onnx::TensorProto* proto) {
  proto->set_name(name);
  proto->set_data_type(onnxType(tensor.type.element));
  for (int64_t size : tensor.type.shape) proto->add_dims(size);
  proto->set_raw_data(tensor.bytes.data(), tensor.bytes.size());
}

void fillInfo(const HostTensor& tensor, const std::string& name, onnx::ValueInfoProto* info) {
  info->set_name(name);
  auto* type = info->mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnxType(tensor.type.element));
  type->mutable_shape();
  for (int64_t size : tensor.type.shape) type->mutable_shape()->add_dim()->set_dim_value(size);
}

void fillNode(const Node& node, onnx::NodeProto* proto) {
  proto->set_op_type(node.op);
  for (const std::string& output : node.outputs)
    if (!output.empty() && proto->name().empty()) proto->set_name(node.op + "_" + output);
  for (const std::string& name : node.inputs) proto->add_input(name);
  for (const std::string& name : node.outputs) proto->add_output(name);
  for (const auto& [name, value] : node.attributes) {
    auto* attribute = proto->add_attribute();
    attribute->set_name(name);
    if (auto* i = std::get_if<int64_t>(&value)) {
      attribute->set_type(onnx::AttributeProto::INT);
      attribute->set_i(*i);
    } else if (auto* f = std::get_if<float>(&value)) {
      attribute->set_type(onnx::AttributeProto::FLOAT);
      attribute->set_f(*f);
    } else if (auto* s = std::get_if<std::string>(&value)) {
      attribute->set_type(onnx::AttributeProto::STRING);
      attribute->set_s(*s);
    } else if (auto* ints = std::get_if<Ints>(&value)) {
      attribute->set_type(onnx::AttributeProto::INTS);
      for (int64_t item : *ints) attribute->add_ints(item);
    } else if (auto* floats = std::get_if<std::vector<float>>(&value)) {
      attribute->set_type(onnx::AttributeProto::FLOATS);
      for (float item : *floats) attribute->add_floats(item);
    } else {
      attribute->set_type(onnx::AttributeProto::TENSOR);
      fillTensor(std::get<HostTensor>(value), "", attribute->mutable_t());
    }
  }
}

onnx::ModelProto emptyModel(int64_t opset) {
  onnx::ModelProto model;
  model.set_ir_version(opset >= 19 ? 9 : 8);
  model.set_producer_name("random");
  model.add_opset_import()->set_version(opset);
  model.mutable_graph()->set_name("random");
  return model;
}

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

bool Model::isConstant(const std::string& name) const {
  return std::find(constants.begin(), constants.end(), name) != constants.end();
}

std::string serialize(const Model& model) {
  onnx::ModelProto proto = emptyModel(model.opset);
  auto* graph = proto.mutable_graph();
  for (const std::string& name : model.inputs) fillInfo(model.values.at(name).tensor, name, graph->add_input());
  for (const std::string& name : model.constants)
    fillTensor(model.values.at(name).tensor, name, graph->add_initializer());
  for (const std::string& name : model.outputs) fillInfo(model.values.at(name).tensor, name, graph->add_output());
  for (const Node& node : model.nodes) fillNode(node, graph->add_node());
  return proto.SerializeAsString();
}

std::string serializeNode(const Node& node, int64_t opset, const std::vector<const HostTensor*>& operands,
                          const std::vector<bool>& constants) {
  onnx::ModelProto proto = emptyModel(opset);
  auto* graph = proto.mutable_graph();
  fillNode(node, graph->add_node());
  std::set<std::string> known;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].empty() || !known.insert(node.inputs[i]).second) continue;
    if (constants[i])
      fillTensor(*operands[i], node.inputs[i], graph->add_initializer());
    else
      fillInfo(*operands[i], node.inputs[i], graph->add_input());
  }
  for (const std::string& name : node.outputs)
    if (!name.empty()) graph->add_output()->set_name(name);
  return proto.SerializeAsString();
}

std::string describe(const Model& model, const Node& node) {
  std::string text = node.op + "(";
  for (const std::string& name : node.inputs) {
    if (text.back() != '(') text += ", ";
    auto value = model.values.find(name);
    if (value == model.values.end()) continue;
    text += strCat(elementTypeName(value->second.tensor.type.element), shapeToString(value->second.tensor.type.shape),
                   " ", name);
  }
  text += ")";
  for (const auto& [name, value] : node.attributes) {
    text += " " + name + "=";
    if (auto* i = std::get_if<int64_t>(&value)) text += strCat(*i);
    if (auto* f = std::get_if<float>(&value)) text += strCat(*f);
    if (auto* s = std::get_if<std::string>(&value)) text += *s;
    if (auto* ints = std::get_if<Ints>(&value)) text += shapeToString(*ints);
  }
  return text;
}

Status save(const Model& model, const std::string& folder, const std::string& note) {
  namespace fs = std::filesystem;
  fs::path data = fs::path(folder) / "test_data_set_0";
  std::error_code error;
  fs::remove_all(folder, error);
  fs::create_directories(data, error);
  if (error) return unavailable(strCat("cannot make the folder '", data.string(), "': ", error.message()));
  std::ofstream(fs::path(folder) / "model.onnx", std::ios::binary) << serialize(model);
  std::ofstream(fs::path(folder) / "README.txt") << note;
  auto write = [&](const std::string& name, const std::string& file) {
    HostTensor tensor = model.values.at(name).tensor;
    tensor.name = name;
    return tools::writeTensorProto((data / file).string(), tensor);
  };
  for (size_t i = 0; i < model.inputs.size(); ++i)
    HPU_RETURN_IF_ERROR(write(model.inputs[i], strCat("input_", i, ".pb")));
  for (size_t i = 0; i < model.outputs.size(); ++i)
    HPU_RETURN_IF_ERROR(write(model.outputs[i], strCat("output_", i, ".pb")));
  return okStatus();
}

Model part(const Model& model, const std::vector<Node>& nodes, const std::vector<std::string>& outputs) {
  Model result;
  result.opset = model.opset;
  result.outputs = outputs;
  std::set<std::string> needed(outputs.begin(), outputs.end()), made;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    bool isNeeded =
        std::any_of(node->outputs.begin(), node->outputs.end(), [&](auto& name) { return needed.count(name); });
    if (!isNeeded) continue;
    result.nodes.insert(result.nodes.begin(), *node);
    needed.insert(node->inputs.begin(), node->inputs.end());
    made.insert(node->outputs.begin(), node->outputs.end());
  }
  needed.erase("");
  for (const std::string& name : needed) {
    result.values[name] = model.values.at(name);
    if (made.count(name)) continue;
    if (model.isConstant(name)) {
      result.constants.push_back(name);
    } else {
      result.inputs.push_back(name);
      result.values[name].error.clear();
    }
  }
  for (const std::string& name : made)
    if (!name.empty()) result.values[name] = model.values.at(name);
  return result;
}

}  // namespace hpu::randomtest
