// SPDX-License-Identifier: Apache-2.0
#include "tests/random/Model.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "tests/common/OnnxProto.h"
#include "tools/common/TensorProtoIo.h"

namespace hpu::randomtest {
namespace {

using base::strCat;

void fillTensor(const HostTensor& tensor, const std::string& name, onnx::TensorProto* proto) {
  onnxtest::fillTensor(name, tensor.type, tensor.bytes.data(), tensor.bytes.size(), proto);
}

void fillInfo(const HostTensor& tensor, const std::string& name, onnx::ValueInfoProto* info) {
  auto* sizes = onnxtest::fillInfo(name, tensor.type.element, info);
  for (int64_t size : tensor.type.shape) sizes->add_dim()->set_dim_value(size);
}

void fillNode(const Node& node, onnx::NodeProto* proto);

void fillGraph(const Body& body, onnx::GraphProto* graph) {
  graph->set_name("body");
  auto fill = [&](const std::string& name, onnx::ValueInfoProto* info) {
    HostTensor tensor;
    tensor.type = body.types.at(name);
    fillInfo(tensor, name, info);
  };
  for (const std::string& name : body.inputs) fill(name, graph->add_input());
  for (const std::string& name : body.outputs) fill(name, graph->add_output());
  for (const Node& node : body.nodes) fillNode(node, graph->add_node());
}

/// The domain of an op's name with its dot; empty for ONNX's own.
std::string domainOf(const std::string& op) {
  return op.substr(0, op.rfind('.') + 1);
}

void fillNode(const Node& node, onnx::NodeProto* proto) {
  const std::string domain = domainOf(node.op);
  proto->set_op_type(node.op.substr(domain.size()));
  if (!domain.empty()) proto->set_domain(domain.substr(0, domain.size() - 1));
  for (const std::string& output : node.outputs)
    if (!output.empty() && proto->name().empty()) proto->set_name(node.op + "_" + output);
  for (const std::string& name : node.inputs) proto->add_input(name);
  for (const std::string& name : node.outputs) proto->add_output(name);
  for (const auto& [name, value] : node.attributes) {
    auto* attribute = proto->add_attribute();
    attribute->set_name(name);
    std::visit(
        [attribute](const auto& held) {
          if constexpr (requires { held.bytes; }) {
            attribute->set_type(onnx::AttributeProto::TENSOR);
            fillTensor(held, "", attribute->mutable_t());
          } else if constexpr (requires { held->nodes; }) {
            attribute->set_type(onnx::AttributeProto::GRAPH);
            fillGraph(*held, attribute->mutable_g());
          } else {
            onnxtest::setAttribute(held, attribute);
          }
        },
        value);
  }
}

onnx::ModelProto emptyModel(int64_t opset) {
  onnx::ModelProto model = onnxtest::emptyModel(opset, opset >= 19 ? 9 : 8, "random");
  model.set_producer_name("random");
  return model;
}

void fillFunction(const std::string& op, const Body& body, onnx::ModelProto* model) {
  const std::string domain = domainOf(op);
  auto* function = model->add_functions();
  function->set_name(op.substr(domain.size()));
  function->set_domain(domain.substr(0, domain.size() - 1));
  for (const std::string& name : body.inputs) function->add_input(name);
  for (const std::string& name : body.outputs) function->add_output(name);
  for (const Node& node : body.nodes) fillNode(node, function->add_node());
  *function->mutable_opset_import() = model->opset_import();
}

/// Names the domains of an op, and of those in its bodies.
void importDomains(const Node& node, onnx::ModelProto* model) {
  std::string domain = domainOf(node.op);
  if (!domain.empty()) {
    domain.pop_back();
    const auto& known = model->opset_import();
    if (std::none_of(known.begin(), known.end(), [&](const auto& import) { return import.domain() == domain; })) {
      auto* import = model->add_opset_import();
      import->set_domain(domain);
      import->set_version(1);
    }
  }
  for (const auto& [name, value] : node.attributes)
    if (auto* body = std::get_if<BodyPtr>(&value))
      for (const Node& inner : (*body)->nodes) importDomains(inner, model);
}

}  // namespace

int32_t onnxType(ElementType type) {
  return onnxtest::onnxType(type);
}

ElementType elementType(int32_t onnxType) {
  return onnxtest::elementType(onnxType);
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
  std::map<std::string, BodyPtr> functions;
  for (const Node& node : model.nodes)
    for (const Node& written : node.disguise ? node.disguise->written : std::vector<Node>{node}) {
      fillNode(written, graph->add_node());
      importDomains(written, &proto);
      if (node.disguise) functions.insert(node.disguise->functions.begin(), node.disguise->functions.end());
    }
  for (const auto& [op, body] : functions)
    for (const Node& node : body->nodes) importDomains(node, &proto);
  for (const auto& [op, body] : functions) fillFunction(op, *body, &proto);
  return proto.SerializeAsString();
}

std::string serializeNode(const Node& node, int64_t opset, const std::vector<const HostTensor*>& operands,
                          const std::vector<bool>& constants) {
  onnx::ModelProto proto = emptyModel(opset);
  auto* graph = proto.mutable_graph();
  fillNode(node, graph->add_node());
  importDomains(node, &proto);
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
  for (const Node& node : result.nodes)
    if (node.disguise)
      for (const Node& plain : node.disguise->plain) made.insert(plain.outputs.begin(), plain.outputs.end());
  for (const std::string& name : made)
    if (!name.empty()) result.values[name] = model.values.at(name);
  return result;
}

}  // namespace hpu::randomtest
