// SPDX-License-Identifier: Apache-2.0
// The GEMM law against measured or vendor-reference rates; the errors are printed, beside a plain
// roofline.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "perfmodel/EngineCost.h"

namespace hpu::perfmodel {
namespace {

struct Point {
  GemmShape shape;
  double tflops = 0;
};

std::vector<Point> readPoints(const std::string& name) {
  const char* source = std::getenv("HPU_SOURCE_DIR");
  std::ifstream file(std::string(source ? source : ".") + "/tests/data/" + name);
  EXPECT_TRUE(file.good()) << "tests/data/" << name;
  std::vector<Point> points;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::stringstream cells(line);
    std::vector<std::string> cell;
    for (std::string text; std::getline(cells, text, ',');) cell.push_back(text);
    EXPECT_EQ(cell.size(), 7u) << line;
    if (cell.size() != 7) continue;
    Point p;
    p.shape.m = std::stoll(cell[0]);
    p.shape.k = std::stoll(cell[1]);
    p.shape.n = std::stoll(cell[2]);
    p.shape.type = cell[3] == "float" ? ElementType::kF32 : ElementType::kBF16;
    p.tflops = std::stod(cell[6]);
    points.push_back(p);
  }
  return points;
}

double tflops(const GemmShape& s, Picoseconds time) {
  return 2.0 * static_cast<double>(s.batch) * static_cast<double>(s.m) * static_cast<double>(s.n) *
         static_cast<double>(s.k) / static_cast<double>(time);
}

struct Errors {
  double mean = 0, worst = 0;
  int beyondTenPercent = 0;
  void add(double error, size_t count) {
    error = std::abs(error);
    mean += error / static_cast<double>(count);
    worst = std::max(worst, error);
    beyondTenPercent += error > 0.10;
  }
};

TEST(Calibration, GemmLawMatchesTheGaudi1Reference) {
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi1);
  std::vector<Point> points = readPoints("gaudi1_gemm_calibration.csv");
  ASSERT_EQ(points.size(), 95u);
  Errors law, roofline;
  for (const Point& p : points) {
    double predicted = tflops(p.shape, gemmCost(target, target.clock(), p.shape, {}).alone);
    law.add(predicted / p.tflops - 1, points.size());
    roofline.add(target.mmePeakTflops(target.clock(), p.shape.type) / p.tflops - 1, points.size());
  }
  std::printf(
      "Gaudi 1 reference, %zu points: MAPE %.2f %%, %d beyond 10 %%, worst %.1f %%"
      " (plain roofline: MAPE %.0f %%, %d beyond 10 %%)\n",
      points.size(), 100 * law.mean, law.beyondTenPercent, 100 * law.worst, 100 * roofline.mean,
      roofline.beyondTenPercent);
  EXPECT_LE(law.mean, 0.03);
  EXPECT_LE(law.beyondTenPercent, 2);
  EXPECT_LE(law.worst, 0.15);
  EXPECT_LT(law.mean, roofline.mean / 10);
}

// Best shapes found on real devices (stas00/ml-engineering) and one from arXiv 2501.00210.
TEST(Calibration, GemmLawMatchesMeasuredGaudi2AndGaudi3Rates) {
  struct Measured {
    Target target;
    int64_t m, n, k;
    ElementType type;
    double tflops, tolerance;
  };
  constexpr ElementType bf16 = ElementType::kBF16, fp8 = ElementType::kF8E4M3;
  const Measured measured[] = {
      {Target::kGaudi2, 14336, 15360, 2048, bf16, 418.7, 0.025},
      {Target::kGaudi2, 6144, 11264, 5120, fp8, 826.5, 0.025},
      {Target::kGaudi2, 20224, 11520, 19968, bf16, 429.3, 0.025},
      {Target::kGaudi2, 8192, 8192, 8192, bf16, 429, 0.025},
      {Target::kGaudi3, 16384, 4096, 768, bf16, 1243.0, 0.03},
      {Target::kGaudi3, 16640, 1536, 3072, fp8, 1289.5, 0.03},
  };
  for (const Measured& x : measured) {
    const arch::TargetDesc& target = arch::targetDesc(x.target);
    GemmShape shape;
    shape.m = x.m, shape.n = x.n, shape.k = x.k, shape.type = x.type;
    double predicted = tflops(shape, gemmCost(target, target.clock(), shape, {}).alone);
    std::printf("%s %lldx%lldx%lld: %.1f TFLOP/s, measured %.1f (%+.1f %%)\n", target.name.data(),
                static_cast<long long>(x.m), static_cast<long long>(x.n), static_cast<long long>(x.k), predicted,
                x.tflops, 100 * (predicted / x.tflops - 1));
    EXPECT_NEAR(predicted / x.tflops, 1, x.tolerance);
  }
}

}  // namespace
}  // namespace hpu::perfmodel
