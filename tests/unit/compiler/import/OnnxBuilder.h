// SPDX-License-Identifier: Apache-2.0
// Writes small ONNX models for tests, free of protobuf in this header.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "hpu/types.h"

namespace hpu::importer {

/// A dimension: a size, or the name of a free one ("" for an anonymous one).
using BuilderDim = std::variant<int64_t, std::string>;
using BuilderAttribute =
    std::variant<int64_t, float, std::string, std::vector<int64_t>, std::shared_ptr<class OnnxBuilder>>;

class OnnxBuilder {
 public:
  explicit OnnxBuilder(int64_t opset = 17);
  ~OnnxBuilder();
  OnnxBuilder(OnnxBuilder&&) noexcept;

  OnnxBuilder& input(const std::string& name, ElementType element, const std::vector<BuilderDim>& shape);
  OnnxBuilder& output(const std::string& name);
  OnnxBuilder& floats(const std::string& name, const Shape& shape, const std::vector<float>& values);
  OnnxBuilder& ints(const std::string& name, const Shape& shape, const std::vector<int64_t>& values);
  /// An initializer in another file of the model's folder.
  OnnxBuilder& external(const std::string& name, const Shape& shape, const std::string& location, int64_t offset,
                        int64_t length);
  OnnxBuilder& node(const std::string& op, const std::string& name, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs,
                    const std::vector<std::pair<std::string, BuilderAttribute>>& attributes = {},
                    const std::string& domain = "");
  /// A function that is local to the model: the nodes of `body`, whose graph inputs and outputs are the function's. An
  /// attribute of a node with a text "@name" is the call's attribute `name`. `opset`: of its own domain's ops; 0: as
  /// the model's.
  OnnxBuilder& function(const std::string& domain, const std::string& name, const OnnxBuilder& body,
                        const std::vector<std::string>& attributes = {}, int64_t opset = 0);
  /// Writes the model and gives its path back.
  std::string save(const std::string& path) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hpu::importer
