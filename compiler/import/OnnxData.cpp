// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/OnnxData.h"

#include <climits>
#include <new>

#include <onnx/onnx_pb.h>
// After it: its own header takes the namespace from there.
#include <onnx/onnx-data_pb.h>

#include "base/File.h"
#include "base/StatusMacros.h"
#include "compiler/import/OnnxReader.h"
#include "compiler/import/OnnxTensor.h"

namespace hpu::importer {
namespace {

template <typename Proto>
StatusOr<std::shared_ptr<Proto>> parsed(const std::string& path) {
  HPU_ASSIGN(std::shared_ptr<const base::MappedFile> file, base::MappedFile::open(path));
  if (file->size() > INT_MAX) return unimplemented("'" + path + "': larger than protobuf's 2 GiB");
  auto proto = std::make_shared<Proto>();
  if (!proto->ParseFromArray(file->data(), static_cast<int>(file->size())))
    return dataLoss("'" + path +
                    "': not the ONNX data that the model declares: " + describeProtobufDamage(file->bytes()));
  return proto;
}

Status addElements(const onnx::SequenceProto& sequence, const std::shared_ptr<const void>& owner,
                   const std::string& path, OnnxData& data) {
  ExternalFiles files(path);
  for (const auto& tensor : sequence.tensor_values()) {
    HPU_ASSIGN(TensorData element, decodeTensor(tensor, owner, files, "'" + path + "'"));
    data.tensors.push_back(std::move(element));
  }
  return okStatus();
}

StatusOr<OnnxData> read(const std::string& path, const ValueInfo& info) {
  OnnxData data;
  if (info.isSequence && !info.isOptional) {
    HPU_ASSIGN(std::shared_ptr<onnx::SequenceProto> sequence, parsed<onnx::SequenceProto>(path));
    HPU_RETURN_IF_ERROR(addElements(*sequence, sequence, path, data));
  } else if (info.isOptional) {
    HPU_ASSIGN(std::shared_ptr<onnx::OptionalProto> optional, parsed<onnx::OptionalProto>(path));
    data.isAbsent = !optional->has_tensor_value() && !optional->has_sequence_value();
    if (optional->has_sequence_value())
      HPU_RETURN_IF_ERROR(addElements(optional->sequence_value(), optional, path, data));
    if (!optional->has_tensor_value()) return data;
    ExternalFiles files(path);
    HPU_ASSIGN(TensorData tensor, decodeTensor(optional->tensor_value(), optional, files, "'" + path + "'"));
    data.tensors.push_back(std::move(tensor));
  } else {
    HPU_ASSIGN(TensorData tensor, readOnnxTensor(path));
    data.tensors.push_back(std::move(tensor));
  }
  return data;
}

}  // namespace

StatusOr<OnnxData> readOnnxData(const std::string& path, const ValueInfo& info) {
  try {
    return read(path, info);
  } catch (const std::bad_alloc&) {
    return resourceExhausted("'" + path + "': not enough host memory to read the data");
  } catch (const std::exception& error) {
    return internalError("'" + path + "': " + error.what());
  }
}

}  // namespace hpu::importer
