// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes are an error or a model that imports to a module that verifies. It stops after import.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "compiler/import/GraphImpl.h"
#include "compiler/import/Importer.h"
#include "compiler/import/OnnxReader.h"

namespace {
[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::abort();
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A context keeps every type and attribute that it has seen.
  static std::shared_ptr<mlir::MLIRContext> context;
  static int uses = 0;
  if (!context || ++uses % 512 == 0) context = hpu::importer::makeContext();
  hpu::StatusOr<hpu::importer::OnnxModel> model = hpu::importer::parseOnnxModel({data, size}, "/nonexistent/fuzz.onnx");
  if (!model.ok()) {
    if (model.status().message().empty() || model.status().code() == hpu::StatusCode::kInternal)
      fail(model.status().message());
    return 0;
  }
  std::vector<hpu::UnsupportedNode> unsupported;
  hpu::importer::OwningModule partial;
  hpu::StatusOr<hpu::importer::OwningModule> module =
      hpu::importer::importOnnxModule(*context, std::move(*model), {}, &unsupported, &partial);
  // A module that does not verify is kInternal.
  if (!module.ok() && (module.status().message().empty() || module.status().code() == hpu::StatusCode::kInternal))
    fail(module.status().message());
  for (const hpu::UnsupportedNode& node : unsupported)
    if (node.reason.empty() || node.help.empty()) fail(node.op + " '" + node.node + "': no reason or no help");
  return 0;
}
