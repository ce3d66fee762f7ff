// SPDX-License-Identifier: Apache-2.0
// An ONNX model as plain structs: what the importer sees, free of protobuf and of MLIR.
// The one thing to know: tensors point into the parsed protobuf or a mapped file; `owner` keeps those
// alive, so the structs may be dropped while constants live on.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hpu/types.h"

namespace hpu::importer {

/// "FLOAT", "STRING" ... of ONNX's TensorProto.DataType.
std::string onnxTypeName(int32_t dataType);
/// Our element type; kInvalid for the ones that we do not have.
ElementType elementOfOnnxType(int32_t dataType);

/// INT4 and UINT4: i8 and u8 with a byte for each element here, of which files hold two in one.
bool isFourBits(int32_t dataType);

/// Dense little-endian elements, aligned to the element size.
struct TensorData {
  std::string name;
  TensorType type;
  const void* data = nullptr;
  std::shared_ptr<const void> owner;
  bool isFourBits = false;  ///< In the file.
};

/// A dimension of a declared shape.
struct DimSpec {
  int64_t size = kDynamic;
  std::string symbol;  ///< dim_param; may be empty.
};

/// A graph input, output or intermediate as declared.
struct ValueInfo {
  std::string name;
  bool isTensor = true;  ///< Else a sequence, map or optional.
  /// Of tensors, whose type the fields below say; both: an optional sequence.
  bool isSequence = false, isOptional = false;
  int32_t dataType = 0;  ///< ONNX's number.
  bool hasShape = false;
  std::vector<DimSpec> shape;
};

struct GraphDef;

struct NodeAttribute {
  enum class Kind { kNone, kInt, kFloat, kString, kTensor, kGraph, kInts, kFloats, kStrings, kOther };
  std::string name;
  Kind kind = Kind::kNone;
  int64_t i = 0;
  double f = 0;
  std::string s;
  TensorData tensor;
  std::shared_ptr<const GraphDef> graph;
  std::vector<int64_t> ints;
  std::vector<double> floats;
  std::vector<std::string> strings;
  std::string problem;    ///< Why a tensor could not be read; empty when it could.
  std::string reference;  ///< In a function: the attribute of the call whose value it has; empty: it has its own.
};

struct NodeDef {
  std::string name;  ///< Never empty: "Relu_7" for an unnamed one.
  std::string op, domain;
  std::vector<std::string> inputs, outputs;  ///< An empty name is an omitted one.
  std::vector<NodeAttribute> attributes;
  int64_t opset = 0;  ///< Version of its domain where that is not the model's: it comes from a function.
};

/// An initializer that cannot be had, and why.
struct RefusedInitializer {
  std::string name, reason;
};

struct GraphDef {
  std::string name;
  std::vector<NodeDef> nodes;
  std::vector<TensorData> initializers;
  std::vector<RefusedInitializer> refused;
  std::vector<ValueInfo> inputs, outputs, values;
};

/// A function that is local to the model: what a node of its domain and name stands for.
struct FunctionDef {
  std::string domain, name;
  std::vector<std::string> inputs, outputs;
  std::vector<std::string> attributes;  ///< That calls may give.
  std::vector<NodeDef> nodes;
  std::map<std::string, int64_t> opsets;  ///< As OnnxModel::opsets.
};

struct OnnxModel {
  std::string path;
  int64_t irVersion = 0;
  std::string producer;
  std::map<std::string, int64_t> opsets;  ///< By domain; the default domain is "".
  std::vector<FunctionDef> functions;
  GraphDef graph;
};

}  // namespace hpu::importer
