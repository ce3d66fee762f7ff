// SPDX-License-Identifier: Apache-2.0
// Sizes within the bounds for which choices are made (NamedSizes.h).
#include <set>

#include "base/Format.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/import/NamedSizes.h"

namespace hpu::importer {

using namespace mlir;
using base::strCat;
using shape::DimExpr;

namespace {

/// Makes one of the guard's symbols smaller so that it holds: the largest such size near its own, or a power of two of
/// parts of it. False when there is none.
bool shrink(const SizeGuard& guard, const shape::SymbolBounds& bounds, shape::SymbolBindings& sizes) {
  constexpr int64_t kNear = 128;
  std::vector<std::string> symbols = guard.left.symbols();
  for (const std::string& symbol : guard.right.symbols()) symbols.push_back(symbol);
  for (const std::string& symbol : symbols) {
    const int64_t now = sizes.at(symbol), least = bounds.at(symbol).low;
    shape::SymbolBindings tried = sizes;
    auto fits = [&](int64_t size) {
      if (size < least) return false;
      tried[symbol] = size;
      return holds(guard, tried);
    };
    for (int64_t size = now - 1; size >= std::max(least, now - kNear); --size)
      if (fits(size)) return sizes[symbol] = size, true;
    for (int64_t size = now / 2; size > 0; size /= 2)
      if (fits(size)) return sizes[symbol] = size, true;
  }
  return false;
}

/// Makes sizes smaller until all guards hold; null: they do. Else the one that smaller sizes do not help.
const SizeGuard* shrinkUntilAllHold(const std::vector<SizeGuard>& guards, const shape::SymbolBounds& bounds,
                                    int mostSteps, shape::SymbolBindings& sizes) {
  for (int step = 0;; ++step) {
    const auto broken = llvm::find_if_not(guards, [&](const SizeGuard& guard) { return holds(guard, sizes); });
    if (broken == guards.end()) return nullptr;
    if (step == mostSteps || !shrink(*broken, bounds, sizes)) return &*broken;
  }
}

/// That every size which may be 0 within the bounds is not.
std::vector<SizeGuard> nonEmpty(ModuleOp module, const shape::SymbolBounds& bounds) {
  std::set<std::string> names;
  auto look = [&](mlir::Value value) {
    if (auto type = dyn_cast<RankedTensorType>(value.getType()))
      for (const ir::SymDim& dim : ir::symShape(type))
        if (dim.isNamed() && dim.symbol != ir::kNoExpression) names.insert(dim.symbol.str());
  };
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main) return {};
  for (BlockArgument argument : main.getArguments()) look(argument);
  main.walk([&](Operation* op) { llvm::for_each(op->getResults(), look); });
  std::vector<SizeGuard> guards;
  for (const std::string& name : names)
    if (const DimExpr size = DimExpr::parse(name); size.interval(bounds).low < 1)
      guards.push_back({false, 1, size, ""});
  return guards;
}

/// Where bounds are wide a tensor of many dimensions would be larger than memory is: the largest dimensions of such
/// ones are halved.
void fitMemory(ModuleOp module, const shape::SymbolBounds& bounds, shape::SymbolBindings& samples) {
  constexpr double kMostElements = double{1 << 30};
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main) return;
  auto fit = [&](mlir::Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || !ir::hasNamedSizes(type)) return;
    std::set<std::string> symbols;
    std::vector<DimExpr> sizes;
    for (const ir::SymDim& dim : ir::symShape(type)) {
      const std::optional<DimExpr> size = ir::exprOf(dim);
      if (!size) return;
      sizes.push_back(*size);
      for (const std::string& symbol : size->symbols()) symbols.insert(symbol);
    }
    while (true) {
      double elements = 1;
      for (const DimExpr& size : sizes)
        elements *= static_cast<double>(std::max<int64_t>(size.evaluate(samples).value_or(1), 1));
      if (elements <= kMostElements) return;
      const auto largest = std::max_element(
          symbols.begin(), symbols.end(), [&](const auto& a, const auto& b) { return samples.at(a) < samples.at(b); });
      if (largest == symbols.end()) return;
      int64_t& sample = samples.at(*largest);
      const int64_t half = std::max(bounds.at(*largest).low, sample / 2);
      if (half == sample)
        symbols.erase(largest);
      else
        sample = half;
    }
  };
  for (BlockArgument argument : main.getArguments()) fit(argument);
  main.walk([&](Operation* op) { llvm::for_each(op->getResults(), fit); });
}

}  // namespace

StatusOr<std::map<std::string, int64_t>> sampleSizes(ModuleOp module, const std::vector<SizeGuard>& guards) {
  constexpr int64_t kLargest = 4096, kUnbounded = 1024;
  constexpr int kMostSteps = 256;
  const shape::SymbolBounds bounds = ir::sizeBounds(module);
  const auto search = [&](const std::vector<SizeGuard>& asked) -> StatusOr<std::map<std::string, int64_t>> {
    shape::SymbolBindings samples;
    for (const auto& [name, own] : bounds)
      samples[name] = own.high <= kLargest ? own.high : std::max(own.low, kUnbounded);
    fitMemory(module, bounds, samples);
    const SizeGuard* broken = shrinkUntilAllHold(asked, bounds, kMostSteps, samples);
    if (!broken) return samples;
    std::vector<std::string> sizes;
    for (const auto& [name, size] : samples) sizes.push_back(strCat(name, " = ", size));
    return invalidArgument(strCat(broken->text, ", which does not hold for ", base::join(sizes),
                                  " and smaller sizes; give other bounds of these dimensions"));
  };
  // What has no elements at them would be left out of the program, and be missing at other sizes.
  std::vector<SizeGuard> whole = nonEmpty(module, bounds);
  whole.insert(whole.begin(), guards.begin(), guards.end());
  if (StatusOr<std::map<std::string, int64_t>> samples = search(whole); samples.ok()) return samples;
  return search(guards);
}

std::map<std::string, int64_t> middleSizes(ModuleOp module, const std::vector<SizeGuard>& guards,
                                           const std::map<std::string, int64_t>& largest) {
  constexpr int kMostSteps = 64;
  const shape::SymbolBounds bounds = ir::sizeBounds(module);
  shape::SymbolBindings sizes = largest;
  for (auto& [name, size] : sizes) size = std::max(bounds.at(name).low, (size + 1) / 2);
  std::vector<SizeGuard> asked = nonEmpty(module, bounds);
  asked.insert(asked.begin(), guards.begin(), guards.end());
  return shrinkUntilAllHold(asked, bounds, kMostSteps, sizes) ? largest : sizes;
}

std::vector<std::map<std::string, int64_t>> smallerSamples(ModuleOp module, const std::vector<SizeGuard>& guards,
                                                           const std::map<std::string, int64_t>& samples) {
  constexpr size_t kMostSamples = 4;
  constexpr int kMostSteps = 64;
  const shape::SymbolBounds bounds = ir::sizeBounds(module);
  std::vector<std::map<std::string, int64_t>> found;
  auto add = [&](shape::SymbolBindings sizes) {
    if (shrinkUntilAllHold(guards, bounds, kMostSteps, sizes)) return;
    if (sizes != samples && !llvm::is_contained(found, sizes) && found.size() < kMostSamples) found.push_back(sizes);
  };
  auto part = [&](const std::string& name, int64_t numerator, int64_t denominator) {
    return std::max(bounds.at(name).low, (samples.at(name) * numerator + denominator - 1) / denominator);
  };
  // A quarter, and beyond the middle: there other dimensions may be better to cut.
  for (const auto& [numerator, denominator] : {std::pair(1, 4), std::pair(3, 5)}) {
    shape::SymbolBindings all = samples;
    for (auto& [name, size] : all) size = part(name, numerator, denominator);
    add(all);
  }
  for (const auto& [name, size] : samples) {
    shape::SymbolBindings one = samples;
    one[name] = part(name, 1, 4);
    add(one);
  }
  auto product = [](const shape::SymbolBindings& sizes) {
    double all = 1;
    for (const auto& [name, size] : sizes) all *= static_cast<double>(std::max<int64_t>(size, 1));
    return all;
  };
  llvm::stable_sort(found, [&](const auto& a, const auto& b) { return product(a) < product(b); });
  return found;
}

}  // namespace hpu::importer
