// SPDX-License-Identifier: Apache-2.0
// Which representatives the free dimensions of a module get.
#include <set>

#include "base/Clip.h"
#include "base/Format.h"
#include "base/StatusMacros.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/import/EqualSizes.h"
#include "compiler/import/NamedSizes.h"
#include "compiler/import/Specialize.h"
#include "compiler/import/ValueSizes.h"

namespace hpu::importer {

using namespace mlir;
using base::strCat;
using ir::SymDim;
using shape::DimExpr;

namespace {

/// Every symbol gets one of these, times the same number: images whose sizes are halved and doubled again only
/// fit together at multiples of one.
constexpr int64_t kPrimes[] = {101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167, 173, 179};
/// For sizes that cannot be as large.
constexpr int64_t kSmallPrimes[] = {97, 89, 83, 79, 73, 71, 67, 61, 59, 53, 47, 43,
                                    41, 37, 31, 29, 23, 19, 17, 13, 11, 7,  5};
/// Parts of a dimension that is split are equal at multiples of their number.
constexpr int64_t kMultiples[] = {1, 2, 4, 8, 16, 32, 64, 3, 6, 12, 24, 48, 5, 10, 20, 7, 9, 36, 60};
/// Where no bound is given: far beyond what memory holds, and products of a few still have 64 bits.
constexpr int64_t kLargestSize = int64_t{1} << 32;

void addNumbers(func::FuncOp main, std::set<int64_t>& numbers) {
  auto add = [&](Type type) {
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      for (int64_t size : tensor.getShape())
        if (!ShapedType::isDynamic(size)) numbers.insert(size);
  };
  main.walk([&](Operation* op) {
    for (Type type : op->getResultTypes()) add(type);
  });
  for (BlockArgument argument : main.getArguments()) add(argument.getType());
}

/// The free dimensions of the inputs that no option gives a size, and those that are values of inputs.
std::set<std::string> openSymbols(func::FuncOp main, const ImportOptions& options) {
  std::set<std::string> symbols;
  for (const ValueSize& size : valueSizes(main->getParentOfType<ModuleOp>())) symbols.insert(size.symbol);
  for (BlockArgument argument : main.getArguments())
    for (const SymDim& dim : ir::symShape(ir::tensorOf(argument)))
      if (dim.isFree() && dim.isNamed())
        for (const std::string& name : DimExpr::parse(dim.symbol.getValue()).symbols())
          if (!options.dims.count(name)) symbols.insert(name);
  return symbols;
}

/// What later phases are told of the sizes.
void setRepresentatives(ModuleOp module, const ImportOptions& represented, const EqualSizes& equal) {
  module->setAttr(ir::kSamplesAttr, samplesAttr(module.getContext(), represented.samples));
  Builder builder(module.getContext());
  SmallVector<NamedAttribute> pairs;
  for (const auto& [name, own] : represented.bounds)
    pairs.push_back(builder.getNamedAttr(name, builder.getDenseI64ArrayAttr({own.low, own.high})));
  module->setAttr(ir::kBoundsAttr, builder.getDictionaryAttr(pairs));
  equal.record(module, represented.samples);
}

}  // namespace

Status representModule(ModuleOp module, const ImportOptions& options, const std::map<std::string, DimBounds>& bounds) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main) return invalidArgument("the module has no function @main");
  ImportOptions given = options;
  std::vector<std::string> values;  // Those stay: a launch is told whether its input has the only value.
  for (const ValueSize& size : valueSizes(module)) values.push_back(size.symbol);
  for (const auto& [name, own] : bounds)
    if (own.min == own.max && !llvm::is_contained(values, name)) given.dims.emplace(name, own.min);
  const std::set<std::string> symbols = openSymbols(main, given);
  if (symbols.empty()) return specializeModule(module, given);
  std::set<int64_t> numbers;
  addNumbers(main, numbers);
  std::vector<int64_t> primes;
  auto isFree = [&](int64_t prime) {
    return llvm::none_of(numbers, [&](int64_t number) { return number != 0 && number % prime == 0; });
  };
  for (int64_t prime : kPrimes)
    if (isFree(prime)) primes.push_back(prime);
  if (symbols.size() > primes.size())
    return invalidArgument(
        strCat("at most ", primes.size(), " dimensions can be given late, and ", symbols.size(),
               " are free: ", base::clipped(base::join(std::vector<std::string>(symbols.begin(), symbols.end())))));
  const EqualSizes equal(main);
  Status first;
  // What stands for the sizes: primes[i] times a number, for the i-th of them in either order, as which of two is
  // larger decides whether what lies between them is empty. Limits of a fixed dimension have to be within it, and so
  // are small in the end.
  auto fits = [&](int64_t times, bool isReversed, bool isSmall) -> StatusOr<OwningOpRef<ModuleOp>> {
    ImportOptions represented = given;
    std::vector<int64_t> small;  // For those that are as small, in their order.
    for (int64_t prime : kSmallPrimes)
      if (isFree(prime)) small.push_back(prime);
    size_t next = 0;
    for (const std::string& name : symbols) {
      const std::string one = equal.standFor(name);
      const auto found = bounds.find(name);
      const shape::Interval own = found == bounds.end()
                                      ? shape::Interval{1, kLargestSize}
                                      : shape::Interval{found->second.min, std::min(found->second.max, kLargestSize)};
      int64_t sample = primes[isReversed ? symbols.size() - 1 - next : next] * times;
      ++next;
      if (isSmall && own.high < kPrimes[0]) {
        // The largest that fits; in the other order the smallest of as many as follow, so that later ones are larger.
        auto fit = [&](int64_t prime) { return prime >= own.low && prime <= own.high; };
        auto chosen = llvm::find_if(small, fit);
        if (isReversed && chosen != small.end()) {
          const auto left = static_cast<size_t>(small.end() - chosen), ahead = symbols.size() - next;
          chosen += static_cast<std::ptrdiff_t>(std::min(left - 1, ahead));
        }
        if (chosen != small.end() && fit(*chosen)) {
          sample = *chosen;
          small.erase(chosen);
        }
      }
      represented.samples[name] = one != name && represented.samples.count(one) ? represented.samples[one] : sample;
      represented.bounds[name] = own;
    }
    OwningOpRef<ModuleOp> trial = module.clone();
    Status status = specializeModule(*trial, represented);
    if (status.ok()) {
      setRepresentatives(*trial, represented, equal);
      status = nameSizes(*trial);
    }
    if (status.ok()) return trial;
    std::string standIns;
    for (const auto& [name, sample] : represented.samples)
      standIns += strCat(standIns.empty() ? "" : ", ", name, " = ", sample);
    return Status(status.code(),
                  strCat(status.message(), " (sizes that are given late stand as ", base::clipped(standIns),
                         "; what is said of them has to hold whatever they are: give sizes to some)"));
  };
  auto take = [&](StatusOr<OwningOpRef<ModuleOp>> trial) {
    if (!trial.ok()) {
      if (first.ok()) first = trial.status();
      return false;
    }
    module.getBodyRegion().takeBody((*trial)->getBodyRegion());
    module->setAttrs((**trial)->getAttrDictionary());
    return true;
  };
  for (const int64_t times : kMultiples)
    for (const bool isReversed : {false, true})
      if (take(fits(times, isReversed, /*isSmall=*/false))) return okStatus();
  for (const bool isReversed : {false, true})
    if (take(fits(1, isReversed, /*isSmall=*/true))) return okStatus();
  return first;
}

}  // namespace hpu::importer
