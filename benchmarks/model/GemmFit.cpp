// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/model/GemmFit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <sstream>

#include "base/File.h"
#include "base/StatusMacros.h"

namespace hpu::benchmarks {
namespace {

/// The fitted constants: roll-up, fill, launch (cycles) and the stream stall in thousandths.
using Constants = std::array<int64_t, 4>;

arch::TargetDesc with(arch::TargetDesc target, const Constants& c) {
  target.mmeRollupCycles = c[0];
  target.mmeFillCycles = c[1];
  target.mmeDrainCycles = 2 * (c[0] + c[1]);
  target.mmeLaunchCycles = c[2];
  target.mmeStreamStall = static_cast<double>(c[3]) / 1000;
  return target;
}

double squaredError(const arch::TargetDesc& target, const std::vector<GemmRow>& rows) {
  double sum = 0;
  for (const GemmRow& row : rows) {
    double error = predictTflops(target, target.clock(), row.shape) / row.tflops - 1;
    sum += error * error;
  }
  return sum;
}

/// A number that only depends on its input (splitmix64).
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

}  // namespace

StatusOr<std::vector<GemmRow>> readGemmRows(const std::string& path) {
  HPU_ASSIGN(std::vector<uint8_t> bytes, base::readFile(path, int64_t{16} << 20));
  std::vector<GemmRow> rows;
  std::stringstream lines(std::string(bytes.begin(), bytes.end()));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line[0] == '#') continue;
    std::stringstream cells(line);
    std::vector<std::string> cell;
    for (std::string part; std::getline(cells, part, ',');) cell.push_back(part);
    GemmRow row;
    if (cell.size() == 7) {
      row.shape.m = std::atoll(cell[0].c_str());
      row.shape.k = std::atoll(cell[1].c_str());
      row.shape.n = std::atoll(cell[2].c_str());
      row.shape.type = cell[3] == "float" ? ElementType::kF32 : ElementType::kBF16;
      row.shape.transposeA = cell[4] == "1";
      row.shape.transposeB = cell[5] == "1";
      row.tflops = std::atof(cell[6].c_str());
    }
    bool knownType = cell.size() == 7 && (cell[3] == "float" || cell[3] == "bf16");
    if (!knownType || row.shape.m < 1 || row.shape.k < 1 || row.shape.n < 1 || !(row.tflops > 0))
      return invalidArgument(path + ":" + std::to_string(number) + ": not M,K,N,dtype,transpose_a,transpose_b,TFLOP/s");
    rows.push_back(row);
  }
  if (rows.empty()) return invalidArgument(path + " has no rows");
  return rows;
}

double predictTflops(const arch::TargetDesc& target, const arch::ClockProfile& clock,
                     const perfmodel::GemmShape& shape) {
  perfmodel::Cost cost = perfmodel::gemmCost(target, clock, shape, perfmodel::gemmBytes(shape));
  return perfmodel::gemmFlops(shape) / static_cast<double>(cost.alone);
}

double rooflineTflops(const arch::TargetDesc& target, const arch::ClockProfile& clock,
                      const perfmodel::GemmShape& shape) {
  double flops = perfmodel::gemmFlops(shape);
  double bytes = static_cast<double>(perfmodel::gemmBytes(shape).hbm);
  return std::min(target.mmePeakTflops(clock, shape.type), flops / (bytes / target.hbmBytesPerNs) / 1e3);
}

arch::TargetDesc fitGemmLaw(const arch::TargetDesc& target, const std::vector<GemmRow>& rows) {
  Constants best = {128, 0, 1500, 0};
  double least = squaredError(with(target, best), rows);
  // Pattern search: steps along each constant, and along pairs, halved when none helps.
  for (Constants step = {32, 16, 256, 16}; step != Constants{0, 0, 0, 0};) {
    bool improved = false;
    auto attempt = [&](const Constants& candidate) {
      for (int64_t value : candidate)
        if (value < 0) return;
      double error = squaredError(with(target, candidate), rows);
      if (error >= least) return;
      least = error;
      best = candidate;
      improved = true;
    };
    for (size_t i = 0; i < best.size(); ++i)
      for (int64_t sign : {-1, 1}) {
        Constants candidate = best;
        candidate[i] += sign * step[i];
        attempt(candidate);
        for (size_t j = i + 1; j < best.size(); ++j)
          for (int64_t other : {-1, 1}) {
            Constants pair = best;
            pair[i] += sign * step[i];
            pair[j] += other * step[j];
            attempt(pair);
          }
      }
    if (improved) continue;
    for (int64_t& s : step) s = s > 1 ? s / 2 : 0;
    // All constants are searched at a step of 1 before the end.
    if (step[2] > 0)
      for (int64_t& s : step) s = std::max<int64_t>(s, 1);
  }
  return with(target, best);
}

std::vector<double> crossValidate(const arch::TargetDesc& target, const std::vector<GemmRow>& rows, int folds,
                                  uint32_t seed) {
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return mix(uint64_t{seed} << 32 | a) < mix(uint64_t{seed} << 32 | b); });
  std::vector<double> predicted(rows.size());
  for (int fold = 0; fold < folds; ++fold) {
    std::vector<GemmRow> training;
    for (size_t i = 0; i < order.size(); ++i)
      if (static_cast<int>(i) % folds != fold) training.push_back(rows[order[i]]);
    arch::TargetDesc fitted = fitGemmLaw(target, training);
    for (size_t i = 0; i < order.size(); ++i)
      if (static_cast<int>(i) % folds == fold)
        predicted[order[i]] = predictTflops(fitted, fitted.clock(), rows[order[i]].shape);
  }
  return predicted;
}

Errors errorsOf(const std::vector<GemmRow>& rows, const std::vector<double>& predicted) {
  Errors errors;
  for (size_t i = 0; i < rows.size(); ++i) {
    double error = std::abs(predicted[i] / rows[i].tflops - 1);
    errors.mean += error / static_cast<double>(rows.size());
    errors.worst = std::max(errors.worst, error);
    errors.within10 += error <= 0.10;
    ++errors.points;
  }
  return errors;
}

}  // namespace hpu::benchmarks
