// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any text (or bytecode) is an error or a module in the hpu dialect that verifies, through both doors: hpu
// itself, and tosa and linalg. It stops after import.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "compiler/import/GraphImpl.h"
#include "compiler/import/Importer.h"
#include "mlir/IR/Verifier.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A context keeps every type and attribute that it has seen.
  static std::shared_ptr<mlir::MLIRContext> context;
  static int uses = 0;
  if (!context || ++uses % 512 == 0) context = hpu::importer::makeContext();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  hpu::StatusOr<hpu::importer::OwningModule> module = hpu::importer::parseMlirModule(*context, text, "fuzz.mlir");
  if (!module.ok()) {
    if (module.status().message().empty() || module.status().code() == hpu::StatusCode::kInternal) {
      std::fprintf(stderr, "%s\n", module.status().message().c_str());
      std::abort();
    }
    return 0;
  }
  if (mlir::failed(mlir::verify(module->get()))) std::abort();
  return 0;
}
