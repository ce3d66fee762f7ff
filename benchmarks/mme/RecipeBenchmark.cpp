// SPDX-License-Identifier: Apache-2.0
// Runs a recipe on the functional executor alone and says where the host's time goes, unit by unit.
//
//   hpu-bench-recipe MODEL.recipe [--threads N] [--iterations N] [--top N]
//
// Inputs are small numbers; device time, copies and the runtime's queues are not part of it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "recipe/RecipeReader.h"
#include "runtime/driver/sim/functional/HostBuffer.h"
#include "runtime/driver/sim/functional/ProgramExecutor.h"
#include "tools/common/Interrupt.h"

namespace {

using namespace hpu;

/// Memory for all sections of a program: constants as they are, inputs filled with small numbers.
struct Memory {
  std::vector<sim::HostBuffer> buffers;
  std::vector<std::byte*> bases;
};

StatusOr<Memory> allocate(const recipe::Program& program) {
  Memory memory;
  for (const recipe::Section& section : program.sections) {
    auto buffer = sim::HostBuffer::create(section.kind == recipe::SectionKind::kSram ? 0 : section.bytes);
    if (!buffer.ok()) return buffer.status();
    memory.buffers.push_back(std::move(buffer).value());
    std::byte* base = memory.buffers.back().data();
    memory.bases.push_back(base);
    bool floats = section.kind == recipe::SectionKind::kInput &&
                  program.inputs[section.binding].type.element == ElementType::kF32;
    for (uint64_t i = 0; floats && i < section.bytes / 4; ++i) {
      float value = static_cast<float>(i * 2654435761u >> 24) / 256.0f - 0.5f;
      std::memcpy(base + 4 * i, &value, 4);
    }
  }
  for (const recipe::ConstantBlob& blob : program.constants)
    std::memcpy(memory.bases[blob.section] + blob.offset, blob.data, blob.bytes);
  return memory;
}

int fail(const Status& status) {
  std::fprintf(stderr, "hpu-bench-recipe: %s\n", status.message().c_str());
  return status.code() == StatusCode::kInternal ? 3 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::string path;
  int threads = 0, iterations = 20;
  size_t top = 20;
  for (int i = 1; i < argc; ++i) {
    std::string name = argv[i];
    if (name.rfind("--", 0) != 0) {
      path = name;
    } else if (i + 1 < argc) {
      int value = std::atoi(argv[++i]);
      if (name == "--threads") threads = value;
      if (name == "--iterations") iterations = std::max(value, 1);
      if (name == "--top") top = static_cast<size_t>(value);
    }
  }
  if (path.empty()) {
    std::fprintf(stderr, "usage: hpu-bench-recipe MODEL.recipe [--threads N] [--iterations N] [--top N]\n");
    return 1;
  }
  auto program = recipe::readRecipeFile(path);
  if (!program.ok()) return fail(program.status());
  auto memory = allocate(**program);
  if (!memory.ok()) return fail(memory.status());
  auto begin = std::chrono::steady_clock::now();
  auto executor = sim::ProgramExecutor::create(*program, {threads});
  if (!executor.ok()) return fail(executor.status());
  double prepare = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

  const sim::UnitList& units = (*executor)->units();
  std::vector<std::vector<double>> times(units.size());
  std::vector<double> totals, seconds;
  tools::Interrupt interrupt("stopping after the run in flight");
  for (int i = -2; i < iterations && interrupt.signal() == 0; ++i) {
    Status status = (*executor)->run(memory->bases, &seconds);
    if (!status.ok()) return fail(status);
    if (i < 0) continue;
    double total = 0;
    for (size_t u = 0; u < units.size(); ++u) {
      times[u].push_back(seconds[u]);
      total += seconds[u];
    }
    totals.push_back(total);
  }
  if (totals.empty()) return static_cast<int>(tools::endBySignal(interrupt.signal()));
  struct Row {
    size_t unit;
    double best, median;
  };
  std::vector<Row> rows;
  double sum = 0;
  for (size_t u = 0; u < units.size(); ++u) {
    std::sort(times[u].begin(), times[u].end());
    rows.push_back({u, times[u].front(), times[u][times[u].size() / 2]});
    sum += rows.back().best;
  }
  std::sort(totals.begin(), totals.end());
  std::printf(
      "%s: %zu units, prepared in %.1f ms; best run %.3f ms, median %.3f ms, sum of the units' "
      "best "
      "%.3f ms\n",
      (*program)->name.c_str(), units.size(), prepare * 1e3, totals.front() * 1e3, totals[totals.size() / 2] * 1e3,
      sum * 1e3);
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.best > b.best; });
  for (size_t i = 0; i < std::min(top, rows.size()); ++i)
    std::printf("%9.1f us (median %9.1f) %5.1f%%  #%-4zu %s\n", rows[i].best * 1e6, rows[i].median * 1e6,
                100 * rows[i].best / sum, rows[i].unit, units[rows[i].unit]->name().c_str());
  if (interrupt.signal() == 0) return 0;
  std::fprintf(stderr, "note: interrupted after %zu of %d runs\n", totals.size(), iterations);
  return static_cast<int>(tools::endBySignal(interrupt.signal()));
}
