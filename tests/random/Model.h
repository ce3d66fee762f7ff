// SPDX-License-Identifier: Apache-2.0
// An ONNX model as plain data, with the value that a reference computed for each of its tensors. The one thing to
// know: protobuf stays in Model.cpp, so that the rest may be compiled beside MLIR.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "hpu/status.h"
#include "tools/common/HostTensor.h"

namespace hpu::randomtest {

using tools::HostTensor;
using Ints = std::vector<int64_t>;
struct Body;
using BodyPtr = std::shared_ptr<const Body>;
using Attribute = std::variant<int64_t, float, std::string, Ints, std::vector<float>, HostTensor, BodyPtr>;
using Attributes = std::vector<std::pair<std::string, Attribute>>;

struct Disguise;
struct Node {
  std::string op;                            ///< With its domain where that is not ONNX's: "com.microsoft.Gelu".
  std::vector<std::string> inputs, outputs;  ///< "": left out.
  Attributes attributes;
  std::shared_ptr<const Disguise> disguise = nullptr;
};

/// A body of control flow or of a function local to the model.
struct Body {
  std::vector<std::string> inputs, outputs;
  std::vector<Node> nodes;                  ///< None has a disguise.
  std::map<std::string, TensorType> types;  ///< Of inputs and outputs.
};

/// Nodes that stand in the file as others: a loop for its iterations, a call for what the function does. A reference
/// computes the plain nodes one by one, so that their errors are known; the node that has the disguise reads and makes
/// what they do from outside.
struct Disguise {
  std::vector<Node> plain;                   ///< What is computed; none has a disguise.
  std::vector<Node> written;                 ///< What is in the file.
  std::map<std::string, BodyPtr> functions;  ///< By the op that calls them.
};

struct Value {
  HostTensor tensor;
  std::vector<double> error;  ///< How far an element may be from `tensor`; empty: not at all. Infinite: anything goes.
};

struct Model {
  int64_t opset = 17;
  std::map<std::string, Value> values;  ///< Of every name below.
  std::vector<std::string> inputs, constants, outputs;
  std::vector<Node> nodes;  ///< In topological order.

  bool isConstant(const std::string& name) const;
};

/// ONNX's number of an element type, and back (kInvalid for what we do not have).
int32_t onnxType(ElementType type);
ElementType elementType(int32_t onnxType);

/// The bytes of the ONNX file.
std::string serialize(const Model& model);
/// A model of one node whose operands are all inputs, but for those that `constants` names.
std::string serializeNode(const Node& node, int64_t opset, const std::vector<const HostTensor*>& operands,
                          const std::vector<bool>& constants);
/// "Add(f32[3, 4] in0, f32[] const1) axis=1"; for messages.
std::string describe(const Model& model, const Node& node);
/// Writes model.onnx, test_data_set_0 and `note` as README.txt into a new folder.
Status save(const Model& model, const std::string& folder, const std::string& note);

/// The part of a model that some values need; what no node makes any more becomes an input.
Model part(const Model& model, const std::vector<Node>& nodes, const std::vector<std::string>& outputs);

}  // namespace hpu::randomtest
