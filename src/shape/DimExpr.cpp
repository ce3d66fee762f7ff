// SPDX-License-Identifier: Apache-2.0
#include "shape/DimExpr.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "base/Math.h"
#include "shape/DimExprAtom.h"
#include "shape/DimExprParser.h"

namespace hpu::shape {
namespace {

/// Sizes of models have a few terms of a few factors. Beyond this an expression is as little a number as one that
/// overflows.
constexpr size_t kMostTerms = 64, kMostProducts = 512, kMostFactors = 64, kMostText = 4096;
constexpr int kMostDepth = 16;

bool add(int64_t a, int64_t b, int64_t& out) {
  return !__builtin_add_overflow(a, b, &out);
}
bool mul(int64_t a, int64_t b, int64_t& out) {
  return !__builtin_mul_overflow(a, b, &out);
}

}  // namespace

bool DimExpr::Factor::operator<(const Factor& other) const {
  return atom != other.atom && atom->text < other.atom->text;
}

bool DimExpr::Factor::operator==(const Factor& other) const {
  return atom == other.atom || atom->text == other.atom->text;
}

bool DimExpr::operator==(const DimExpr& other) const {
  return terms_ == other.terms_;
}

DimExpr::DimExpr(int64_t constant) {
  if (constant != 0) terms_[{}] = constant;
}

DimExpr DimExpr::symbol(std::string name) {
  Atom atom{Atom::Kind::kSymbol, std::move(name), {}, ""};
  atom.text = isPlainName(atom.name) ? atom.name : quotedName(atom.name);
  DimExpr result;
  result.terms_[{Factor{std::make_shared<const Atom>(std::move(atom))}}] = 1;
  return result;
}

std::vector<DimExpr::Term> DimExpr::terms() const {
  std::vector<Term> terms;
  for (const auto& [factors, coefficient] : terms_) {
    Term& term = terms.emplace_back(Term{coefficient, {}});
    for (const Factor& factor : factors)
      term.factors.push_back({factor.atom->kind, factor.atom->name, factor.atom->args});
  }
  return terms;
}

std::optional<DimExpr> DimExpr::make(Atom atom) {
  const auto& args = atom.args;
  switch (atom.kind) {
    case Atom::Kind::kSymbol:
      break;
    case Atom::Kind::kQuotient:
      atom.text = "floor(" + args[0].factorText() + " / " + args[1].factorText() + ")";
      break;
    case Atom::Kind::kMax:
    case Atom::Kind::kMin:
      atom.text = atom.kind == Atom::Kind::kMax ? "max(" : "min(";
      for (size_t i = 0; i < args.size(); ++i) atom.text += (i ? ", " : "") + args[i].innerText();
      atom.text += ")";
      break;
    case Atom::Kind::kSelectEqual:
    case Atom::Kind::kSelectLess:
      atom.text = "select(" + args[0].innerText() + (atom.kind == Atom::Kind::kSelectEqual ? " == " : " < ") +
                  args[1].innerText() + ", " + args[2].innerText() + ", " + args[3].innerText() + ")";
      break;
  }
  DimExpr result;
  result.terms_[{Factor{std::make_shared<const Atom>(std::move(atom))}}] = 1;
  return result.onlyIfSmall();
}

DimExpr DimExpr::parse(std::string_view text) {
  if (std::optional<DimExpr> parsed = DimExprParser(text).whole()) return *parsed;
  return symbol(std::string(text));
}

int DimExpr::depth() const {
  int most = 0;
  for (const auto& [factors, coefficient] : terms_)
    for (const Factor& factor : factors)
      for (const DimExpr& arg : factor.atom->args) most = std::max(most, 1 + arg.depth());
  return most;
}

std::optional<DimExpr> DimExpr::onlyIfSmall() const {
  if (terms_.size() > kMostTerms) return std::nullopt;
  size_t characters = 0;
  bool hasAtoms = false;
  for (const auto& [factors, coefficient] : terms_) {
    if (factors.size() > kMostFactors) return std::nullopt;
    for (const Factor& factor : factors) {
      if (factor.atom->args.empty()) continue;
      hasAtoms = true;
      characters += factor.atom->text.size();
    }
  }
  if (characters > kMostText || (hasAtoms && depth() > kMostDepth)) return std::nullopt;
  return *this;
}

bool DimExpr::isConstant() const {
  return terms_.empty() || (terms_.size() == 1 && terms_.begin()->first.empty());
}

std::optional<int64_t> DimExpr::constant() const {
  if (!isConstant()) return std::nullopt;
  return terms_.empty() ? 0 : terms_.begin()->second;
}

std::optional<std::string> DimExpr::asSymbol() const {
  const Atom* atom = onlyAtom();
  return atom && atom->kind == Atom::Kind::kSymbol ? std::optional(atom->name) : std::nullopt;
}

const DimExpr::Atom* DimExpr::onlyAtom() const {
  if (terms_.size() != 1) return nullptr;
  const auto& [factors, coefficient] = *terms_.begin();
  return factors.size() == 1 && coefficient == 1 ? factors[0].atom.get() : nullptr;
}

std::string DimExpr::text() const {
  // A name that nothing else can be read in stands as it is.
  if (const std::optional<std::string> name = asSymbol(); name && !DimExprParser(*name).whole()) return *name;
  return innerText();
}

std::string DimExpr::innerText() const {
  if (terms_.empty()) return "0";
  // Higher degrees first, the constant last.
  std::vector<const std::pair<const Monomial, int64_t>*> order;
  for (const auto& term : terms_) order.push_back(&term);
  std::stable_sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->first.size() > b->first.size(); });
  std::string out;
  for (const auto* term : order) {
    int64_t coefficient = term->second;
    bool negative = coefficient < 0;
    if (!out.empty()) {
      out += negative ? " - " : " + ";
    } else if (negative) {
      out += "0 - ";
    }
    // Negating the least integer would overflow; its digits are those of the unsigned value.
    uint64_t magnitude = negative ? 0 - static_cast<uint64_t>(coefficient) : coefficient;
    bool number = term->first.empty() || magnitude != 1;
    if (number) out += std::to_string(magnitude);
    for (size_t i = 0; i < term->first.size(); ++i) {
      if (i || number) out += '*';
      out += term->first[i].atom->text;
    }
  }
  return out;
}

std::string DimExpr::factorText() const {
  const std::optional<int64_t> number = constant();
  if (number && *number >= 0) return innerText();
  const Atom* atom = onlyAtom();
  return atom ? atom->text : "(" + innerText() + ")";
}

std::vector<std::string> DimExpr::symbols() const {
  std::set<std::string> names;
  for (const auto& [factors, coefficient] : terms_)
    for (const Factor& factor : factors) {
      if (factor.atom->kind == Atom::Kind::kSymbol) names.insert(factor.atom->name);
      for (const DimExpr& arg : factor.atom->args)
        for (std::string& name : arg.symbols()) names.insert(std::move(name));
    }
  return {names.begin(), names.end()};
}

// ---- Values --------------------------------------------------------------------------------------

std::optional<int64_t> DimExpr::evaluate(const SymbolBindings& bindings) const {
  int64_t sum = 0;
  for (const auto& [factors, coefficient] : terms_) {
    int64_t product = coefficient;
    for (const Factor& factor : factors) {
      const std::optional<int64_t> value = factor.atom->evaluate(bindings);
      if (!value || !mul(product, *value, product)) return std::nullopt;
    }
    if (!add(sum, product, sum)) return std::nullopt;
  }
  return sum;
}

std::optional<int64_t> DimExpr::Atom::evaluate(const SymbolBindings& bindings) const {
  if (kind == Kind::kSymbol) {
    auto bound = bindings.find(name);
    return bound == bindings.end() ? std::nullopt : std::optional(bound->second);
  }
  const std::optional<int64_t> a = args[0].evaluate(bindings);
  const std::optional<int64_t> b = args[1].evaluate(bindings);
  if (!a || !b) return std::nullopt;
  switch (kind) {
    case Kind::kSymbol:
      break;
    case Kind::kQuotient:
      if (*b == 0 || (*b == -1 && *a == std::numeric_limits<int64_t>::min())) return std::nullopt;
      return *a / *b - ((*a % *b != 0 && (*a < 0) != (*b < 0)) ? 1 : 0);
    case Kind::kSelectEqual:
      return args[*a == *b ? 2 : 3].evaluate(bindings);
    case Kind::kSelectLess:
      return args[*a < *b ? 2 : 3].evaluate(bindings);
    case Kind::kMax:
    case Kind::kMin: {
      int64_t most = kind == Kind::kMax ? std::max(*a, *b) : std::min(*a, *b);
      for (size_t i = 2; i < args.size(); ++i) {
        const std::optional<int64_t> next = args[i].evaluate(bindings);
        if (!next) return std::nullopt;
        most = kind == Kind::kMax ? std::max(most, *next) : std::min(most, *next);
      }
      return most;
    }
  }
  return std::nullopt;
}

template <typename Replace>
std::optional<DimExpr> DimExpr::replaced(const Replace& replace) const {
  DimExpr result;
  for (const auto& [factors, coefficient] : terms_) {
    std::optional<DimExpr> term = DimExpr(coefficient);
    for (const Factor& factor : factors) {
      const std::optional<DimExpr> value = replace(factor);
      term = value ? term->times(*value) : std::nullopt;
      if (!term) return std::nullopt;
    }
    std::optional<DimExpr> sum = result.plus(*term);
    if (!sum) return std::nullopt;
    result = std::move(*sum);
  }
  return result;
}

/// The atom's function of other arguments.
std::optional<DimExpr> DimExpr::Atom::of(const std::vector<DimExpr>& with) const {
  switch (kind) {
    case Kind::kSymbol:
      return symbol(name);
    case Kind::kQuotient:
      return with[0].floorDiv(with[1]);
    case Kind::kMax:
    case Kind::kMin: {
      std::optional<DimExpr> result = with[0];
      for (size_t i = 1; i < with.size() && result; ++i) result = extremum(kind == Kind::kMax, *result, with[i]);
      return result;
    }
    case Kind::kSelectEqual:
      return select(Compare::kEqual, with[0], with[1], with[2], with[3]);
    case Kind::kSelectLess:
      return select(Compare::kLess, with[0], with[1], with[2], with[3]);
  }
  return std::nullopt;
}

std::optional<DimExpr> DimExpr::substitute(const SymbolBindings& bindings) const {
  return replaced([&](const Factor& factor) -> std::optional<DimExpr> {
    const Atom& atom = *factor.atom;
    if (atom.kind == Atom::Kind::kSymbol) {
      auto bound = bindings.find(atom.name);
      if (bound != bindings.end()) return DimExpr(bound->second);
      DimExpr same;
      same.terms_[{factor}] = 1;
      return same;
    }
    std::vector<DimExpr> args;
    for (const DimExpr& arg : atom.args) {
      std::optional<DimExpr> next = arg.substitute(bindings);
      if (!next) return std::nullopt;
      args.push_back(std::move(*next));
    }
    return atom.of(args);
  });
}

std::optional<DimExpr> DimExpr::renamed(const std::map<std::string, std::string>& names) const {
  return replaced([&](const Factor& factor) -> std::optional<DimExpr> {
    const Atom& atom = *factor.atom;
    if (atom.kind == Atom::Kind::kSymbol) {
      auto other = names.find(atom.name);
      return symbol(other == names.end() ? atom.name : other->second);
    }
    std::vector<DimExpr> args;
    for (const DimExpr& arg : atom.args) {
      std::optional<DimExpr> next = arg.renamed(names);
      if (!next) return std::nullopt;
      args.push_back(std::move(*next));
    }
    return atom.of(args);
  });
}

// ---- What bounds decide --------------------------------------------------------------------------

Interval DimExpr::interval(const SymbolBounds& bounds) const {
  Interval sum{0, 0};
  for (const auto& [factors, coefficient] : terms_) {
    Interval product{coefficient, coefficient};
    for (const Factor& factor : factors) product = product * factor.atom->interval(bounds);
    sum = sum + product;
  }
  return sum;
}

Interval DimExpr::Atom::interval(const SymbolBounds& bounds) const {
  if (kind == Kind::kSymbol) {
    auto bound = bounds.find(name);
    return bound == bounds.end() ? kAnySize : bound->second;
  }
  if (kind == Kind::kSelectEqual || kind == Kind::kSelectLess) {
    const std::optional<bool> holds = decided(bounds);
    if (holds) return args[*holds ? 2 : 3].interval(bounds);
    return hull(args[2].interval(bounds), args[3].interval(bounds));
  }
  Interval result = args[0].interval(bounds);
  for (size_t i = 1; i < args.size(); ++i) {
    const Interval next = args[i].interval(bounds);
    result = kind == Kind::kQuotient ? shape::floorDiv(result, next)
             : kind == Kind::kMax    ? shape::max(result, next)
                                     : shape::min(result, next);
  }
  return result;
}

/// Whether a choice's comparison holds for all sizes within the bounds, or for none.
std::optional<bool> DimExpr::Atom::decided(const SymbolBounds& bounds) const {
  if (kind == Kind::kSelectEqual) return equal(args[0], args[1], bounds);
  const std::optional<DimExpr> difference = args[1].minus(args[0]);
  if (!difference) return std::nullopt;
  const Interval range = difference->interval(bounds);
  if (range.low > 0) return true;
  if (range.high <= 0) return false;
  return std::nullopt;
}

std::optional<int64_t> DimExpr::lowerBound() const {
  const int64_t low = interval().low;
  return low == Interval::kNoLow ? std::nullopt : std::optional(low);
}

std::optional<bool> DimExpr::equal(const DimExpr& a, const DimExpr& b, const SymbolBounds& bounds) {
  if (a == b) return true;
  const std::optional<DimExpr> difference = a.minus(b);
  if (!difference) return std::nullopt;
  const Interval range = difference->interval(bounds);
  if (!range.contains(0)) return false;
  if (range.isPoint()) return true;
  return std::nullopt;
}

DimExpr DimExpr::simplified(const SymbolBounds& bounds) const {
  const auto decide = [&](const Factor& factor) -> std::optional<DimExpr> {
    const Atom& atom = *factor.atom;
    if (const Interval range = atom.interval(bounds); range.isPoint()) return DimExpr(range.low);
    DimExpr same;
    same.terms_[{factor}] = 1;
    if (atom.kind == Atom::Kind::kSymbol) return same;
    std::vector<DimExpr> args;
    for (const DimExpr& arg : atom.args) args.push_back(arg.simplified(bounds));
    if (atom.kind == Atom::Kind::kSelectEqual || atom.kind == Atom::Kind::kSelectLess)
      if (const std::optional<bool> holds = atom.decided(bounds)) return args[*holds ? 2 : 3];
    if (atom.kind == Atom::Kind::kMax || atom.kind == Atom::Kind::kMin) {
      // One that another is at least as large (small) as in all cases says nothing.
      for (size_t i = 0; i < args.size() && args.size() > 1;) {
        const bool isBeaten = std::any_of(args.begin(), args.end(), [&](const DimExpr& other) {
          if (&other == &args[i]) return false;
          const auto difference = atom.kind == Atom::Kind::kMax ? other.minus(args[i]) : args[i].minus(other);
          return difference && difference->interval(bounds).low >= 0;
        });
        if (isBeaten)
          args.erase(args.begin() + static_cast<std::ptrdiff_t>(i));
        else
          ++i;
      }
    }
    const std::optional<DimExpr> result = atom.of(args);
    return result ? *result : same;
  };
  const std::optional<DimExpr> result = replaced(decide);
  if (!result) return *this;
  const Interval range = result->interval(bounds);
  return range.isPoint() ? DimExpr(range.low) : *result;
}

// ---- Arithmetic ----------------------------------------------------------------------------------

std::optional<DimExpr> DimExpr::plus(const DimExpr& other) const {
  DimExpr result = *this;
  for (const auto& [factors, coefficient] : other.terms_) {
    int64_t& slot = result.terms_[factors];
    if (!add(slot, coefficient, slot)) return std::nullopt;
    if (slot == 0) result.terms_.erase(factors);
  }
  return result.onlyIfSmall();
}

std::optional<DimExpr> DimExpr::minus(const DimExpr& other) const {
  std::optional<DimExpr> negated = other.times(DimExpr(-1));
  return negated ? plus(*negated) : std::nullopt;
}

std::optional<DimExpr> DimExpr::times(const DimExpr& other) const {
  if (terms_.size() * other.terms_.size() > kMostProducts) return std::nullopt;
  DimExpr result;
  for (const auto& [a, x] : terms_) {
    for (const auto& [b, y] : other.terms_) {
      if (a.size() + b.size() > kMostFactors) return std::nullopt;
      Monomial factors = a;
      factors.insert(factors.end(), b.begin(), b.end());
      std::sort(factors.begin(), factors.end());
      int64_t coefficient;
      int64_t& slot = result.terms_[factors];
      if (!mul(x, y, coefficient) || !add(slot, coefficient, slot)) return std::nullopt;
      if (slot == 0) result.terms_.erase(factors);
    }
  }
  return result.onlyIfSmall();
}

std::optional<DimExpr> DimExpr::dividedBy(const DimExpr& divisor) const {
  if (divisor.terms_.size() != 1) return *this == divisor && !terms_.empty() ? std::optional<DimExpr>(1) : std::nullopt;
  const auto& [factors, number] = *divisor.terms_.begin();
  DimExpr result;
  for (const auto& [monomial, coefficient] : terms_) {
    if (!std::includes(monomial.begin(), monomial.end(), factors.begin(), factors.end())) return std::nullopt;
    if (number == -1 && coefficient == std::numeric_limits<int64_t>::min()) return std::nullopt;
    if (coefficient % number != 0) return std::nullopt;
    Monomial rest;
    std::set_difference(monomial.begin(), monomial.end(), factors.begin(), factors.end(), std::back_inserter(rest));
    result.terms_[rest] = coefficient / number;
  }
  return result;
}

/// divisor > 0. Whole multiples leave the quotient, common divisors are taken out, and a quotient of a quotient is one:
/// so strides that follow each other give the text that one stride of their product gives.
std::optional<DimExpr> DimExpr::floorDivNumber(int64_t divisor) const {
  DimExpr whole, rest;
  int64_t common = divisor, constant = 0;
  for (const auto& [factors, coefficient] : terms_) {
    if (factors.empty()) {
      constant = coefficient;
      continue;
    }
    const int64_t quotient = base::floorDiv(coefficient, divisor), remainder = coefficient - quotient * divisor;
    if (quotient != 0) whole.terms_[factors] = quotient;
    if (remainder != 0) rest.terms_[factors] = remainder;
    common = std::gcd(common, remainder);
  }
  if (rest.terms_.empty()) return whole.plus(base::floorDiv(constant, divisor));
  const int64_t most = divisor / common;
  for (auto& [factors, coefficient] : rest.terms_) coefficient /= common;
  constant = base::floorDiv(constant, common);
  const int64_t steps = base::floorDiv(constant, most);
  constant -= steps * most;
  std::optional<DimExpr> sum = whole.plus(steps);
  if (!sum) return std::nullopt;
  if (const Atom* inner = rest.onlyAtom(); inner && inner->kind == Atom::Kind::kQuotient) {
    const std::optional<int64_t> by = inner->args[1].constant();
    int64_t product, offset;
    if (by && *by > 0 && mul(*by, most, product) && mul(*by, constant, offset)) {
      const std::optional<DimExpr> numerator = inner->args[0].plus(offset);
      const std::optional<DimExpr> quotient = numerator ? numerator->floorDivNumber(product) : std::nullopt;
      return quotient ? sum->plus(*quotient) : std::nullopt;
    }
  }
  const std::optional<DimExpr> numerator = rest.plus(constant);
  if (!numerator) return std::nullopt;
  const std::optional<DimExpr> quotient = make({Atom::Kind::kQuotient, "", {*numerator, DimExpr(most)}, ""});
  return quotient ? sum->plus(*quotient) : std::nullopt;
}

std::optional<DimExpr> DimExpr::floorDiv(const DimExpr& divisor) const {
  if (const std::optional<int64_t> number = divisor.constant()) {
    if (*number == 0 || *number == std::numeric_limits<int64_t>::min()) return std::nullopt;
    if (*number > 0) return floorDivNumber(*number);
    const std::optional<DimExpr> negated = times(-1);
    return negated ? negated->floorDivNumber(-*number) : std::nullopt;
  }
  if (terms_.empty()) return DimExpr(0);
  if (std::optional<DimExpr> exact = dividedBy(divisor)) return exact;
  return make({Atom::Kind::kQuotient, "", {*this, divisor}, ""});
}

std::optional<DimExpr> DimExpr::ceilDiv(const DimExpr& divisor) const {
  if (const std::optional<int64_t> number = divisor.constant(); number && *number < 0) return std::nullopt;
  const std::optional<DimExpr> most = divisor.minus(1);
  const std::optional<DimExpr> sum = most ? plus(*most) : std::nullopt;
  return sum ? sum->floorDiv(divisor) : std::nullopt;
}

std::optional<DimExpr> DimExpr::mod(const DimExpr& divisor) const {
  const std::optional<DimExpr> quotient = floorDiv(divisor);
  const std::optional<DimExpr> multiple = quotient ? quotient->times(divisor) : std::nullopt;
  return multiple ? minus(*multiple) : std::nullopt;
}

std::optional<DimExpr> DimExpr::extremum(bool isMax, const DimExpr& a, const DimExpr& b) {
  const Atom::Kind kind = isMax ? Atom::Kind::kMax : Atom::Kind::kMin;
  std::vector<DimExpr> all;
  for (const DimExpr* side : {&a, &b}) {
    if (const Atom* atom = side->onlyAtom(); atom && atom->kind == kind) {
      all.insert(all.end(), atom->args.begin(), atom->args.end());
    } else {
      all.push_back(*side);
    }
  }
  // Of two that differ by a number one is decided; so there is one constant, too.
  std::vector<DimExpr> kept;
  for (const DimExpr& next : all) {
    bool isNew = true;
    for (DimExpr& old : kept) {
      const std::optional<DimExpr> difference = next.minus(old);
      const std::optional<int64_t> number = difference ? difference->constant() : std::nullopt;
      if (!number) continue;
      isNew = false;
      if (isMax == (*number > 0)) old = next;
      break;
    }
    if (isNew) kept.push_back(next);
  }
  if (kept.size() == 1) return kept[0];
  std::sort(kept.begin(), kept.end(), [](const DimExpr& x, const DimExpr& y) { return x.innerText() < y.innerText(); });
  return make({kind, "", std::move(kept), ""});
}

std::optional<DimExpr> DimExpr::max(const DimExpr& a, const DimExpr& b) {
  return extremum(true, a, b);
}

std::optional<DimExpr> DimExpr::min(const DimExpr& a, const DimExpr& b) {
  return extremum(false, a, b);
}

std::optional<DimExpr> DimExpr::select(Compare compare, const DimExpr& a, const DimExpr& b, const DimExpr& then,
                                       const DimExpr& otherwise) {
  if (then == otherwise) return then;
  std::optional<DimExpr> difference = a.minus(b);
  if (!difference) return std::nullopt;
  const bool isEqual = compare == Compare::kEqual;
  if (const std::optional<int64_t> number = difference->constant())
    return (isEqual ? *number == 0 : *number < 0) ? then : otherwise;
  // Written as one side of names and one number; equality also with the sign of its first term.
  if (isEqual && difference->terms_.rbegin()->second < 0) difference = difference->times(-1);
  if (!difference) return std::nullopt;
  int64_t number = 0;
  if (auto constant = difference->terms_.find({}); constant != difference->terms_.end()) {
    if (__builtin_sub_overflow(0, constant->second, &number)) return std::nullopt;
    difference->terms_.erase(constant);
  }
  // A truth value that is looked at: the comparison it came from.
  const Atom* inner = isEqual ? difference->onlyAtom() : nullptr;
  if (inner && (inner->kind == Atom::Kind::kSelectEqual || inner->kind == Atom::Kind::kSelectLess) &&
      inner->args[2].isConstant() && inner->args[3].isConstant()) {
    const bool ifHolds = inner->args[2] == DimExpr(number), ifNot = inner->args[3] == DimExpr(number);
    return inner->of({inner->args[0], inner->args[1], ifHolds ? then : otherwise, ifNot ? then : otherwise});
  }
  return make(
      {isEqual ? Atom::Kind::kSelectEqual : Atom::Kind::kSelectLess, "", {*difference, number, then, otherwise}, ""});
}

}  // namespace hpu::shape
