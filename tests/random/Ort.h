// SPDX-License-Identifier: Apache-2.0
// ONNX Runtime's CPU provider, loaded at run time: what random models are compared with. The one thing to know: its C
// API is a table of functions whose order never changes; Ort.cpp names the places that are used, so that no header of
// ONNX Runtime is needed to build this.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hpu/status.h"
#include "tools/common/HostTensor.h"

namespace hpu::randomtest {

class OrtSession {
 public:
  virtual ~OrtSession() = default;
  /// Gives the outputs in the order of `outputs`.
  virtual StatusOr<std::vector<tools::HostTensor>> run(const std::vector<std::string>& inputs,
                                                       const std::vector<const tools::HostTensor*>& values,
                                                       const std::vector<std::string>& outputs) = 0;
};

class Ort {
 public:
  virtual ~Ort() = default;
  /// Loads the shared library. Errors: kNotFound when it is not there, kFailedPrecondition when it is another one.
  static StatusOr<std::unique_ptr<Ort>> load(const std::string& path);
  virtual const std::string& version() const = 0;
  /// A model without any graph optimisation, on one thread. Errors: kInvalidArgument with ONNX Runtime's message.
  virtual StatusOr<std::unique_ptr<OrtSession>> open(const std::string& model) = 0;
};

}  // namespace hpu::randomtest
