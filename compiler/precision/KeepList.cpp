// SPDX-License-Identifier: Apache-2.0
#include "compiler/precision/KeepList.h"

#include <algorithm>

#include "base/OptionNames.h"
#include "compiler/support/Units.h"
#include "llvm/ADT/StringRef.h"
#include "mlir/IR/OperationSupport.h"

using namespace mlir;

namespace hpu::precision {
namespace {

/// "; did you mean 'matmul' or 'matmul_1'?", or nothing when no candidate is near.
std::string suggestion(const std::string& name, const std::set<std::string>& candidates) {
  constexpr size_t kMost = 3;
  const unsigned far = static_cast<unsigned>(name.size()) / 3 + 2;
  std::vector<std::pair<unsigned, std::string>> near;
  for (const std::string& candidate : candidates) {
    const unsigned distance = StringRef(name).edit_distance_insensitive(candidate, true, far);
    if (distance < far) near.emplace_back(distance, candidate);
  }
  std::sort(near.begin(), near.end());
  if (near.empty()) return "; " + base::optionValue("reports", "fusion") + " names the nodes";
  near.resize(std::min(near.size(), kMost));
  std::string text = "; did you mean ";
  for (size_t i = 0; i < near.size(); ++i)
    text += (i == 0 ? "'" : i + 1 < near.size() ? ", '" : " or '") + near[i].second + "'";
  return text + "?";
}

}  // namespace

bool KeepList::contains(Operation* op) const {
  if (names_.empty()) return false;
  if (names_.count(op->getName().stripDialect().str())) return true;
  return llvm::any_of(ir::sourceNames(op->getLoc()),
                      [&](const ir::SourceName& name) { return names_.count(name.node) != 0; });
}

Status checkKeepList(Operation* root, const std::vector<std::string>& names) {
  if (names.empty()) return okStatus();
  std::set<std::string> known;
  for (RegisteredOperationName op : root->getContext()->getRegisteredOperationsByDialect("hpu"))
    known.insert(op.stripDialect().str());
  root->walk([&](Operation* op) {
    for (const ir::SourceName& name : ir::sourceNames(op->getLoc())) known.insert(name.node);
  });
  for (const std::string& name : names)
    if (!known.count(name))
      return invalidArgument("'" + name + "' of " + base::optionName("keepF32") +
                             " is neither an op of the hpu dialect nor a node of the model" + suggestion(name, known));
  return okStatus();
}

}  // namespace hpu::precision
