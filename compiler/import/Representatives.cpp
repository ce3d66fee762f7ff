// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/Representatives.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "base/Clip.h"
#include "base/Format.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/support/Units.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "shape/DimExpr.h"

namespace hpu::importer {

using namespace mlir;
using base::strCat;

namespace {

constexpr int64_t kLargePrimes[] = {101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167, 173, 179};
/// In the order in which they are tried.
constexpr int64_t kSmallPrimes[] = {97, 89, 83, 79, 73, 71, 67, 61, 59, 53, 47, 43,
                                    41, 37, 31, 29, 23, 19, 17, 13, 11, 7,  5,  3};
/// Every dimension has its prime times the same power: images whose sizes are halved and doubled again only fit
/// together at multiples of one.
constexpr int64_t kMostPower = 64;
constexpr size_t kMostSmall = 14;    ///< Of one dimension.
constexpr size_t kMostBeyond = 4;    ///< Of these, outside of the bounds.
constexpr size_t kMostTrials = 256;  ///< Of small ones: each costs the inference of all types.

bool divides(int64_t prime, const std::set<int64_t>& numbers) {
  return llvm::any_of(numbers, [&](int64_t number) { return number != 0 && number % prime == 0; });
}

/// Within the bounds, evenly from the largest to the smallest, and then a few beyond them: where bounds are narrow
/// their primes may all be in numbers of the model.
std::vector<int64_t> smallOnes(shape::Interval bounds, const std::set<int64_t>& numbers) {
  std::vector<int64_t> all, some;
  for (int64_t power : {1, 2, 4, 8})
    for (int64_t prime : kSmallPrimes)
      if (bounds.contains(prime * power) && !divides(prime, numbers)) all.push_back(prime * power);
  llvm::sort(all, std::greater<int64_t>());
  const size_t within = std::min(all.size(), kMostSmall - kMostBeyond);
  for (size_t i = 0; i < within; ++i) some.push_back(all[within == 1 ? 0 : i * (all.size() - 1) / (within - 1)]);
  for (int64_t prime : llvm::reverse(kSmallPrimes))
    if (prime > bounds.high && some.size() < within + kMostBeyond && !divides(prime, numbers)) some.push_back(prime);
  return some;
}

/// Replaces the sizes of some dimensions; nullopt where two then have the same prime.
std::optional<SizeAssignment> with(SizeAssignment sizes, const SizeAssignment& others) {
  std::set<int64_t> primes;
  for (auto& [name, size] : sizes) {
    if (auto found = others.find(name); found != others.end()) size = found->second;
    if (!primes.insert(ir::primeOf(size)).second) return std::nullopt;
  }
  return sizes;
}

}  // namespace

bool isSmall(const SizeAssignment& sizes) {
  return llvm::any_of(sizes, [](const auto& each) { return ir::primeOf(each.second) < kLargePrimes[0]; });
}

StatusOr<std::vector<SizeAssignment>> representativesOf(const shape::SymbolBounds& bounds,
                                                        const std::set<int64_t>& numbers) {
  std::vector<int64_t> primes;
  for (int64_t prime : kLargePrimes)
    if (!divides(prime, numbers)) primes.push_back(prime);
  std::vector<std::string> names;
  for (const auto& [name, own] : bounds) names.push_back(name);
  if (names.size() > primes.size())
    return invalidArgument(strCat("at most ", primes.size(), " dimensions can be given late, and ", names.size(),
                                  " are free: ", base::clipped(base::join(names)), "; give sizes to some"));
  std::vector<SizeAssignment> tried;
  for (int64_t power = 1; power <= kMostPower; power *= 2) {
    SizeAssignment& sizes = tried.emplace_back();
    for (size_t i = 0; i < names.size(); ++i) sizes[names[i]] = primes[i] * power;
  }
  const SizeAssignment large = tried.front();
  const size_t most = tried.size() + kMostTrials;
  auto add = [&](const SizeAssignment& small) {
    if (std::optional<SizeAssignment> sizes = with(large, small); sizes && tried.size() < most)
      tried.push_back(std::move(*sizes));
  };
  std::vector<std::vector<int64_t>> small;
  for (const auto& [name, own] : bounds) small.push_back(smallOnes(own, numbers));
  for (size_t i = 0; i < names.size(); ++i)
    for (int64_t size : small[i]) add({{names[i], size}});
  // All at once, each at its place in the order or one further than the dimension before it.
  for (size_t ahead = 0; names.size() > 1 && ahead < 2; ++ahead)
    for (size_t k = 0; k < kMostSmall; ++k) {
      SizeAssignment sizes;
      for (size_t i = 0; i < names.size(); ++i)
        if (!small[i].empty()) sizes[names[i]] = small[i][std::min(k + i * ahead, small[i].size() - 1)];
      add(sizes);
    }
  for (size_t i = 0; i < names.size(); ++i)
    for (size_t j = i + 1; j < names.size(); ++j)
      for (int64_t a : small[i])
        for (int64_t b : small[j]) add({{names[i], a}, {names[j], b}});
  return tried;
}

Status checkRepresented(ModuleOp module, bool apart) {
  const shape::SymbolBounds bounds = ir::sizeBounds(module);
  std::map<int64_t, ir::SymDim> known = {{1, ir::SymDim{1}}};
  Status status;
  auto look = [&](mlir::Value value, llvm::function_ref<std::string()> where) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || !status.ok()) return;
    for (const ir::SymDim& dim : ir::symShape(type)) {
      if (dim.isNamed() && dim.size <= 0) {
        status = invalidArgument(
            strCat("no sizes within the bounds were found at which all parts of the model have "
                   "elements: the size ",
                   dim.symbol.str(), " of ", where(), " is the one that has none; give other bounds, or a size"));
        return;
      }
      auto [slot, isNew] = known.try_emplace(dim.size, dim);
      const ir::SymDim& other = slot->second;
      if (isNew || !apart || other == dim) continue;
      const auto a = ir::exprOf(other), b = ir::exprOf(dim);
      if (a && b && shape::DimExpr::equal(*a, *b, bounds) == true) continue;
      status = invalidArgument(strCat("two sizes agree by chance at ", where()));
      return;
    }
  };
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main) return status;
  for (BlockArgument argument : main.getArguments())
    look(argument, [&] { return strCat("input ", argument.getArgNumber()); });
  main.walk([&](Operation* op) {
    for (mlir::Value result : op->getResults()) look(result, [&] { return ir::unitName(op); });
  });
  return status;
}

}  // namespace hpu::importer
