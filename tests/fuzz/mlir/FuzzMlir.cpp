// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any text (or bytecode) is an error or a module in the hpu dialect that verifies, through both doors: hpu
// itself, and tosa and linalg. It stops after import.
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "compiler/import/GraphImpl.h"
#include "compiler/import/Importer.h"
#include "mlir/IR/Verifier.h"

namespace {

/// `word` with neither letters nor digits around it.
bool hasWord(std::string_view text, std::string_view word) {
  const auto isPart = [&](size_t at) { return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])); };
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1))
    if ((at == 0 || !isPart(at - 1) || text[at - 1] == 'x') && !isPart(at + word.size())) return true;
  return false;
}

/// Faults of upstream's parser and printer, which are listed in README.md: texts that crash there before they come to
/// us.
bool crashesUpstream(std::string_view text) {
  // Constants of i0 cannot be printed, which every message about them does.
  if (hasWord(text, "i0") || hasWord(text, "si0") || hasWord(text, "ui0")) return true;
  // linalg.generic's parser reads elements of iterator_types that are no strings as if they were.
  constexpr std::string_view kTypes = "iterator_types";
  for (size_t at = text.find(kTypes); at != text.npos; at = text.find(kTypes, at + 1)) {
    const size_t end = std::min(text.find(']', at), text.size());
    bool inText = false;
    for (size_t i = at + kTypes.size(); i < end; ++i) {
      if (text[i] == '"') inText = !inText;
      if (!inText && text[i] != '"' && !std::strchr(" =[,\n", text[i])) return true;
    }
  }
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A context keeps every type and attribute that it has seen.
  static std::shared_ptr<mlir::MLIRContext> context;
  static int uses = 0;
  if (!context || ++uses % 512 == 0) context = hpu::importer::makeContext();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (crashesUpstream(text)) return 0;
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
