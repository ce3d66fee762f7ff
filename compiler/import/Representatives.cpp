// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/Representatives.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "base/Clip.h"
#include "base/Format.h"
#include "base/StatusMacros.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/import/EqualSizes.h"
#include "compiler/import/NamedSizes.h"
#include "compiler/import/Specialize.h"
#include "compiler/import/ValueSizes.h"
#include "compiler/support/Cancellation.h"
#include "compiler/support/Units.h"
#include "llvm/ADT/StringExtras.h"
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
/// Every dimension has its prime times the same one of these: images whose sizes are halved and doubled again only fit
/// together at multiples of a power of two, and parts of a dimension that is split are equal at multiples of their
/// number.
constexpr int64_t kMultiples[] = {1, 2, 4, 8, 16, 32, 64, 3, 6, 12, 24, 48, 5, 10, 20, 7, 9, 36, 60};
constexpr size_t kMostSmall = 14;    ///< Of one dimension.
constexpr size_t kMostBeyond = 4;    ///< Of these, outside of the bounds.
constexpr size_t kMostTrials = 256;  ///< Of small ones: each costs the inference of all types.

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
    for (const ir::SymDim& dim : ir::symShape(ir::tensorOf(argument)))
      if (dim.isFree() && dim.isNamed())
        for (const std::string& name : shape::DimExpr::parse(dim.symbol.getValue()).symbols())
          if (!options.dims.count(name)) symbols.insert(name);
  return symbols;
}

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

/// For each dimension that cannot be as large as the large primes, limits of a fixed dimension mostly, a prime within
/// its bounds that no other one has: the largest, or in the other order the smallest of as many as follow, so that
/// later ones are larger.
SizeAssignment primesWithin(const shape::SymbolBounds& bounds, const std::set<int64_t>& numbers, bool isReversed) {
  std::vector<int64_t> left;
  for (int64_t prime : kSmallPrimes)
    if (!divides(prime, numbers)) left.push_back(prime);
  SizeAssignment sizes;
  size_t follow = bounds.size();
  for (const auto& [name, own] : bounds) {
    --follow;
    if (own.high >= kLargePrimes[0]) continue;
    auto chosen = llvm::find_if(left, [&own = own](int64_t prime) { return own.contains(prime); });
    if (isReversed && chosen != left.end())
      chosen += std::min<std::ptrdiff_t>(left.end() - chosen - 1, static_cast<std::ptrdiff_t>(follow));
    if (chosen == left.end() || !own.contains(*chosen)) continue;
    sizes[name] = *chosen;
    left.erase(chosen);
  }
  return sizes;
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

/// The free dimension whose representative each of them has: itself, or an equal one that is free, too.
std::map<std::string, std::string> standIns(const std::set<std::string>& symbols, const EqualSizes& equal) {
  std::map<std::string, std::string> standIns;
  for (const std::string& name : symbols) {
    const std::string one = equal.standFor(name);
    standIns[name] = symbols.count(one) ? one : name;
  }
  return standIns;
}

/// The bounds of those that stand for others: what all of them have in common, where there is something.
shape::SymbolBounds boundsOf(const std::map<std::string, std::string>& standIns, const shape::SymbolBounds& bounds) {
  shape::SymbolBounds common;
  for (const auto& [name, one] : standIns) {
    const shape::Interval own = bounds.at(name);
    auto [slot, isNew] = common.try_emplace(one, own);
    const shape::Interval both{std::max(slot->second.low, own.low), std::min(slot->second.high, own.high)};
    if (both.low <= both.high) slot->second = both;
  }
  return common;
}

/// Whether the name stands in a text as a word of its own.
bool mentions(llvm::StringRef text, llvm::StringRef name) {
  auto isPartOfWord = [&](size_t i) { return i < text.size() && (llvm::isAlnum(text[i]) || text[i] == '_'); };
  for (size_t at = text.find(name); at != llvm::StringRef::npos; at = text.find(name, at + 1))
    if ((at == 0 || !isPartOfWord(at - 1)) && !isPartOfWord(at + name.size())) return true;
  return false;
}

/// What is said of the sizes is said of these. Whether values of inputs fit together is not looked at until they are
/// numbers.
Status withStandIns(const Status& status, const shape::SymbolBindings& samples, ArrayRef<std::string> values) {
  std::string text;
  const bool isOfValues =
      llvm::any_of(values, [&](const std::string& name) { return mentions(status.message(), name); });
  for (const auto& [name, sample] : samples) text += strCat(text.empty() ? "" : ", ", name, " = ", sample);
  return Status(isOfValues ? StatusCode::kUnimplemented : status.code(),
                strCat(status.message(), " (sizes that are given late stand as ", base::clipped(text),
                       "; what is said of them has to hold whatever they are: give sizes to some)"));
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
  const size_t count = names.size();
  std::vector<SizeAssignment> tried;
  // In either order, as which of two is larger decides whether what lies between them is empty.
  for (int64_t times : kMultiples)
    for (const bool isReversed : {false, true}) {
      if (isReversed && count < 2) continue;
      SizeAssignment& sizes = tried.emplace_back();
      for (size_t i = 0; i < count; ++i) sizes[names[i]] = primes[isReversed ? count - 1 - i : i] * times;
    }
  // Smaller ones for tensors of very many dimensions, which would be larger than any memory.
  std::vector<int64_t> medium;
  for (int64_t prime : llvm::reverse(kSmallPrimes))
    if (prime > 7 && !divides(prime, numbers)) medium.push_back(prime);
  for (const bool isReversed : {false, true}) {
    if (count < 5 || medium.size() < count) break;
    SizeAssignment& sizes = tried.emplace_back();
    for (size_t i = 0; i < count; ++i) sizes[names[i]] = medium[isReversed ? count - 1 - i : i];
  }
  const SizeAssignment large = tried.front();
  const size_t most = tried.size() + kMostTrials;
  auto add = [&](const SizeAssignment& small) {
    if (std::optional<SizeAssignment> sizes = with(large, small); sizes && tried.size() < most)
      tried.push_back(std::move(*sizes));
  };
  for (const bool isReversed : {false, true})
    if (const SizeAssignment sizes = primesWithin(bounds, numbers, isReversed); !sizes.empty()) add(sizes);
  std::vector<std::vector<int64_t>> small;
  for (const auto& [name, own] : bounds) small.push_back(smallOnes(own, numbers));
  for (size_t i = 0; i < count; ++i)
    for (int64_t size : small[i]) add({{names[i], size}});
  // Several at once, each at its place in the order or one further than the dimension before it or behind it.
  auto addTogether = [&](const std::vector<size_t>& chosen) {
    for (size_t k = 0; chosen.size() > 1 && k < kMostSmall; ++k)
      for (const int step : {0, 1, -1}) {
        SizeAssignment sizes;
        for (size_t i = 0; i < chosen.size(); ++i) {
          const std::vector<int64_t>& own = small[chosen[i]];
          const size_t ahead = step == 0 ? 0 : step > 0 ? i : chosen.size() - 1 - i;
          if (!own.empty()) sizes[names[chosen[i]]] = own[std::min(k + ahead, own.size() - 1)];
        }
        add(sizes);
      }
  };
  std::vector<size_t> all, narrow;  // Limits of a fixed dimension are narrow; what they cut off may be large.
  for (size_t i = 0; i < count; ++i) {
    all.push_back(i);
    if (bounds.at(names[i]).high < kLargePrimes[0]) narrow.push_back(i);
  }
  if (narrow.size() > 2 && narrow.size() < count) addTogether(narrow);
  addTogether(all);
  for (size_t i = 0; i < count; ++i)
    for (size_t j = i + 1; j < count; ++j)
      for (int64_t a : small[i])
        for (int64_t b : small[j]) add({{names[i], a}, {names[j], b}});
  return tried;
}

Status checkRepresented(ModuleOp module, Apart apart) {
  const shape::SymbolBounds bounds = ir::sizeBounds(module);
  std::map<std::string, std::string> equal;
  for (const auto& [one, name] : equalSizes(module)) equal[name] = one;
  auto exprOf = [&](const ir::SymDim& dim) {
    const std::optional<shape::DimExpr> expr = ir::exprOf(dim);
    return expr && !equal.empty() ? expr->renamed(equal) : expr;
  };
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
      if (isNew || apart == Apart::kNothing || (apart == Apart::kOnes && dim.size != 1) || other == dim) continue;
      const auto a = exprOf(other), b = exprOf(dim);
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

Status representModule(ModuleOp module, const ImportOptions& options, const std::map<std::string, DimBounds>& bounds) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main) return invalidArgument("the module has no function @main");
  ImportOptions represented = options;
  std::vector<std::string> values;  // Those stay: a launch is told whether its input has the only value.
  for (const ValueSize& size : valueSizes(module)) values.push_back(size.symbol);
  for (const auto& [name, own] : bounds)
    if (own.min == own.max && !llvm::is_contained(values, name)) represented.dims.emplace(name, own.min);
  const EqualSizes equal(main);
  // A size that is joined with a number can be that one only.
  for (const auto& [name, size] : equal.fixed()) {
    const auto found = bounds.find(name);
    const bool isWithin = found == bounds.end() || (found->second.min <= size && size <= found->second.max);
    if (isWithin && !llvm::is_contained(values, name)) represented.dims.emplace(name, size);
  }
  const std::set<std::string> symbols = openSymbols(main, represented);
  if (symbols.empty()) return specializeModule(module, represented);
  std::set<int64_t> numbers;
  addNumbers(main, numbers);
  Builder builder(module.getContext());
  SmallVector<NamedAttribute> pairs;
  for (const std::string& name : symbols) {
    const auto found = bounds.find(name);
    const shape::Interval own = found == bounds.end()
                                    ? shape::Interval{1, kLargestSize}
                                    : shape::Interval{found->second.min, std::min(found->second.max, kLargestSize)};
    represented.bounds[name] = own;
    pairs.push_back(builder.getNamedAttr(name, builder.getDenseI64ArrayAttr({own.low, own.high})));
  }
  const std::map<std::string, std::string> standing = standIns(symbols, equal);
  HPU_ASSIGN(const std::vector<SizeAssignment> tried,
             representativesOf(boundsOf(standing, represented.bounds), numbers));
  Status first, unnamed;  // Operands that fit together say more of what is wrong.
  const auto take = [&](ModuleOp trial) {
    module.getBodyRegion().takeBody(trial.getBodyRegion());
    module->setAttrs(trial->getAttrDictionary());
    return okStatus();
  };
  OwningOpRef<ModuleOp> kept;  // Fits, but a size is 1 there.
  for (const SizeAssignment& sizes : tried) {
    if (support::isCancelled()) return support::cancelledStatus();
    const bool small = isSmall(sizes);
    if (small && kept) break;
    for (const auto& [name, one] : standing) represented.samples[name] = sizes.at(one);
    OwningOpRef<ModuleOp> trial = module.clone();
    (*trial)->setAttr(ir::kSamplesAttr, samplesAttr(module.getContext(), represented.samples));
    (*trial)->setAttr(ir::kBoundsAttr, builder.getDictionaryAttr(pairs));
    equal.record(*trial, represented.samples);
    Status status = specializeModule(*trial, represented);
    if (!status.ok()) status = withStandIns(status, represented.samples, values);
    if (status.ok()) status = checkRepresented(*trial, small ? Apart::kAll : Apart::kNothing);
    if (status.ok()) {
      // Nothing tells a size of 1 from one that is repeated along the other operand's size.
      const bool hasOne = !small && !checkRepresented(*trial, Apart::kOnes).ok();
      status = nameSizes(*trial, /*fromPhase=*/false);
      if (status.ok() && !hasOne) return take(*trial);
      if (status.ok()) {
        if (!kept) kept = std::move(trial);
        continue;
      }
      if (unnamed.ok()) unnamed = status;
    }
    if (first.ok()) first = status;
  }
  if (kept) return take(*kept);
  return unnamed.ok() ? first : unnamed;
}

}  // namespace hpu::importer
