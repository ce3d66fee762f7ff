// SPDX-License-Identifier: Apache-2.0
// The most that a size can be whatever the data is (DataSizeResolver.h).
// The one thing to know: most sizes grow with the data sizes in them, and are largest with their bounds. Others, as of
// x[1::2], are looked at case by case, one for each operand of a greatest or least value; what is then still taken away
// is left out, so that a bound may be larger than what any data asks for, and never smaller.
#include "compiler/import/DataSizeResolver.h"

namespace hpu::importer {

using shape::DimExpr;
using Part = DimExpr::Part;
using Kind = DimExpr::Part::Kind;

namespace {

/// Cases in turn that are looked at for one size.
constexpr int kMostCases = 6;
/// In their place: of sizes that grow with the data alone, whose bounds are exact.
constexpr int kExact = -1;

bool isExtremum(const Part& part) {
  return part.kind == Kind::kMax || part.kind == Kind::kMin;
}

bool anyHasDataSize(llvm::ArrayRef<DimExpr> sizes) {
  return llvm::any_of(sizes, hasDataSize);
}

/// The greatest or least of all.
std::optional<DimExpr> extremumOf(bool isMax, llvm::ArrayRef<DimExpr> sizes) {
  std::optional<DimExpr> result = sizes.front();
  for (const DimExpr& size : sizes.drop_front())
    if (result) result = isMax ? DimExpr::max(*result, size) : DimExpr::min(*result, size);
  return result;
}

std::optional<DimExpr> exprOfPart(const Part& part) {
  if (part.kind == Kind::kSymbol) return DimExpr::symbol(part.name);
  if (part.kind == Kind::kQuotient) return part.args[0].floorDiv(part.args[1]);
  if (isExtremum(part)) return extremumOf(part.kind == Kind::kMax, part.args);
  return DimExpr::select(part.kind == Kind::kSelectEqual ? DimExpr::Compare::kEqual : DimExpr::Compare::kLess,
                         part.args[0], part.args[1], part.args[2], part.args[3]);
}

using Replace = llvm::function_ref<std::optional<DimExpr>(const Part&)>;

/// Each part replaced, the inner ones first.
std::optional<DimExpr> rebuilt(const DimExpr& size, Replace replace) {
  std::optional<DimExpr> sum = DimExpr(0);
  for (const DimExpr::Term& term : size.terms()) {
    std::optional<DimExpr> product = DimExpr(term.coefficient);
    for (Part part : term.factors) {
      for (DimExpr& arg : part.args) {
        std::optional<DimExpr> own = rebuilt(arg, replace);
        if (!own) return std::nullopt;
        arg = std::move(*own);
      }
      const std::optional<DimExpr> factor = replace(part);
      product = product && factor ? product->times(*factor) : std::nullopt;
    }
    sum = sum && product ? sum->plus(*product) : std::nullopt;
  }
  return sum;
}

/// A greatest or least value of sizes that depend on data; the innermost of them.
std::optional<Part> someExtremum(const DimExpr& size) {
  for (const DimExpr::Term& term : size.terms())
    for (const Part& part : term.factors) {
      for (const DimExpr& arg : part.args)
        if (std::optional<Part> inner = someExtremum(arg)) return inner;
      if (isExtremum(part) && anyHasDataSize(part.args)) return part;
    }
  return std::nullopt;
}

bool neverBelow(const DimExpr& size, const DimExpr& other) {
  const std::optional<DimExpr> gap = size.minus(other);
  return gap && gap->interval().low >= 0;
}

}  // namespace

std::optional<DimExpr> DataSizeResolver::boundOfPart(const Part& part, int cases) const {
  if (part.kind == Kind::kSymbol) {
    auto found = bounds_.find(part.name);
    return found == bounds_.end() ? DimExpr::symbol(part.name) : found->second;
  }
  if (const auto now = limits_.empty() ? std::nullopt : exprOfPart(part))
    if (auto found = limits_.find(now->text()); found != limits_.end()) return found->second;
  Part most = part;
  const bool isSelect = part.kind == Kind::kSelectEqual || part.kind == Kind::kSelectLess;
  for (const auto& [i, arg] : llvm::enumerate(most.args)) {
    // What divides is for all data the same; of what is chosen by the data either may be.
    const bool grows = isSelect ? i >= 2 : part.kind != Kind::kQuotient || i == 0;
    if (!grows) {
      if (hasDataSize(arg) && !isSelect) return std::nullopt;
      continue;
    }
    std::optional<DimExpr> own = boundOf(arg, cases);
    if (!own) return std::nullopt;
    arg = std::move(*own);
  }
  if (isSelect && anyHasDataSize(llvm::ArrayRef(part.args).take_front(2)))
    return DimExpr::max(most.args[2], most.args[3]);
  return exprOfPart(most);
}

std::optional<DimExpr> DataSizeResolver::boundOfGrowing(const DimExpr& size, bool leavesOut, int cases) const {
  std::optional<DimExpr> sum = DimExpr(0);
  for (const DimExpr::Term& term : size.terms()) {
    std::optional<DimExpr> product = DimExpr(term.coefficient), own = DimExpr(1);
    bool isFixed = true, grows = true;
    for (const Part& part : term.factors) {
      const bool isData = part.kind == Kind::kSymbol ? bounds_.count(part.name) != 0 : anyHasDataSize(part.args);
      isFixed &= !isData;
      const std::optional<DimExpr> factor = boundOfPart(part, cases), now = exprOfPart(part);
      // A factor below 0 would turn around how the others grow.
      grows &= factor && (term.factors.size() == 1 || factor->lowerBound().value_or(-1) >= 0);
      product = product && factor ? product->times(*factor) : std::nullopt;
      own = own && now ? own->times(*now) : std::nullopt;
    }
    if (!isFixed && term.coefficient < 0) {
      if (!leavesOut || !own || own->lowerBound().value_or(-1) < 0) return std::nullopt;
      continue;
    }
    if (!grows || !product || !sum) return std::nullopt;
    sum = sum->plus(*product);
  }
  return sum;
}

std::optional<DimExpr> DataSizeResolver::boundOfCases(const DimExpr& size, int cases) const {
  // Nothing is larger than a - max(b, c) than either a - b or a - c, nor than a + min(b, c).
  for (const DimExpr::Term& term : size.terms()) {
    if (term.factors.size() != 1 || !anyHasDataSize(term.factors[0].args)) continue;
    const Part& part = term.factors[0];
    if (part.kind != (term.coefficient < 0 ? Kind::kMax : Kind::kMin)) continue;
    const std::optional<DimExpr> now = exprOfPart(part), taken = now ? now->times(term.coefficient) : std::nullopt,
                                 rest = taken ? size.minus(*taken) : std::nullopt;
    std::vector<DimExpr> bounds;
    for (const DimExpr& arg : part.args) {
      const auto other = arg.times(term.coefficient), left = rest && other ? rest->plus(*other) : std::nullopt;
      if (const auto own = left ? boundOf(*left, cases) : std::nullopt) bounds.push_back(*own);
    }
    return bounds.empty() ? std::nullopt : extremumOf(/*isMax=*/false, bounds);
  }
  const std::optional<Part> chosen = someExtremum(size);
  const std::optional<DimExpr> now = chosen ? exprOfPart(*chosen) : std::nullopt;
  if (!now) return std::nullopt;
  std::vector<DimExpr> bounds;
  for (const DimExpr& arg : chosen->args) {
    const std::optional<DimExpr> one = rebuilt(size, [&](const Part& part) {
      std::optional<DimExpr> own = exprOfPart(part);
      return own && *own == *now ? std::optional(arg) : own;
    });
    const std::optional<DimExpr> own = one ? boundOf(*one, cases) : std::nullopt;
    if (!own) return std::nullopt;
    bounds.push_back(*own);
  }
  return extremumOf(/*isMax=*/true, bounds);
}

std::optional<DimExpr> DataSizeResolver::boundOf(const DimExpr& size, int cases) const {
  if (!hasDataSize(size)) return size;
  if (auto found = limits_.find(size.text()); found != limits_.end()) return found->second;
  std::optional<DimExpr> most = boundOfGrowing(size, /*leavesOut=*/false, cases);
  if (cases == kExact) return most;
  if (!most && cases > 0) most = boundOfCases(size, cases - 1);
  if (!most) most = boundOfGrowing(size, /*leavesOut=*/true, cases);
  if (most) return most->simplified();
  const shape::Interval any = size.interval();
  return any.high != shape::Interval::kNoHigh ? std::optional<DimExpr>(any.high) : std::nullopt;
}

std::optional<DimExpr> DataSizeResolver::bound(const DimExpr& size) const {
  return boundOf(size, kMostCases);
}

DimExpr DataSizeResolver::settled(const DimExpr& size) const {
  if (!hasDataSize(size)) return size;
  const std::optional<DimExpr> result = rebuilt(size, [&](const Part& part) {
    if (!isExtremum(part)) return exprOfPart(part);
    Part left = part;
    auto isExcluded = [&](size_t k) {
      return llvm::any_of(llvm::seq<size_t>(0, left.args.size()), [&](size_t i) {
        if (i == k) return false;
        const bool isMax = part.kind == Kind::kMax;
        const std::optional<DimExpr> most = bound(left.args[isMax ? k : i]);
        return most && neverBelow(left.args[isMax ? i : k], *most);
      });
    };
    for (size_t k = left.args.size(); k-- > 0;)
      if (isExcluded(k)) left.args.erase(left.args.begin() + static_cast<std::ptrdiff_t>(k));
    return left.args.size() == 1 ? std::optional(left.args[0]) : exprOfPart(left);
  });
  return result.value_or(size);
}

void DataSizeResolver::limit(const DimExpr& size, const DimExpr& most) {
  // One that grows with the data has an exact bound.
  if (limits_.count(size.text()) || boundOfGrowing(size, /*leavesOut=*/false, kExact)) return;
  const std::optional<DimExpr> now = bound(size), least = now ? DimExpr::min(*now, most) : most;
  if (least) limits_.insert_or_assign(size.text(), least->simplified());
}

}  // namespace hpu::importer
