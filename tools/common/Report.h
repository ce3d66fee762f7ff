// SPDX-License-Identifier: Apache-2.0
// What hpu-run and hpu-verify print about compared outputs.
#pragma once

#include <string>
#include <vector>

#include "tools/common/Cli.h"
#include "tools/common/Compare.h"

namespace hpu::tools {

struct NamedComparison {
  std::string name;
  Comparison comparison;
};

/// Compares pairwise; kInvalidArgument when the counts or shapes differ.
StatusOr<std::vector<NamedComparison>> compareAll(const std::vector<HostTensor>& actual,
                                                  const std::vector<HostTensor>& expected,
                                                  const Tolerance& tolerance);
bool allPassed(const std::vector<NamedComparison>& comparisons);
/// The `outputs` array of --json.
Json toJson(const std::vector<NamedComparison>& comparisons);
std::string toTable(const std::vector<NamedComparison>& comparisons);

/// Class labels against the largest element of each row of a [rows, classes] tensor.
struct Accuracy {
  int64_t right = 0, count = 0;
  int64_t agree = -1;  ///< Rows whose class is also the expected output's; -1 without one.
};
/// `labelFile`: a TensorProto (.pb) or one number a line.
StatusOr<Accuracy> accuracy(const HostTensor& scores, const HostTensor* expected,
                            const std::string& labelFile);

}  // namespace hpu::tools
