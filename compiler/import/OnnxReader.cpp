// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/OnnxReader.h"

#include <climits>
#include <new>

#include <onnx/onnx_pb.h>

#include "base/File.h"
#include "base/Format.h"
#include "base/StatusMacros.h"
#include "compiler/import/OnnxTensor.h"

namespace hpu::importer {

using base::strCat;

namespace {

constexpr int64_t kNewestIrVersion = 13;  // ONNX 1.19-1.20; later ones may change what a file means.
constexpr int kMaxGraphDepth = 16;

/// What a file that is not protobuf looks like, for the error message; empty when it may be one.
std::string describeText(std::span<const uint8_t> bytes) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 512));
  if (text.starts_with("version https://git-lfs"))
    return "it is a Git LFS pointer: fetch the file itself with 'git lfs pull'";
  if (text.starts_with("\x89HDF") || text.starts_with("PK\x03\x04"))
    return "it looks like a checkpoint or an archive: export the model to ONNX";
  for (unsigned char c : text)
    if (c < 9 || (c > 13 && c < 32) || c == 127) return {};
  return "it is a text file: give the binary .onnx file";
}

struct ReadContext {
  std::shared_ptr<const onnx::ModelProto> proto;
  ExternalFiles files;
};

/// ONNX's own domain has two names.
std::string plainDomain(const std::string& domain) {
  return domain == "ai.onnx" ? std::string() : domain;
}

ValueInfo readValueInfo(const onnx::ValueInfoProto& proto) {
  ValueInfo info;
  info.name = proto.name();
  info.isTensor = !proto.has_type() || proto.type().has_tensor_type();
  if (!proto.has_type()) return info;
  const onnx::TypeProto* inner = &proto.type();
  const bool isOptional = inner->has_optional_type();
  if (isOptional) inner = &inner->optional_type().elem_type();
  const bool isSequence = inner->has_sequence_type();
  if (isSequence) inner = &inner->sequence_type().elem_type();
  if (!inner->has_tensor_type()) return info;
  info.isOptional = isOptional, info.isSequence = isSequence;
  const auto& type = inner->tensor_type();
  info.dataType = type.elem_type();
  info.hasShape = type.has_shape();
  for (const auto& dim : type.shape().dim()) {
    DimSpec spec;
    if (dim.has_dim_value()) spec.size = dim.dim_value();
    if (dim.has_dim_param()) spec.symbol = dim.dim_param();
    info.shape.push_back(std::move(spec));
  }
  return info;
}

StatusOr<GraphDef> readGraph(const onnx::GraphProto& proto, ReadContext& context, int depth);

StatusOr<NodeAttribute> readAttribute(const onnx::AttributeProto& proto, ReadContext& context, const std::string& node,
                                      int depth) {
  NodeAttribute attribute;
  attribute.name = proto.name();
  attribute.reference = proto.ref_attr_name();
  if (!attribute.reference.empty()) return attribute;
  using Kind = NodeAttribute::Kind;
  auto type = proto.type();
  // Files of IR version 1 carry no type: the field that is there tells it.
  if (type == onnx::AttributeProto::UNDEFINED) {
    if (proto.has_i())
      type = onnx::AttributeProto::INT;
    else if (proto.has_f())
      type = onnx::AttributeProto::FLOAT;
    else if (proto.has_s())
      type = onnx::AttributeProto::STRING;
    else if (proto.has_t())
      type = onnx::AttributeProto::TENSOR;
    else if (proto.ints_size())
      type = onnx::AttributeProto::INTS;
    else if (proto.floats_size())
      type = onnx::AttributeProto::FLOATS;
    else if (proto.strings_size())
      type = onnx::AttributeProto::STRINGS;
  }
  switch (type) {
    case onnx::AttributeProto::INT:
      attribute.kind = Kind::kInt;
      attribute.i = proto.i();
      break;
    case onnx::AttributeProto::FLOAT:
      attribute.kind = Kind::kFloat;
      attribute.f = proto.f();
      break;
    case onnx::AttributeProto::STRING:
      attribute.kind = Kind::kString;
      attribute.s = proto.s();
      break;
    case onnx::AttributeProto::INTS:
      attribute.kind = Kind::kInts;
      attribute.ints.assign(proto.ints().begin(), proto.ints().end());
      break;
    case onnx::AttributeProto::FLOATS:
      attribute.kind = Kind::kFloats;
      attribute.floats.assign(proto.floats().begin(), proto.floats().end());
      break;
    case onnx::AttributeProto::STRINGS:
      attribute.kind = Kind::kStrings;
      attribute.strings.assign(proto.strings().begin(), proto.strings().end());
      break;
    case onnx::AttributeProto::TENSOR: {
      attribute.kind = Kind::kTensor;
      StatusOr<TensorData> tensor = decodeTensor(proto.t(), context.proto, context.files,
                                                 strCat("attribute '", proto.name(), "' of node '", node, "'"));
      if (tensor.ok())
        attribute.tensor = std::move(*tensor);
      else if (tensor.status().code() == StatusCode::kUnimplemented)
        attribute.problem = tensor.status().message();  // The node is reported with all others.
      else
        return tensor.status();
      break;
    }
    case onnx::AttributeProto::GRAPH: {
      attribute.kind = Kind::kGraph;
      HPU_ASSIGN(GraphDef graph, readGraph(proto.g(), context, depth + 1));
      attribute.graph = std::make_shared<const GraphDef>(std::move(graph));
      break;
    }
    default:
      attribute.kind = Kind::kOther;
  }
  return attribute;
}

using NodeProtos = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

StatusOr<std::vector<NodeDef>> readNodes(const NodeProtos& protos, ReadContext& context, int depth) {
  std::vector<NodeDef> nodes;
  for (int i = 0; i < protos.size(); ++i) {
    const auto& source = protos[i];
    NodeDef node;
    node.op = source.op_type();
    node.domain = plainDomain(source.domain());
    node.name = source.name().empty() ? strCat(source.op_type(), "_", i) : source.name();
    node.inputs.assign(source.input().begin(), source.input().end());
    node.outputs.assign(source.output().begin(), source.output().end());
    for (const auto& attribute : source.attribute()) {
      HPU_ASSIGN(NodeAttribute read, readAttribute(attribute, context, node.name, depth));
      node.attributes.push_back(std::move(read));
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

StatusOr<GraphDef> readGraph(const onnx::GraphProto& proto, ReadContext& context, int depth) {
  if (depth > kMaxGraphDepth) return unimplemented(strCat("graphs are nested deeper than ", kMaxGraphDepth));
  GraphDef graph;
  graph.name = proto.name();
  for (const auto& value : proto.input()) graph.inputs.push_back(readValueInfo(value));
  for (const auto& value : proto.output()) graph.outputs.push_back(readValueInfo(value));
  for (const auto& value : proto.value_info()) graph.values.push_back(readValueInfo(value));
  for (const auto& tensor : proto.initializer()) {
    StatusOr<TensorData> data =
        decodeTensor(tensor, context.proto, context.files, strCat("initializer '", tensor.name(), "'"));
    if (data.ok())
      graph.initializers.push_back(std::move(*data));
    else if (data.status().code() == StatusCode::kUnimplemented)
      graph.refused.push_back({tensor.name(), data.status().message()});  // Reported with the nodes.
    else
      return data.status();
  }
  for (const auto& sparse : proto.sparse_initializer())
    graph.refused.push_back({sparse.values().name(), strCat("initializer '", sparse.values().name(),
                                                            "' is sparse, which is not supported: export it dense")});
  HPU_ASSIGN(graph.nodes, readNodes(proto.node(), context, depth));
  return graph;
}

template <typename Imports>
std::map<std::string, int64_t> readOpsets(const Imports& imports) {
  std::map<std::string, int64_t> opsets;
  for (const auto& opset : imports) opsets[plainDomain(opset.domain())] = opset.version();
  return opsets;
}

StatusOr<FunctionDef> readFunction(const onnx::FunctionProto& proto, ReadContext& context) {
  FunctionDef function;
  function.domain = plainDomain(proto.domain());
  function.name = proto.name();
  function.inputs.assign(proto.input().begin(), proto.input().end());
  function.outputs.assign(proto.output().begin(), proto.output().end());
  function.attributes.assign(proto.attribute().begin(), proto.attribute().end());
  function.opsets = readOpsets(proto.opset_import());
  HPU_ASSIGN(function.nodes, readNodes(proto.node(), context, 0));
  return function;
}

Status checkHeader(const onnx::ModelProto& proto) {
  if (!proto.has_graph() || !proto.has_ir_version())
    return dataLoss("it has no graph, so it is not an ONNX model; export the model again");
  if (proto.ir_version() < 1 || proto.ir_version() > kNewestIrVersion)
    return unimplemented(strCat("IR version ", proto.ir_version(), " is not supported (1 to ", kNewestIrVersion,
                                " are); export with an older onnx package"));
  if (proto.opset_import_size() == 0 && proto.ir_version() >= 3)
    return dataLoss("it imports no opset; export the model again");
  return okStatus();
}

StatusOr<OnnxModel> parseModel(std::span<const uint8_t> bytes, const std::string& path) {
  if (bytes.empty()) return dataLoss("the file is empty; export the model again");
  if (bytes.size() > INT_MAX)
    return unimplemented(strCat("the file has ", base::formatBytes(static_cast<int64_t>(bytes.size())),
                                "; protobuf allows 2 GiB: save the "
                                "weights as external data (onnx.save_model(..., save_as_external_data=True))"));
  auto proto = std::make_shared<onnx::ModelProto>();
  bool parsed = proto->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  if (!parsed || !proto->has_graph()) {
    if (std::string text = describeText(bytes); !text.empty()) return dataLoss("not an ONNX model: " + text);
    if (!parsed) {
      std::string damage = describeProtobufDamage(bytes);
      return dataLoss(
          strCat("not a whole ONNX model: ", damage.empty() ? std::string("a message inside of it is broken") : damage,
                 "; the file is truncated or damaged: copy or export it again"));
    }
  }
  HPU_RETURN_IF_ERROR(checkHeader(*proto));

  OnnxModel model;
  model.irVersion = proto->ir_version();
  model.producer = proto->producer_name();
  model.opsets = readOpsets(proto->opset_import());
  if (proto->opset_import_size() == 0) model.opsets[""] = 1;
  ReadContext context{proto, ExternalFiles(path)};
  for (const auto& function : proto->functions()) {
    StatusOr<FunctionDef> read = readFunction(function, context);
    if (!read.ok()) return read.status().withContext(strCat("function '", function.name(), "'"));
    model.functions.push_back(std::move(*read));
  }
  HPU_ASSIGN(model.graph, readGraph(proto->graph(), context, 0));
  return model;
}

/// The model that `parse` gives, with errors that name the path, and none thrown.
template <typename Parse>
StatusOr<OnnxModel> named(const std::string& path, Parse parse) {
  try {
    StatusOr<OnnxModel> model = parse();
    if (!model.ok()) {
      // MappedFile's errors name the path already.
      bool isNamed = model.status().message().find(path) != std::string::npos;
      return isNamed ? model.status() : model.status().withContext("'" + path + "'");
    }
    model->path = path;
    return model;
  } catch (const std::bad_alloc&) {
    return resourceExhausted("'" + path + "': not enough host memory to read the model");
  } catch (const std::exception& error) {
    return internalError("'" + path + "': " + error.what());
  }
}

}  // namespace

std::string describeProtobufDamage(std::span<const uint8_t> bytes) {
  size_t at = 0;
  auto varint = [&](uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && at < bytes.size(); shift += 7) {
      uint8_t byte = bytes[at++];
      value |= uint64_t{byte & 0x7fu} << shift;
      if (!(byte & 0x80)) return true;
    }
    return false;
  };
  while (at < bytes.size()) {
    size_t begin = at;
    uint64_t tag, length = 0;
    if (!varint(tag)) return strCat("a field number at byte ", begin, " does not end");
    uint64_t field = tag >> 3;
    switch (tag & 7) {
      case 0:
        if (!varint(length)) return strCat("field ", field, " at byte ", begin, " does not end");
        continue;
      case 1:
        length = 8;
        break;
      case 5:
        length = 4;
        break;
      case 2:
        if (!varint(length)) return strCat("field ", field, " at byte ", begin, " does not end");
        break;
      default:
        return strCat("byte ", begin, " starts no protobuf field");
    }
    if (field == 0) return strCat("byte ", begin, " starts no protobuf field");
    if (length > bytes.size() - at)
      return strCat("field ", field, " at byte ", begin, " needs ", length, " bytes, ", bytes.size() - at, " are left");
    at += length;
  }
  return {};
}

StatusOr<OnnxModel> readOnnxModel(const std::string& path) {
  return named(path, [&]() -> StatusOr<OnnxModel> {
    HPU_ASSIGN(std::shared_ptr<const base::MappedFile> file, base::MappedFile::open(path));
    return parseModel(file->bytes(), path);  // Protobuf copies everything.
  });
}

StatusOr<OnnxModel> parseOnnxModel(std::span<const uint8_t> bytes, const std::string& path) {
  return named(path, [&] { return parseModel(bytes, path); });
}

StatusOr<TensorData> readOnnxTensor(const std::string& path) {
  HPU_ASSIGN(std::shared_ptr<const base::MappedFile> file, base::MappedFile::open(path));
  return parseOnnxTensor(file->bytes(), path);
}

StatusOr<TensorData> parseOnnxTensor(std::span<const uint8_t> bytes, const std::string& path) {
  try {
    if (bytes.size() > INT_MAX) return unimplemented("'" + path + "': larger than protobuf's 2 GiB");
    auto proto = std::make_shared<onnx::TensorProto>();
    if (!proto->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
      return dataLoss(strCat("'", path, "': not a whole ONNX tensor: ", describeProtobufDamage(bytes)));
    ExternalFiles files(path);
    return decodeTensor(*proto, proto, files, "'" + path + "'");
  } catch (const std::bad_alloc&) {
    return resourceExhausted("'" + path + "': not enough host memory to read the tensor");
  } catch (const std::exception& error) {
    return internalError("'" + path + "': " + error.what());
  }
}

Status writeOnnxTensor(const std::string& path, const std::string& name, const TensorType& type, const void* data) {
  static constexpr int32_t onnxTypes[] = {0, 1, 10, 16, 17, 19, 3, 2, 5, 4, 6, 12, 7, 13, 9, 11};
  try {
    onnx::TensorProto proto;
    proto.set_name(name);
    proto.set_data_type(onnxTypes[static_cast<int>(type.element)]);
    for (int64_t dim : type.shape) proto.add_dims(dim);
    proto.set_raw_data(data, type.bytes());
    std::string bytes;
    if (!proto.SerializeToString(&bytes))
      return unimplemented("'" + path + "': a tensor larger than protobuf's 2 GiB cannot be written");
    return base::writeFileAtomic(path, bytes);
  } catch (const std::bad_alloc&) {
    return resourceExhausted("'" + path + "': not enough host memory to write the tensor");
  }
}

}  // namespace hpu::importer
