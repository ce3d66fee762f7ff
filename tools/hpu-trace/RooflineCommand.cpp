// SPDX-License-Identifier: Apache-2.0
// hpu-trace roofline: each operation against the ceilings of its engine and of the memories, and the terms that
// keep it below them.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "arch/TargetDesc.h"
#include "base/StatusMacros.h"
#include "tools/hpu-trace/Commands.h"
#include "tools/hpu-trace/Report.h"
#include "tools/hpu-trace/TraceFile.h"

namespace hpu::tools {
namespace {

using perfmodel::Term;

/// The least time that a row's work takes on its engine, in HBM and in SRAM.
struct Roof {
  Picoseconds engine = 0, hbm = 0, sram = 0;
  Picoseconds most() const { return std::max({engine, hbm, sram}); }
  std::string_view name(std::string_view engineName) const {
    if (engine == most()) return engineName;
    return hbm == most() ? "hbm" : "sram";
  }
};

Roof roofOf(const arch::TargetDesc& target, const WorkSum& work) {
  Roof roof;
  roof.engine = work.terms[static_cast<size_t>(Term::kIdeal)];
  roof.hbm = perfmodel::hbmTime(target, static_cast<int64_t>(work.hbmBytes));
  roof.sram = perfmodel::sramTime(target, static_cast<int64_t>(work.sramBytes));
  return roof;
}

double rate(uint64_t bytes, Picoseconds time) {
  return time > 0 ? static_cast<double>(bytes) * 1e3 / static_cast<double>(time) : 0;
}

std::string number(double value, const char* pattern = "%.3g") {
  char text[32];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

/// The largest losses, as shares of the row's time with waiting.
std::string losses(const WorkSum& work, size_t most) {
  std::vector<size_t> order;
  for (size_t t = 1; t < work.terms.size(); ++t)
    if (work.terms[t] > 0) order.push_back(t);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return work.terms[a] > work.terms[b]; });
  std::string text;
  for (size_t i = 0; i < std::min(most, order.size()); ++i)
    text += (i ? ", " : "") + std::string(perfmodel::termName(static_cast<Term>(order[i]))) + " " +
            formatShare(work.terms[order[i]], work.busy + work.sync);
  return text.empty() ? "-" : text;
}

struct Options {
  TraceFile file;
  std::string groupBy = "operation";
  int64_t device = -1, limit = 20;
};

StatusOr<ExitCode> run(Tool& tool, const Options& options) {
  HPU_ASSIGN(TraceData trace, options.file.read(tool));
  HPU_RETURN_IF_ERROR(checkDevice(trace, options.device));
  HPU_RETURN_IF_ERROR(requireWork(trace, options.device));
  const trace::TracedDevice* device = nullptr;
  for (const trace::TracedDevice& d : trace.devices) {
    if (options.device >= 0 && d.index != static_cast<uint64_t>(options.device)) continue;
    if (device && device->target != d.target)
      return invalidArgument("the trace has devices of several targets; choose one with --device");
    if (!device) device = &d;
  }
  if (!device) return invalidArgument("the trace has no device");
  const arch::TargetDesc& target = arch::targetDesc(device->target);
  const arch::ClockProfile& clock = target.clock(trace.text(device->clockProfile));

  std::vector<TopRow> rows = topRows(trace, parseGroupBy(options.groupBy), options.device);
  double hbmRate = target.hbmBytesPerNs * target.hbmEfficiency;
  Json ceilings = Json::object();
  for (const arch::MmeTypeRate& type : target.mmeTypes)
    ceilings.set("mme_" + std::string(elementTypeName(type.type)) + "_tflops", target.mmePeakTflops(clock, type.type));
  ceilings.set("tpc_f32_tflops", target.tpcPeakTflops(clock, ElementType::kF32))
      .set("hbm_GBps", hbmRate)
      .set("sram_GBps", target.sramBytesPerNs);
  tool.json().set("target", targetName(device->target)).set("clock", clock.name);
  tool.json().set("group_by", options.groupBy).set("ceilings", std::move(ceilings));
  tool.print(std::string(targetName(device->target)) + " (" + std::string(clock.name) + "): MME " +
             number(target.mmePeakTflops(clock, ElementType::kBF16), "%.1f") + " TFLOPS bf16, TPC " +
             number(target.tpcPeakTflops(clock, ElementType::kF32), "%.1f") + " TFLOPS f32, HBM " +
             number(hbmRate, "%.0f") + " GB/s, SRAM " + number(target.sramBytesPerNs, "%.0f") + " GB/s");

  Table table({Column::number("time"), Column::number("waiting").leaveOut(2), Column::word("engine"),
               Column::number("of roof"), Column::word("roof"), Column::number("HBM GB/s").leaveOut(3),
               Column::number("SRAM GB/s").leaveOut(4), Column::text("why not peak"),
               Column::name("name").key().least(kLeastName)});
  Json list = Json::array();
  auto most = static_cast<size_t>(std::max<int64_t>(options.limit, 0));
  for (size_t i = 0; i < std::min(most, rows.size()); ++i) {
    const TopRow& row = rows[i];
    Roof roof = roofOf(target, row.work);
    std::string_view name = roof.name(row.engine);
    table.row({formatTime(row.work.busy), formatTime(row.work.sync), row.engine,
               formatShare(roof.most(), row.work.busy), std::string(name),
               number(rate(row.work.hbmBytes, row.work.busy), "%.0f"),
               number(rate(row.work.sramBytes, row.work.busy), "%.0f"), losses(row.work, 3), printable(row.name)});
    list.append(Json::object()
                    .set("name", row.name)
                    .set("engine", row.engine)
                    .set("nodes", row.node)
                    .set("time_us", microseconds(row.work.busy + row.work.sync))
                    .set("busy_us", microseconds(row.work.busy))
                    .set("ideal_us", microseconds(roof.engine))
                    .set("hbm_us", microseconds(roof.hbm))
                    .set("sram_us", microseconds(roof.sram))
                    .set("roof", name)
                    .set("roof_fraction", row.work.busy > 0
                                              ? static_cast<double>(roof.most()) / static_cast<double>(row.work.busy)
                                              : 0.0)
                    .set("hbm_GBps", rate(row.work.hbmBytes, row.work.busy))
                    .set("sram_GBps", rate(row.work.sramBytes, row.work.busy))
                    .set("terms_us", termsJson(row.work.terms)));
  }
  tool.print(table);
  if (rows.size() > most) tool.print("... and " + std::to_string(rows.size() - most) + " more (-n)");
  tool.json().set("rows", std::move(list)).set("dropped_events", trace.dropped);
  return ExitCode::kOk;
}

}  // namespace

void addRooflineCommand(Tool& tool) {
  auto options = std::make_shared<Options>();
  CommandLine& command =
      tool.addCommand("roofline", "Operations against the ceilings of engines and memories, and why they are below",
                      [&tool, options] { return run(tool, *options); });
  options->file.addTo(command);
  command.addOption("--device", options->device, "Only this device (-1: all)");
  command.addOption("-n,--limit", options->limit, "Rows to list");
  command.addChoice("--group-by", options->groupBy, groupByNames(), "What makes a row");
}

}  // namespace hpu::tools
