// SPDX-License-Identifier: Apache-2.0
#include "SymbolicHarness.h"

#include <cmath>
#include <cstdlib>
#include <map>
#include <random>

#include "gtest/gtest.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

namespace hpu::kernels::test {
namespace {

using shape::DimExpr;
using shape::SymbolBindings;

int64_t valueOf(const std::string& text, const SymbolBindings& sizes) {
  return DimExpr::parse(text).evaluate(sizes).value();
}
SymInt symbolic(const std::string& text, const SymbolBindings& representatives) {
  return {DimExpr::parse(text), valueOf(text, representatives)};
}

/// The expressions of a text, each once.
std::vector<std::string> expressionsIn(const std::string& text) {
  std::vector<std::string> found;
  for (size_t at = text.find('`'); at != std::string::npos; at = text.find('`', at)) {
    const size_t end = text.find('`', at + 1);
    found.push_back(text.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return found;
}

std::vector<int64_t> launchDims(const Kernel& kernel, const SymbolBindings& sizes) {
  std::vector<int64_t> dims;
  for (const SymInt& number : kernel.info().symbolic.dims) dims.push_back(number.expr()->evaluate(sizes).value());
  return dims;
}

recipe::TpcCost costAt(const Kernel& kernel, const SymbolBindings& sizes) {
  recipe::TpcCost sum;
  for (const CostTerm& term : kernel.info().symbolic.cost) {
    double times = 1;
    for (const SymInt& trips : term.trips) times *= static_cast<double>(trips.expr()->evaluate(sizes).value());
    sum.loads += term.slots.loads * times;
    sum.stores += term.slots.stores * times;
    sum.vectorOps += term.slots.vectorOps * times;
    sum.scalarOps += term.slots.scalarOps * times;
  }
  return sum;
}

std::string sizesText(const SymbolBindings& sizes) {
  std::string text;
  for (const auto& [name, size] : sizes) text += name + "=" + std::to_string(size) + " ";
  return text;
}

bool isSame(double a, double b, double tolerance) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return true;
  return std::abs(a - b) <= tolerance * std::max({1.0, std::abs(a), std::abs(b)});
}

/// The largest relative difference of what counts: more than a fiftieth of the largest kind.
double costDifference(const recipe::TpcCost& a, const recipe::TpcCost& b) {
  const double kinds[4][2] = {
      {a.loads, b.loads}, {a.stores, b.stores}, {a.vectorOps, b.vectorOps}, {a.scalarOps, b.scalarOps}};
  double largest = 0, difference = 0;
  for (const auto& kind : kinds) largest = std::max(largest, kind[1]);
  for (const auto& kind : kinds)
    if (kind[1] > largest / 50) difference = std::max(difference, std::abs(kind[0] - kind[1]) / kind[1]);
  return difference;
}

struct Launch {
  const SymCase& test;
  const Kernel& kernel;
  const SymbolBindings& sizes;

  void run() const {
    std::vector<Tensor> inputs = operandsAt(test.inputs, sizes), outputs = operandsAt(test.outputs, sizes);
    for (size_t i = 0; i < inputs.size(); ++i) inputs[i].random(i + 2, test.inputs[i].low, test.inputs[i].high);
    const std::string body = bodyAt(test, sizes);
    Kernel fixed(body, inputs, outputs);
    ASSERT_TRUE(fixed.status().ok()) << fixed.status().toString() << "\n" << body;
    const Index& space = outputs[0].sizes;
    const std::vector<int64_t> dims = launchDims(kernel, sizes);
    for (int variant = 0; variant < kernel.variants(); ++variant) {
      std::vector<Tensor> wanted;
      for (const Tensor& output : outputs) wanted.push_back(output.clone());
      fixed.run(variant, inputs, wanted, Index(space.size(), 0), space);
      std::mt19937 engine(11);
      for (int slice = 0; slice < 3; ++slice) {
        Index lo(space.size(), 0), hi(space);
        for (size_t d = 0; d < space.size() && slice > 0; ++d) {
          if (kernel.info().wholeDims >> d & 1 || space[d] < 2) continue;
          auto at = [&] { return std::uniform_int_distribution<int64_t>(0, space[d] - 1)(engine); };
          const int64_t a = at(), b = at();
          lo[d] = std::min(a, b);
          hi[d] = std::max(a, b) + 1;
        }
        std::vector<Tensor> results;
        for (const Tensor& output : outputs) results.push_back(output.clone());
        kernel.run(variant, inputs, results, lo, hi, dims);
        for (size_t k = 0; k < outputs.size(); ++k)
          if (!compare(results[k], wanted[k], outputs[k], lo, hi, variant, body)) return;
      }
    }
    const double points = [&] {
      double count = 1;
      for (int64_t size : space) count *= static_cast<double>(size);
      return std::max(count, 1.0);
    }();
    recipe::TpcCost fixedCost = fixed.info().cost;
    for (double* kind : {&fixedCost.loads, &fixedCost.stores, &fixedCost.vectorOps, &fixedCost.scalarOps})
      *kind *= points;
    const recipe::TpcCost cost = costAt(kernel, sizes);
    const double difference = costDifference(cost, fixedCost);
    // A static kernel of another size may be other code, so this is only worth a look.
    if (std::getenv("SHOW_COSTS"))
      std::printf("%-24s %6.2f %%  loads %g/%g stores %g/%g vector %g/%g scalar %g/%g\n", sizesText(sizes).c_str(),
                  100 * difference, cost.loads, fixedCost.loads, cost.stores, fixedCost.stores, cost.vectorOps,
                  fixedCost.vectorOps, cost.scalarOps, fixedCost.scalarOps);
    if (sizes != test.representatives) return;
    EXPECT_LE(difference, test.costTolerance)
        << "loads " << cost.loads << " for " << fixedCost.loads << ", stores " << cost.stores << " for "
        << fixedCost.stores << ", vector " << cost.vectorOps << " for " << fixedCost.vectorOps << ", scalar "
        << cost.scalarOps << " for " << fixedCost.scalarOps << "\n"
        << body;
  }

  bool compare(const Tensor& result, const Tensor& wanted, const Tensor& untouched, const Index& lo, const Index& hi,
               int variant, const std::string& body) const {
    int failures = 0;
    forEach(result.sizes, [&](const Index& index) {
      bool inside = true;
      for (size_t d = 0; d < index.size(); ++d)
        inside &= result.sizes[d] == 1 || (index[d] >= lo[d] && index[d] < hi[d]);
      const double actual = result.at(index), expected = inside ? wanted.at(index) : untouched.at(index);
      if (isSame(actual, expected, inside ? test.tolerance : 0) || ++failures > 3) return;
      ADD_FAILURE() << sizesText(sizes) << "variant " << variant << " at " << shapeToString(index)
                    << (inside ? "" : " (outside the slice)") << ": got " << actual << ", the static kernel has "
                    << expected << "\n"
                    << body;
    });
    return failures == 0;
  }
};

}  // namespace

Tensor SymTensor::at(const SymbolBindings& sizesOf) const {
  Index numbers;
  for (const std::string& size : sizes) numbers.push_back(valueOf(size, sizesOf));
  return Tensor::dense(type, numbers, order, gap);
}

OperandView SymTensor::view(const SymbolBindings& representatives) const {
  OperandView view;
  view.type = type;
  for (const std::string& size : sizes) view.sizes.push_back(symbolic(size, representatives));
  view.strides.assign(sizes.size(), 1);
  SymInt stride = 1 + gap;
  for (size_t i = sizes.size(); i-- > 0;) {
    const size_t d = order.empty() ? i : static_cast<size_t>(order[i]);
    view.strides[d] = stride;
    stride = stride * view.sizes[d] + gap;
  }
  return view;
}

std::string bodyAt(const SymCase& test, const SymbolBindings& sizes) {
  std::string text;
  bool inside = false;
  for (size_t at = 0; at < test.body.size(); inside = !inside) {
    const size_t end = std::min(test.body.find('`', at), test.body.size());
    const std::string part = test.body.substr(at, end - at);
    text += inside ? std::to_string(valueOf(part, sizes)) : part;
    at = end + 1;
  }
  return text;
}

std::vector<Tensor> operandsAt(const std::vector<SymTensor>& operands, const SymbolBindings& sizes) {
  std::vector<Tensor> tensors;
  for (const SymTensor& operand : operands) tensors.push_back(operand.at(sizes));
  return tensors;
}

std::function<void(KernelRequest&)> expressionsOf(const SymCase& test) {
  const SymbolBindings& at = test.representatives;
  std::map<int64_t, SymInt> numbers;
  auto learn = [&](const std::string& text) {
    const SymInt number = symbolic(text, at);
    if (!number.isConstant()) numbers.emplace(number.value(), number);
  };
  for (const std::string& text : expressionsIn(test.body)) learn(text);
  for (const auto* operands : {&test.inputs, &test.outputs})
    for (const SymTensor& operand : *operands)
      for (const std::string& size : operand.sizes) learn(size);
  auto lookUp = [numbers](llvm::ArrayRef<int64_t> values) {
    SymbolicNumbers::Numbers result;
    for (int64_t value : values) {
      auto it = numbers.find(value);
      result.push_back(it == numbers.end() ? SymInt(value) : it->second);
    }
    return result;
  };
  return [test, lookUp](KernelRequest& request) {
    const SymbolBindings& sizes = test.representatives;
    for (size_t i = 0; i < test.inputs.size(); ++i) request.inputs[i] = test.inputs[i].view(sizes);
    for (size_t i = 0; i < test.outputs.size(); ++i) request.outputs[i] = test.outputs[i].view(sizes);
    request.symbols.bounds = test.bounds;
    request.symbols.sizes = [lookUp](mlir::Value value) {
      return lookUp(mlir::cast<mlir::RankedTensorType>(value.getType()).getShape());
    };
    request.symbols.attribute = [lookUp](mlir::Operation* op, llvm::StringRef name) -> SymbolicNumbers::Numbers {
      auto array = op->getAttrOfType<mlir::DenseI64ArrayAttr>(name);
      if (!array || (name != "starts" && name != "low" && name != "high")) return {};
      return lookUp(array.asArrayRef());
    };
  };
}

Kernel symbolicKernel(const SymCase& test) {
  const SymbolBindings& at = test.representatives;
  return Kernel(bodyAt(test, at), operandsAt(test.inputs, at), operandsAt(test.outputs, at), {}, expressionsOf(test));
}

void checkSymbolic(const SymCase& test) {
  Kernel kernel = symbolicKernel(test);
  ASSERT_TRUE(kernel.status().ok()) << kernel.status().toString() << "\n" << test.body;
  Launch{test, kernel, test.representatives}.run();
  for (const SymbolBindings& sizes : test.sizes) {
    if (testing::Test::HasFatalFailure()) return;
    Launch{test, kernel, sizes}.run();
  }
}

std::vector<SymbolBindings> manySizes(int64_t large) {
  std::vector<SymbolBindings> sizes;
  for (int64_t size : {0, 1, 2, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65}) sizes.push_back({{"S", size}});
  sizes.push_back({{"S", large}});
  return sizes;
}

}  // namespace hpu::kernels::test
