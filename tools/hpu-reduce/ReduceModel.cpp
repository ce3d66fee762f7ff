// SPDX-License-Identifier: Apache-2.0
#include <onnx/onnx_pb.h>
// After it: its own headers take the namespace from there.
#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <exception>
#include <map>
#include <set>

#include "base/StatusMacros.h"
#include "tools/hpu-reduce/Reduce.h"

namespace hpu::tools {
namespace {

/// The names that a node reads, those of bodies that they do not define themselves too.
void addReads(const onnx::NodeProto& node, std::set<std::string>& names) {
  for (const std::string& input : node.input())
    if (!input.empty()) names.insert(input);
  for (const auto& attribute : node.attribute()) {
    if (!attribute.has_g()) continue;
    std::set<std::string> inner, own;
    for (const auto& body : attribute.g().node()) {
      addReads(body, inner);
      own.insert(body.output().begin(), body.output().end());
    }
    for (const auto& output : attribute.g().output()) inner.insert(output.name());
    for (const auto& input : attribute.g().input()) own.insert(input.name());
    for (const auto& tensor : attribute.g().initializer()) own.insert(tensor.name());
    for (const std::string& name : inner)
      if (!own.count(name)) names.insert(name);
  }
}

class ModelReduction {
 public:
  ModelReduction(onnx::ModelProto model, Predicate& predicate, const Progress& progress)
      : model_(std::move(model)), predicate_(predicate), progress_(progress) {
    onnx::ModelProto typed = model_;
    try {
      onnx::shape_inference::InferShapes(typed);
    } catch (const std::exception&) {
      typed = model_;  // What it cannot type is cut only where types are not needed.
    }
    for (const auto* list : {&typed.graph().value_info(), &typed.graph().input(), &typed.graph().output()})
      for (const auto& value : *list)
        if (value.has_type()) types_.emplace(value.name(), value);
  }

  StatusOr<Reduced> run() {
    const int64_t before = model_.graph().node_size();
    HPU_RETURN_IF_ERROR(reduceNodes());
    HPU_RETURN_IF_ERROR(reduceOutputs());
    HPU_RETURN_IF_ERROR(reduceAttributes());
    HPU_RETURN_IF_ERROR(reduceInitializers());
    HPU_RETURN_IF_ERROR(reduceDims());
    return Reduced{model_.SerializeAsString(), before, model_.graph().node_size()};
  }

 private:
  StatusOr<bool> keep(onnx::ModelProto candidate) {
    HPU_ASSIGN(const bool still, predicate_.fails(candidate.SerializeAsString()));
    if (still) model_ = std::move(candidate);
    return still;
  }

  /// The model of some nodes of `whole`: what they read and do not define is an input, what only they define an output.
  onnx::ModelProto part(const onnx::ModelProto& whole, const std::vector<size_t>& nodes) const {
    onnx::ModelProto made = whole;
    auto& graph = *made.mutable_graph();
    graph.clear_node(), graph.clear_input(), graph.clear_output(), graph.clear_initializer(), graph.clear_value_info();
    std::set<std::string> reads, defines, given;
    for (size_t i : nodes) {
      const auto& node = whole.graph().node(static_cast<int>(i));
      *graph.add_node() = node;
      addReads(node, reads);
      defines.insert(node.output().begin(), node.output().end());
    }
    for (const auto& tensor : whole.graph().initializer())
      if (reads.count(tensor.name())) *graph.add_initializer() = tensor, given.insert(tensor.name());
    for (const auto& input : whole.graph().input())
      if (reads.count(input.name()) && !defines.count(input.name()))
        *graph.add_input() = input, given.insert(input.name());
    for (const std::string& name : reads)
      if (!given.count(name) && !defines.count(name)) *graph.add_input() = valueOf(name);
    std::set<std::string> outputs;
    for (const auto& output : whole.graph().output())
      if (defines.count(output.name()) && outputs.insert(output.name()).second) *graph.add_output() = output;
    for (size_t i : nodes)
      for (const std::string& name : whole.graph().node(static_cast<int>(i)).output())
        if (!name.empty() && !reads.count(name) && outputs.insert(name).second) *graph.add_output() = valueOf(name);
    for (const auto& value : whole.graph().value_info())
      if (defines.count(value.name()) && !outputs.count(value.name())) *graph.add_value_info() = value;
    return made;
  }

  onnx::ValueInfoProto valueOf(const std::string& name) const {
    if (auto found = types_.find(name); found != types_.end()) return found->second;
    onnx::ValueInfoProto value;
    value.set_name(name);
    value.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
    return value;
  }

  Status reduceNodes() {
    const onnx::ModelProto whole = model_;
    const auto fails = [&](const std::vector<size_t>& nodes) -> StatusOr<bool> {
      HPU_ASSIGN(const bool still, keep(part(whole, nodes)));
      if (still) progress_(std::to_string(nodes.size()) + " nodes");
      return still;
    };
    HPU_ASSIGN(const std::vector<size_t> kept, smallestPart(static_cast<size_t>(whole.graph().node_size()), fails));
    (void)kept;  // The model is the last one that failed.
    return okStatus();
  }

  Status reduceOutputs() {
    for (int i = model_.graph().output_size() - 1; i >= 0 && model_.graph().output_size() > 1; --i) {
      onnx::ModelProto candidate = model_;
      candidate.mutable_graph()->mutable_output()->DeleteSubrange(i, 1);
      HPU_RETURN_IF_ERROR(keep(std::move(candidate)).status());
    }
    if (model_.functions_size()) {
      onnx::ModelProto candidate = model_;
      candidate.clear_functions();
      HPU_RETURN_IF_ERROR(keep(std::move(candidate)).status());
    }
    return okStatus();
  }

  Status reduceAttributes() {
    for (int n = 0; n < model_.graph().node_size(); ++n)
      for (int a = model_.graph().node(n).attribute_size() - 1; a >= 0; --a) {
        onnx::ModelProto candidate = model_;
        candidate.mutable_graph()->mutable_node(n)->mutable_attribute()->DeleteSubrange(a, 1);
        HPU_RETURN_IF_ERROR(keep(std::move(candidate)).status());
      }
    return okStatus();
  }

  /// An initializer whose numbers do not matter becomes an input.
  Status reduceInitializers() {
    for (int i = model_.graph().initializer_size() - 1; i >= 0; --i) {
      onnx::ModelProto candidate = model_;
      auto& graph = *candidate.mutable_graph();
      const onnx::TensorProto tensor = graph.initializer(i);
      graph.mutable_initializer()->DeleteSubrange(i, 1);
      const bool isInput = std::any_of(graph.input().begin(), graph.input().end(),
                                       [&](const auto& input) { return input.name() == tensor.name(); });
      if (!isInput) {
        auto* input = graph.add_input();
        input->set_name(tensor.name());
        auto* type = input->mutable_type()->mutable_tensor_type();
        type->set_elem_type(tensor.data_type());
        type->mutable_shape();
        for (int64_t dim : tensor.dims()) type->mutable_shape()->add_dim()->set_dim_value(dim);
      }
      HPU_RETURN_IF_ERROR(keep(std::move(candidate)).status());
    }
    return okStatus();
  }

  /// Sizes of inputs: all of one size at a time, as they have to agree, then one by one.
  Status reduceDims() {
    // What is declared of results would contradict.
    onnx::ModelProto bare = model_;
    bare.mutable_graph()->clear_value_info();
    for (auto& output : *bare.mutable_graph()->mutable_output())
      if (output.type().has_tensor_type()) output.mutable_type()->mutable_tensor_type()->clear_shape();
    HPU_RETURN_IF_ERROR(keep(std::move(bare)).status());
    std::set<int64_t> sizes;
    for (const auto& input : model_.graph().input())
      for (const auto& dim : input.type().tensor_type().shape().dim())
        if (dim.dim_value() > 1) sizes.insert(dim.dim_value());
    for (int64_t size : sizes)
      for (int64_t to : {int64_t{1}, int64_t{2}}) {
        if (to >= size) continue;
        HPU_ASSIGN(const bool still, keep(resized(size, to)));
        if (still) break;
      }
    for (int i = 0; i < model_.graph().input_size(); ++i)
      for (int d = 0; d < model_.graph().input(i).type().tensor_type().shape().dim_size(); ++d) {
        onnx::ModelProto candidate = model_;
        auto* dim = candidate.mutable_graph()
                        ->mutable_input(i)
                        ->mutable_type()
                        ->mutable_tensor_type()
                        ->mutable_shape()
                        ->mutable_dim(d);
        if (dim->dim_value() <= 1) continue;
        dim->set_dim_value(1);
        HPU_RETURN_IF_ERROR(keep(std::move(candidate)).status());
      }
    return okStatus();
  }

  onnx::ModelProto resized(int64_t from, int64_t to) const {
    onnx::ModelProto candidate = model_;
    for (auto& input : *candidate.mutable_graph()->mutable_input())
      if (input.type().has_tensor_type() && input.type().tensor_type().has_shape())
        for (auto& dim : *input.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim())
          if (dim.dim_value() == from) dim.set_dim_value(to);
    return candidate;
  }

  onnx::ModelProto model_;
  Predicate& predicate_;
  const Progress& progress_;
  std::map<std::string, onnx::ValueInfoProto> types_;
};

}  // namespace

StatusOr<Reduced> reduceModel(const std::string& bytes, Predicate& predicate, const Progress& progress) {
  onnx::ModelProto model;
  if (!model.ParseFromString(bytes) || !model.has_graph())
    return dataLoss("it is no whole ONNX model, so its nodes cannot be taken apart");
  return ModelReduction(std::move(model), predicate, progress).run();
}

}  // namespace hpu::tools
