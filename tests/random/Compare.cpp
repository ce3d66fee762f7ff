// SPDX-License-Identifier: Apache-2.0
#include "tests/random/Compare.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "base/Format.h"
#include "tests/random/Elements.h"

namespace hpu::randomtest {
namespace {

using base::strCat;

std::string elementText(const HostTensor& tensor, int64_t index) {
  char text[40];
  snprintf(text, sizeof text, "%.9g", tensor.number(index));
  return text;
}

}  // namespace

std::vector<Mismatch> compare(const Model& model, const std::vector<HostTensor>& results) {
  std::vector<Mismatch> mismatches;
  for (size_t out = 0; out < model.outputs.size(); ++out) {
    const std::string& name = model.outputs[out];
    const Value& wanted = model.values.at(name);
    if (out >= results.size() || results[out].type != wanted.tensor.type) {
      std::string is = out < results.size() ? results[out].type.toString() : std::string("missing");
      mismatches.push_back({name, strCat("is ", is, ", expected ", wanted.tensor.type.toString()), -1});
      continue;
    }
    int64_t wrong = 0, first = -1;
    const ElementType type = wanted.tensor.type.element;
    double limit = type == ElementType::kF16   ? 65504
                   : type == ElementType::kF64 ? std::numeric_limits<double>::max()
                                               : std::numeric_limits<float>::max();
    for (int64_t k = 0; k < wanted.tensor.count(); ++k) {
      double a = results[out].number(k), b = wanted.tensor.number(k);
      double error = wanted.error.empty() ? 0 : wanted.error[k];
      bool overflows =
          std::isinf(a) && std::isfinite(b) && std::signbit(a) == std::signbit(b) && std::fabs(b) + error >= limit;
      bool atLimit = std::isinf(b) && std::signbit(a) == std::signbit(b) && std::fabs(a) >= limit * (1 - 0x1p-10) &&
                     isFloat(wanted.tensor.type.element);
      bool equal = a == b || (std::isnan(a) && std::isnan(b));
      if (equal && wanted.tensor.type.element >= ElementType::kI64)
        equal = memcmp(&results[out].bytes[k * (wanted.tensor.bytes.size() / wanted.tensor.count())],
                       &wanted.tensor.bytes[k * (wanted.tensor.bytes.size() / wanted.tensor.count())],
                       wanted.tensor.bytes.size() / wanted.tensor.count()) == 0 ||
                wanted.tensor.type.element == ElementType::kF64 || error > 0;
      if (equal || overflows || atLimit || std::isinf(error) || std::fabs(a - b) <= error) continue;
      if (wrong++ == 0) first = k;
    }
    if (wrong == 0) continue;
    double error = wanted.error.empty() ? 0 : wanted.error[first];
    mismatches.push_back(
        {name,
         strCat(wrong, " of ", wanted.tensor.count(), " elements of '", name, "' differ, first at ", first, ": is ",
                elementText(results[out], first), ", expected ", elementText(wanted.tensor, first), " within ", error),
         first});
  }
  return mismatches;
}

}  // namespace hpu::randomtest
