// SPDX-License-Identifier: Apache-2.0
#include "tools/common/Report.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/File.h"
#include "base/StatusMacros.h"
#include "tools/common/TensorProtoIo.h"

namespace hpu::tools {
namespace {

std::string scientific(double value) {
  char text[32];
  snprintf(text, sizeof text, "%.2e", value);
  return text;
}

std::vector<int64_t> classes(const HostTensor& scores) {
  std::vector<double> values = toDoubles(scores);
  int64_t rows = scores.type.shape[0],
          width = rows ? static_cast<int64_t>(values.size()) / rows : 0;
  std::vector<int64_t> result;
  for (int64_t row = 0; row < rows; ++row) {
    auto first = values.begin() + row * width;
    result.push_back(std::max_element(first, first + width) - first);
  }
  return result;
}

StatusOr<std::vector<double>> readLabels(const std::string& path) {
  if (path.ends_with(".pb")) {
    HPU_ASSIGN(HostTensor tensor, readTensorProto(path));
    return toDoubles(tensor);
  }
  HPU_ASSIGN(std::string text, base::readTextFile(path));
  std::vector<double> labels;
  const char* at = text.c_str();
  for (char* end = nullptr;; at = end) {
    double value = std::strtod(at, &end);
    if (end == at) break;
    labels.push_back(value);
  }
  return labels;
}

}  // namespace

StatusOr<std::vector<NamedComparison>> compareAll(const std::vector<HostTensor>& actual,
                                                  const std::vector<HostTensor>& expected,
                                                  const Tolerance& tolerance) {
  if (actual.size() != expected.size())
    return invalidArgument("the model has " + std::to_string(actual.size()) +
                           " outputs, the reference has " + std::to_string(expected.size()));
  std::vector<NamedComparison> result;
  for (size_t i = 0; i < actual.size(); ++i) {
    HPU_ASSIGN(Comparison comparison, compareTensors(actual[i], expected[i], tolerance));
    result.push_back({actual[i].name, comparison});
  }
  return result;
}

bool allPassed(const std::vector<NamedComparison>& comparisons) {
  return std::all_of(comparisons.begin(), comparisons.end(),
                     [](const auto& c) { return c.comparison.passed(); });
}

Json toJson(const std::vector<NamedComparison>& comparisons) {
  Json list = Json::array();
  for (const auto& [name, c] : comparisons)
    list.append(Json()
                    .set("name", name)
                    .set("max_abs", c.maxAbs)
                    .set("max_rel", c.maxRel)
                    .set("rel_rms", c.relRms)
                    .set("wrong", c.wrong)
                    .set("count", c.count)
                    .set("pcc", c.pcc));
  return list;
}

std::string toTable(const std::vector<NamedComparison>& comparisons) {
  std::vector<std::vector<std::string>> rows = {
      {"output", "elements", "max abs", "max rel", "rel rms", "pcc", "wrong"}};
  for (const auto& [name, c] : comparisons) {
    char pcc[32];
    snprintf(pcc, sizeof pcc, "%.7f", c.pcc);
    rows.push_back({name, std::to_string(c.count), scientific(c.maxAbs), scientific(c.maxRel),
                    scientific(c.relRms), pcc, std::to_string(c.wrong)});
  }
  return formatTable(rows);
}

StatusOr<Accuracy> accuracy(const HostTensor& scores, const HostTensor* expected,
                            const std::string& labelFile) {
  if (scores.type.shape.size() < 2)
    return invalidArgument("--labels needs an output of shape [rows, classes], '" + scores.name +
                           "' has " + scores.type.toString());
  HPU_ASSIGN(std::vector<double> labels, readLabels(labelFile));
  std::vector<int64_t> found = classes(scores);
  if (labels.size() != found.size())
    return invalidArgument("'" + labelFile + "' has " + std::to_string(labels.size()) +
                           " labels for " + std::to_string(found.size()) + " rows");
  Accuracy result;
  result.count = found.size();
  for (size_t i = 0; i < found.size(); ++i)
    result.right += found[i] == static_cast<int64_t>(labels[i]);
  if (expected && expected->type.shape == scores.type.shape) {
    std::vector<int64_t> reference = classes(*expected);
    result.agree = 0;
    for (size_t i = 0; i < found.size(); ++i) result.agree += found[i] == reference[i];
  }
  return result;
}

}  // namespace hpu::tools
