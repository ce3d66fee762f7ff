// SPDX-License-Identifier: Apache-2.0
// model_validation: the performance model beside everything that was published and could be found, and beside a
// plain roofline. With --gate it is a test: exit code 2 when the model no longer meets its bars.
#include <cstdio>
#include <cstdlib>

#include "base/StatusMacros.h"
#include "benchmarks/model/GemmFit.h"
#include "benchmarks/model/PublishedRows.h"
#include "tools/common/Cli.h"

namespace hpu::benchmarks {
namespace {

using tools::ExitCode;
using tools::Json;
using tools::Tool;

constexpr int kFolds = 5, kShuffles = 5;
// The bars of the cross-validated GEMM law.
constexpr double kMostMean = 0.045, kLeastWithin10 = 0.93, kMostWorst = 0.30;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}
std::string percent(double value, bool sign = true) {
  char text[32];
  std::snprintf(text, sizeof text, sign ? "%+.1f %%" : "%.2f %%", 100 * value);
  return text;
}

Json errorsJson(const Errors& errors) {
  return Json::object()
      .set("points", errors.points)
      .set("mape", errors.mean)
      .set("within_10_percent", errors.within10Fraction())
      .set("worst", errors.worst);
}

std::string errorsText(const Errors& e) {
  return "MAPE " + percent(e.mean, false) + ", " + std::to_string(e.within10) + " of " + std::to_string(e.points) +
         " within 10 %, worst " + percent(e.worst, false);
}

bool meetsBars(const Errors& e) {
  return e.mean <= kMostMean && e.within10Fraction() >= kLeastWithin10 && e.worst <= kMostWorst;
}

struct Options {
  std::string rows, holdout;
  bool gate = false;
};

/// The Gaudi 1 table: every row, cross-validated. False when a bar is missed.
StatusOr<bool> gemmReference(Tool& tool, const std::string& path) {
  HPU_ASSIGN(std::vector<GemmRow> rows, readGemmRows(path));
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi1);
  std::vector<double> shipped, roofline;
  for (const GemmRow& row : rows) {
    shipped.push_back(predictTflops(target, target.clock(), row.shape));
    roofline.push_back(rooflineTflops(target, target.clock(), row.shape));
  }
  std::vector<std::vector<double>> folds;
  std::vector<Errors> errors;
  for (int seed = 0; seed < kShuffles; ++seed) {
    folds.push_back(crossValidate(target, rows, kFolds, static_cast<uint32_t>(seed)));
    errors.push_back(errorsOf(rows, folds.back()));
  }
  arch::TargetDesc fitted = fitGemmLaw(target, rows);

  tools::Table table = tools::Table::ofWords(
      {"gaudi1 M x K x N", "type", "measured TFLOP/s", "cross-validated", "error", "roofline", "error"});
  Json list = Json::array();
  for (size_t i = 0; i < rows.size(); ++i) {
    const GemmRow& row = rows[i];
    std::string shape =
        std::to_string(row.shape.m) + " x " + std::to_string(row.shape.k) + " x " + std::to_string(row.shape.n);
    std::string type(elementTypeName(row.shape.type));
    double error = folds[0][i] / row.tflops - 1, plain = roofline[i] / row.tflops - 1;
    table.row(
        {shape, type, number(row.tflops), number(folds[0][i]), percent(error), number(roofline[i]), percent(plain)});
    list.append(Json::object()
                    .set("m", row.shape.m)
                    .set("k", row.shape.k)
                    .set("n", row.shape.n)
                    .set("dtype", type)
                    .set("measured", row.tflops)
                    .set("cross_validated", folds[0][i])
                    .set("shipped", shipped[i])
                    .set("roofline", roofline[i]));
  }
  tool.print(table);
  bool ok = true;
  Json shuffles = Json::array();
  for (int seed = 0; seed < kShuffles; ++seed) {
    tool.print("5-fold cross-validation, shuffle " + std::to_string(seed) + ": " + errorsText(errors[seed]));
    shuffles.append(errorsJson(errors[seed]));
    ok = ok && meetsBars(errors[seed]);
  }
  Errors own = errorsOf(rows, shipped), plain = errorsOf(rows, roofline);
  tool.print("constants as shipped: " + errorsText(own));
  tool.print("plain roofline: " + errorsText(plain));
  char text[200];
  std::snprintf(text, sizeof text,
                "fitted on all rows: roll-up %lld, fill %lld, launch %lld cycles, stream stall %.3f (shipped %lld, "
                "%lld, %lld, %.3f)",
                static_cast<long long>(fitted.mmeRollupCycles), static_cast<long long>(fitted.mmeFillCycles),
                static_cast<long long>(fitted.mmeLaunchCycles), fitted.mmeStreamStall,
                static_cast<long long>(target.mmeRollupCycles), static_cast<long long>(target.mmeFillCycles),
                static_cast<long long>(target.mmeLaunchCycles), target.mmeStreamStall);
  tool.print(text);
  tool.json().set("gemm_rows", std::move(list));
  tool.json().set("cross_validation", std::move(shuffles));
  tool.json().set("shipped", errorsJson(own)).set("roofline", errorsJson(plain));
  return ok && meetsBars(own);
}

/// Rows that nothing was fitted on.
StatusOr<bool> holdout(Tool& tool, const std::string& path) {
  HPU_ASSIGN(std::vector<GemmRow> rows, readGemmRows(path));
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi1);
  std::vector<double> shipped;
  for (const GemmRow& row : rows) shipped.push_back(predictTflops(target, target.clock(), row.shape));
  Errors errors = errorsOf(rows, shipped);
  tool.print("hold-out " + path + ": " + errorsText(errors));
  tool.json().set("holdout", errorsJson(errors));
  return meetsBars(errors);
}

bool published(Tool& tool, const char* key, const char* title, const std::vector<PublishedRow>& rows) {
  using tools::Column;
  tools::Table table({Column::text(title), Column::number("published"), Column::number("model"),
                      Column::number("error"), Column::number("roofline").leaveOut(2),
                      Column::number("error").leaveOut(1), Column::word("unit"), Column::word("gated"),
                      Column::text("source")});
  Json list = Json::array();
  bool ok = true;
  for (const PublishedRow& row : rows) {
    bool plain = row.roofline > 0;
    table.row({row.what, number(row.published), number(row.model), percent(row.error()),
               plain ? number(row.roofline) : "-", plain ? percent(row.roofline / row.published - 1) : "-", row.unit,
               row.gated ? row.fails() ? "FAILS" : "yes" : "no", row.source});
    list.append(Json::object()
                    .set("what", row.what)
                    .set("unit", row.unit)
                    .set("published", row.published)
                    .set("model", row.model)
                    .set("roofline", row.roofline)
                    .set("gated", row.gated)
                    .set("tolerance", row.tolerance)
                    .set("source", row.source));
    ok = ok && !row.fails();
  }
  tool.print("");
  tool.print(table);
  tool.json().set(key, std::move(list));
  return ok;
}

StatusOr<ExitCode> run(Tool& tool, const Options& options) {
  std::string path = options.rows.empty() ? HPU_GEMM_ROWS : options.rows;
  HPU_ASSIGN(bool ok, gemmReference(tool, path));
  if (!options.holdout.empty()) {
    HPU_ASSIGN(bool held, holdout(tool, options.holdout));
    ok = ok && held;
  }
  ok = published(tool, "measured_gemms", "measured GEMM, M x K x N", measuredGemms()) && ok;
  ok = published(tool, "arrangements", "arrangement of the array", arrangements()) && ok;
  ok = published(tool, "measured_vectors", "vector, memory", measuredVectors()) && ok;
  ok = published(tool, "specifications", "specification", specifications()) && ok;
  tool.json().set("passed", ok);
  tool.print(ok ? "all bars are met" : "A BAR IS MISSED");
  return ok || !options.gate ? ExitCode::kOk : ExitCode::kMismatch;
}

}  // namespace
}  // namespace hpu::benchmarks

int main(int argc, char** argv) {
  using namespace hpu::benchmarks;
  Tool tool("model_validation", "Compares the performance model with published figures and a plain roofline.");
  Options options;
  tool.addOption("--rows", options.rows, "Gaudi 1 GEMM rows to cross-validate (default: the source tree's)");
  tool.addOption("--holdout", options.holdout, "More Gaudi 1 GEMM rows, for the constants as shipped");
  tool.addFlag("--gate", options.gate, "Exit code 2 when a bar is missed");
  return tool.run(argc, argv, [&] { return run(tool, options); });
}
