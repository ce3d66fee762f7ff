// SPDX-License-Identifier: Apache-2.0
// Decodes TensorProto messages; internal to the reader.
#pragma once

#include <map>
#include <memory>
#include <string>

#include <onnx/onnx_pb.h>

#include "base/MappedFile.h"
#include "compiler/import/OnnxModel.h"
#include "hpu/status.h"

namespace hpu::importer {

/// Opens the files that hold external data, each once.
class ExternalFiles {
 public:
  /// `modelPath` names the model file; external files must lie in its folder.
  explicit ExternalFiles(const std::string& modelPath);
  StatusOr<std::shared_ptr<const base::MappedFile>> open(const std::string& location);

 private:
  std::string folder_;
  std::map<std::string, std::shared_ptr<const base::MappedFile>> files_;
};

/// The elements of `proto`, without a copy where its memory is usable as it is. `owner` keeps `proto`
/// alive; `what` names it in errors ("initializer 'w'").
StatusOr<TensorData> decodeTensor(const onnx::TensorProto& proto, std::shared_ptr<const void> owner,
                                  ExternalFiles& files, const std::string& what);

}  // namespace hpu::importer
