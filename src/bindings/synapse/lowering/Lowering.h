// SPDX-License-Identifier: Apache-2.0
// NodeContext: one SynapseAI node while it becomes hpu ops; what the functions of GuidTable.h's rows work with.
// The one thing to know: operands and shapes are in framework order (SynapseAI's index 0 is the last dim); axes in
// parameters are SynapseAI's: take them through axis(). Failures are kept, not returned (Emitter.h).
//
//   void lowerLeakyRelu(NodeContext& c) {
//     auto params = c.params<ns_LeakyReluKernel::Params>();
//     c.output(0, c.op("leaky_relu", {c.input(0)}, {{"alpha", params.alpha}}));
//   }
#pragma once

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <optional>

#include "base/Format.h"
#include "bindings/synapse/graph/GraphDescription.h"
#include "bindings/synapse/lowering/ElementTypes.h"
#include "bindings/synapse/lowering/GuidTable.h"
#include "compose/Emitter.h"

namespace hpu::synapse {

using base::strCat;
using compose::Emitter;

/// Values of synTensorType that carry sizes or host data, not elements.
inline bool isShapeType(uint32_t synTensorType) {
  return synTensorType >= 1 && synTensorType <= 5 && synTensorType != 3;
}
inline constexpr uint32_t kHostToDevice = 6;

/// A flag of parameters that a user filled in, or did not: any byte but 0 is true. To load it as a bool is undefined.
inline bool isSet(const bool& flag) {
  unsigned char byte = 0;
  std::memcpy(&byte, &flag, 1);
  return byte != 0;
}

/// What a NodeContext asks the graph's lowering for.
struct OperandSlot {
  const TensorDescription* tensor = nullptr;  ///< Null: the operand is absent.
  Value value;                                ///< Null for shape tensors and for results.
  /// Sizes in framework order: of an operand those it has; of a result those that the user declared for this
  /// compilation, or nothing when they are to be inferred.
  std::optional<Shape> shape;
  ElementType type = ElementType::kInvalid;  ///< As declared (i8 for booleans); kInvalid: to be inferred.
  bool mayBeSmaller = false;                 ///< Of a result: `shape` is only its maximum.
  bool changes = false;                      ///< Of an operand: its sizes are examples, and choose no ops.
  Shape largest;                             ///< Of one that changes: how large its sizes get; empty: nothing says.
};

struct ResultSlot {
  Value value;                 ///< Data.
  std::optional<Shape> shape;  ///< Of a shape tensor.
};

class NodeContext : public Emitter {
 public:
  NodeContext(Graph& graph, Target target, const NodeDescription& node, const GuidMatch& guid,
              std::vector<OperandSlot> inputs, std::vector<OperandSlot> outputs);

  const NodeDescription& node() const { return node_; }
  const GuidRow& row() const { return *guid_.row; }
  Target target() const { return target_; }
  /// The type of the GUID's suffix; kInvalid without one. castTarget: TO of cast_FROM_to_TO.
  ElementType dataType() const { return guid_.type; }
  ElementType castTarget() const { return guid_.second; }

  // ---- operands -----------------------------------------------------------------------------------
  size_t numInputs() const { return inputs_.size(); }  ///< Places, absent ones in the middle included.
  bool hasInput(size_t i) const { return i < inputs_.size() && inputs_[i].tensor; }
  /// A data operand; a failure when it is absent or a shape tensor. Booleans come as i8.
  Value input(size_t i);
  /// The same as i1, whatever its type: true where it is not zero.
  Value condition(size_t i);
  /// Sizes of an operand of any tensor type; empty and a failure when it is absent.
  Shape inputShape(size_t i);
  ElementType inputType(size_t i) const { return i < inputs_.size() ? inputs_[i].type : ElementType::kInvalid; }
  /// Whether the node is lowered for several sizes, and its ops must be the same for all.
  bool sizesChange() const;
  /// How large a dim of an operand gets where sizes change; 0: they do not, or nothing says.
  int64_t largestDim(size_t i, int64_t d) const;
  bool isShapeTensor(size_t i) const;
  bool isHostTensor(size_t i) const;  ///< Host-to-device: its bytes are in inputTensor(i)->hostData.
  const TensorDescription* inputTensor(size_t i) const { return i < inputs_.size() ? inputs_[i].tensor : nullptr; }
  /// "input 1 (W)".
  std::string inputName(size_t i) const { return operandName("input", i); }
  std::string outputName(size_t i) const { return operandName("output", i); }

  /// input(i) with its dims in the order `layout` ("CWHN": fastest first) when the node's layout string says that it is
  /// given in another one ("WHCN"). "" and a missing string: as it is.
  Value inputIn(size_t i, std::string_view layout);

  // ---- results ------------------------------------------------------------------------------------
  size_t numOutputs() const { return outputs_.size(); }
  bool wantsOutput(size_t i) const { return i < outputs_.size() && outputs_[i].tensor; }
  const TensorDescription* outputTensor(size_t i) const { return i < outputs_.size() ? outputs_[i].tensor : nullptr; }
  /// The sizes that the user declared, framework order; nothing when they are to be inferred.
  std::optional<Shape> declaredShape(size_t i) const;
  /// For GUIDs whose result's sizes follow from nothing else: those declared, else those of the shape tensor
  /// `shapeInput`; a failure when there are neither.
  Shape requiredShape(size_t i, size_t shapeInput = SIZE_MAX);
  /// The declared element type, else `otherwise`.
  ElementType outputType(size_t i, ElementType otherwise) const;
  /// The element type in which a matrix engine's operands of type `type` are multiplied: the one that the user asked
  /// for (synNodeTypeSetPrecision) if narrower, else f32 when result 0 is to be, else `type`.
  ElementType productType(ElementType type) const;
  /// Input i, `v`, in the type in which a product takes it: floats as productType says, integers exactly. Null and a
  /// failure for what is not multiplied.
  Value factor(size_t i, Value v);
  /// Sets a result; one that nobody wants is dropped. Booleans become i8, floats the declared float type, integers
  /// the declared integer type; sizes must be the declared ones.
  void output(size_t i, Value v);
  /// The same; where no type is declared it becomes `inferred`.
  void outputAs(size_t i, Value v, ElementType inferred);
  /// output(i), where v's dims are in the order `layout`; as inputIn.
  void outputIn(size_t i, std::string_view layout, Value v);
  /// requiredShape(i, shapeInput) in the order `layout`.
  Shape requiredShapeIn(size_t i, std::string_view layout, size_t shapeInput = SIZE_MAX);
  void outputShape(size_t i, const Shape& shape);  ///< Of a shape tensor.

  // ---- parameters ---------------------------------------------------------------------------------
  bool hasParams() const { return !node_.params.empty(); }
  size_t paramsSize() const { return node_.params.size(); }
  /// The structure P; a failure (and P's defaults) unless the size is exactly P's.
  template <typename P>
  P params() {
    return versions<P>(false, {}, {sizeof(P)});
  }
  /// The same, `defaults` when the node has none.
  template <typename P>
  P paramsOr(const P& defaults) {
    return versions<P>(true, defaults, {sizeof(P)});
  }
  /// For structures that grew by derivation: the fields that the given size has, `defaults` for the newer ones.
  /// Older... are the versions before Newest.
  template <typename Newest, typename... Older>
  Newest versionedParams(const Newest& defaults, bool optional = true) {
    return versions<Newest>(optional, defaults, {sizeof(Newest), sizeof(Older)...});
  }
  /// Of parameters of at least `least` bytes, whatever structure they are: what of P's fields they have, `defaults` for
  /// the others. For structures that share their first fields.
  template <typename P>
  P paramsPrefix(const P& defaults, size_t least) {
    P result = defaults;
    if (checkParamsLeast(least))
      std::memcpy(static_cast<void*>(&result), node_.params.data(), std::min(node_.params.size(), sizeof(P)));
    return result;
  }
  template <typename P>
  bool paramsAre() const {
    return node_.params.size() == sizeof(P);
  }

  /// The dim that SynapseAI's axis is; a failure (and 0) when it is outside of the rank.
  int64_t axis(int64_t synAxis, int64_t rank);
  /// The dims of a bit mask over SynapseAI's axes; a failure for bits outside of the rank.
  std::vector<int64_t> axesOfMask(uint64_t mask, int64_t rank);

  // ---- for the graph's lowering -------------------------------------------------------------------
  /// Runs the row's function with the checks that its flags ask for; the results are then in `results()`.
  Status run();
  const std::vector<ResultSlot>& results() const { return results_; }
  /// "node 'conv1' (spatial_convolution)".
  static std::string title(const NodeDescription& node);

 private:
  template <typename P>
  P versions(bool optional, const P& defaults, std::initializer_list<size_t> sizes) {
    P result = defaults;
    if (checkParamsSize(optional, sizes) && !node_.params.empty())
      std::memcpy(static_cast<void*>(&result), node_.params.data(), node_.params.size());
    return result;
  }
  void setOutput(size_t i, Value v);
  bool checkParamsSize(bool optional, std::initializer_list<size_t> sizes);
  bool checkParamsLeast(size_t least);
  std::string operandName(std::string_view kind, size_t i) const;
  bool checkOperands();
  /// perm[d]: which dim of the given order is dim d of `layout`.
  std::vector<int64_t> layoutPerm(const std::vector<std::string>& layouts, size_t i, std::string_view layout,
                                  std::string_view kind);
  bool fitsDeclared(size_t i, const Shape& shape) const;

  Target target_;
  const NodeDescription& node_;
  GuidMatch guid_;
  std::vector<OperandSlot> inputs_, outputs_;
  std::vector<ResultSlot> results_;
};

/// x as numbers of another type, as a cast node without parameters converts.
Value convert(NodeContext& c, Value x, ElementType to);

}  // namespace hpu::synapse
