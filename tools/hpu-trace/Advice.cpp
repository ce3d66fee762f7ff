// SPDX-License-Identifier: Apache-2.0
// The advice of hpu-trace summary: rules over the sums, each with the numbers that made it speak.
#include <algorithm>
#include <cstdio>

#include "tools/hpu-trace/Analysis.h"

namespace hpu::tools {
namespace {

using perfmodel::Term;
using trace::Track;

std::string percent(double fraction) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f %%", 100 * fraction);
  return text;
}

}  // namespace

std::vector<std::string> advise(const TraceData& trace, const Analysis& a, base::Reader reader) {
  struct Rule {
    double weight;  ///< Share of the device time that the advice is about.
    std::string text;
  };
  std::vector<Rule> rules;
  auto say = [&](double weight, std::string text) { rules.push_back({weight, std::move(text)}); };

  if (trace.dropped > 0)
    say(2, (trace.stopped ? "" : "at least ") + std::to_string(trace.dropped) + " events were dropped: " +
               (reader == base::Reader::kPython
                    ? "record for a shorter time"
                    : "raise --max-events (trace::Options::maxEvents) or record at a coarser level") +
               "; sums are too low");
  if (!trace.stopped)
    say(2,
        "the recording was not stopped properly: what was in memory when the process ended is "
        "missing");
  // Engines that were not recorded seem idle.
  double total = static_cast<double>(a.deviceTimeSum);
  if (total > 0 && a.notRecorded.empty()) {
    auto share = [&](Picoseconds time) { return static_cast<double>(time) / total; };
    if (double f = share(a.idleOutside); f > 0.10)
      say(f, "the device has nothing to do " + percent(f) +
                 " of the time: enqueue ahead of synchronising, use two streams, or batch more");
    if (double f = share(a.idleInLaunch); f > 0.10)
      say(f, "within launches all engines wait " + percent(f) +
                 " of the time: dependences are too serial; look at the order of operations");
    const WorkSum& mme = a.engines[static_cast<size_t>(Track::kMme)];
    const WorkSum& tpc = a.engines[static_cast<size_t>(Track::kTpc)];
    Picoseconds both = a.overlap(Track::kMme, Track::kTpc);
    Picoseconds possible = std::min(mme.busy, tpc.busy);
    if (possible > 0 && share(possible - std::min(both, possible)) > 0.10)
      say(share(possible - both),
          "MME and TPC could run together for up to " + percent(share(possible - both)) +
              " of the time more: check which operations are not bundled (" +
              base::inWordsOf(reader, base::compileCall("", {base::optionValue("reports", "fusion")})) + ")");
    if (tpc.busy > mme.busy && share(a.exposed(Track::kTpc)) > 0.25)
      say(share(a.exposed(Track::kTpc)),
          "the TPC runs alone " + percent(share(a.exposed(Track::kTpc))) +
              " of the time: fuse elementwise operations, or use bf16 to halve their vectors");
    Picoseconds copies = a.exposed(Track::kHostToDevice) + a.exposed(Track::kDeviceToHost);
    if (share(copies) > 0.10)
      say(share(copies), "host copies are exposed " + percent(share(copies)) +
                             " of the time: copy on a stream of their own while the device computes");
    if (double f = share(a.exposed(Track::kNic)); f > 0.10)
      say(f, "the network is exposed " + percent(f) +
                 " of the time: enqueue collectives on a stream of their own, each behind the event "
                 "of the output that it sends (LaunchArguments::events)");
  }
  double all = static_cast<double>(a.all.busy + a.all.sync);
  if (all > 0 && a.notRecorded.empty()) {
    auto loss = [&](Term t) { return static_cast<double>(a.all.terms[static_cast<size_t>(t)]) / all; };
    if (double f = loss(Term::kMemory); f > 0.20)
      say(f, percent(f) +
                 " of engine time waits for memory: keep intermediates in SRAM (larger bundles), "
                 "use bf16, or a larger batch to reuse weights");
    if (double f = loss(Term::kOverhead); f > 0.15)
      say(f, percent(f) +
                 " of engine time is the start of slices: they are too small; use a larger batch "
                 "or fewer, larger slices");
    if (double f = loss(Term::kRollUp); f > 0.10)
      say(f, percent(f) +
                 " of engine time is roll-up: GEMMs with a small K do not fill the MME; batch or "
                 "fuse them");
    if (double f = loss(Term::kEdgeQuantisation); f > 0.15)
      say(f, percent(f) +
                 " of engine time is edges: sizes that are multiples of 128 (MME) or 64 elements "
                 "(TPC) fill the engines");
    if (double f = loss(Term::kPorts); f > 0.15)
      say(f, percent(f) +
                 " of engine time is operand access: kernels load more than they compute; fuse "
                 "them with their neighbours");
  }
  std::stable_sort(rules.begin(), rules.end(), [](const Rule& x, const Rule& y) { return x.weight > y.weight; });
  std::vector<std::string> out;
  for (Rule& rule : rules) out.push_back(std::move(rule.text));
  return out;
}

}  // namespace hpu::tools
