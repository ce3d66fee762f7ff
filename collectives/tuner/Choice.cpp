// SPDX-License-Identifier: Apache-2.0
// How a choice is made: every algorithm is priced uncut; how finely to cut is tried only for those
// whose links could still win, and only while it pays.
#include <algorithm>
#include <map>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/algorithms/Registry.h"
#include "collectives/schedule/Check.h"
#include "collectives/tuner/Tuner.h"

namespace hpu::collectives {
namespace {

using base::strCat;

// A schedule costs about 0.7 microseconds a step to make, to price and to check: finer cuts than
// these are not tried below and from kLargeBytes. Up to the first number they are tried even when
// the algorithm would cut more finely.
constexpr int64_t kManySteps = 4500, kMostSteps = 18000, kLargeBytes = 128 << 20;
// Finer cuts are tried while the last one gained this much, and half as much could still be gained.
constexpr double kWorthwhileGain = 0.02;
// Cutting hardly changes what a link carries; by less than this where a part takes other ways.
constexpr double kSpread = 0.5;

// Times that differ by less are alike: then what moves fewer bytes, in fewer steps, is better, for
// the host that simulates the devices, too.
constexpr double kAlike = 0.002;

struct Priced {
  Schedule schedule;
  std::shared_ptr<const ScheduleTimer> timer;
  int64_t predictedPs = 0;
  int64_t movedBytes = 0;  // Over links, and by copies and reductions.

  bool betterThan(const Priced& other) const {
    auto slower = [](int64_t a, int64_t b) { return static_cast<double>(a) * (1 - kAlike) > static_cast<double>(b); };
    if (slower(predictedPs, other.predictedPs)) return false;
    if (slower(other.predictedPs, predictedPs)) return true;
    if (movedBytes != other.movedBytes) return movedBytes < other.movedBytes;
    return schedule.steps.size() < other.schedule.steps.size();
  }
};

int64_t movedBytes(const Schedule& schedule) {
  const Problem& p = schedule.problem;
  int64_t bytes = 0;
  auto addRange = [&](const Range& range) {
    bytes += range.count * (range.buffer == BufferKind::kPartial ? p.partialBytes : p.elementBytes);
  };
  for (const Step& step : schedule.steps) {
    for (const Range& source : step.sources) addRange(source);
    if (step.kind != StepKind::kSend) addRange(step.dst);
  }
  return bytes;
}

Priced price(const Algorithm& algorithm, const Problem& problem, int32_t slices, const LinkModel& links,
             std::vector<Candidate>& candidates) {
  Priced priced;
  priced.schedule = algorithm.make(problem, {slices, links.hopBytes()});
  priced.timer = std::make_shared<ScheduleTimer>(priced.schedule, links);
  priced.predictedPs = priced.timer->predictPs();
  priced.movedBytes = movedBytes(priced.schedule);
  candidates.push_back({std::string(algorithm.name), priced.schedule.slices, priced.predictedPs});
  return priced;
}

// What nothing can be faster than: the limit of the links with headers and one latency.
int64_t floorPs(const Problem& problem, const LinkModel& links) {
  double payload = static_cast<double>(lowerBoundPs(problem, links)) * links.linkBytesPerNs / links.payloadBytesPerNs();
  return links.startPs + static_cast<int64_t>(payload) + links.messagePs;
}

// How long the link that carries most is busy, at least.
int64_t busiestLinkPs(const Schedule& schedule, const LinkModel& links) {
  const Problem& p = schedule.problem;
  std::map<std::pair<int32_t, int32_t>, int64_t> bytes;
  int64_t busiest = 0;
  for (const Step& step : schedule.steps) {
    if (step.kind != StepKind::kSend) continue;
    const Range& source = step.sources[0];
    int64_t& sum = bytes[{step.rank, step.peer}];
    sum += source.count * (source.buffer == BufferKind::kPartial ? p.partialBytes : p.elementBytes);
    busiest = std::max(busiest, sum);
  }
  return bytes.empty() ? 0 : links.linkPs(busiest);
}

// Ascending; of large problems, where a schedule is dear and issuing messages is not, two.
std::vector<int32_t> slicesToTry(const Algorithm& algorithm, const Problem& problem, int64_t stepsUncut) {
  std::vector<int32_t> choices = algorithm.sliceChoices(problem), result;
  std::erase(choices, 1);
  if (choices.empty()) return {};
  const bool isLarge = problemBytes(problem) >= kLargeBytes;
  auto allowed = [&](int64_t steps) {
    return static_cast<int32_t>(std::max<int64_t>(steps / std::max<int64_t>(stepsUncut, 1), 1));
  };
  // Choices that are too fine are made coarser.
  auto coarser = [](int32_t slices, int32_t most) {
    while (slices > most) slices /= 2;
    return slices;
  };
  const int32_t most = allowed(isLarge ? kMostSteps : kManySteps);
  result.push_back(coarser(choices.front(), allowed(kManySteps)));
  for (int32_t slices : choices)
    if (slices <= most && !isLarge) result.push_back(slices);
  result.push_back(coarser(choices.back(), most));
  std::erase(result, 1);
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

// Prices what the algorithm can do beyond `best`, which it has uncut.
void tryFiner(const Algorithm& algorithm, const LinkModel& links, Priced& best, std::vector<Candidate>& candidates) {
  const Problem problem = best.schedule.problem;
  const int64_t floor = floorPs(problem, links);
  double last = static_cast<double>(best.predictedPs);
  bool first = true;
  for (int32_t slices : slicesToTry(algorithm, problem, static_cast<int64_t>(best.schedule.steps.size()))) {
    double hope = static_cast<double>(best.predictedPs - floor);
    if (hope < kWorthwhileGain / 2 * static_cast<double>(best.predictedPs)) return;
    Priced next = price(algorithm, problem, slices, links, candidates);
    double time = static_cast<double>(next.predictedPs);
    if (next.betterThan(best)) best = std::move(next);
    // The first cut may be too coarse to gain anything.
    if (!first && time > last * (1 - kWorthwhileGain)) return;
    first = false;
    last = time;
  }
}

}  // namespace

std::string candidateText(const Candidate& c, bool amongNodes) {
  return strCat(c.algorithm, ", ", c.slices, amongNodes ? " chunk" : " slice",
                c.slices == 1 ? ": " : "s: ", c.estimated ? "about " : "",
                base::formatNs((c.predictedPs + 500) / 1000));
}

StatusOr<Choice> makeChoice(const Problem& problem, const LinkModel& links, const TunerTable::Rule* rule) {
  Choice choice;
  std::vector<const Algorithm*> accepting;
  std::string place = rule ? strCat(rule->file, ":", rule->line) : std::string();
  if (rule) {
    StatusOr<const Algorithm*> algorithm = findAlgorithm(rule->algorithm, problem);
    if (!algorithm.ok())
      return invalidArgument(
          strCat(place, ": ", algorithm.status().message(), "; narrow the rule to what the algorithm can do"));
    accepting.push_back(*algorithm);
  } else {
    for (const Algorithm& algorithm : algorithms())
      if (algorithm.accepts(problem)) accepting.push_back(&algorithm);
  }
  if (accepting.empty()) return unimplemented(strCat("no algorithm for ", problemText(problem)));

  struct Contender {
    const Algorithm* algorithm;
    int64_t busiestLinkPs;
    Priced priced;
  };
  std::vector<Contender> contenders;
  for (const Algorithm* algorithm : accepting) {
    int32_t slices = rule && rule->slices > 0 ? rule->slices : 1;
    Priced priced = price(*algorithm, problem, slices, links, choice.candidates);
    contenders.push_back({algorithm, busiestLinkPs(priced.schedule, links), std::move(priced)});
  }
  std::stable_sort(contenders.begin(), contenders.end(),
                   [](const auto& a, const auto& b) { return a.priced.predictedPs < b.priced.predictedPs; });
  Priced best = std::move(contenders[0].priced);
  if (!rule || rule->slices == 0) {
    tryFiner(*contenders[0].algorithm, links, best, choice.candidates);
    for (size_t i = 1; i < contenders.size(); ++i) {
      Contender& c = contenders[i];
      double link = static_cast<double>(c.busiestLinkPs);
      if (kSpread * link >= static_cast<double>(best.predictedPs)) continue;
      tryFiner(*c.algorithm, links, c.priced, choice.candidates);
      if (c.priced.betterThan(best)) best = std::move(c.priced);
    }
  }
  HPU_RETURN_IF_ERROR(checkSchedule(best.schedule));

  std::stable_sort(choice.candidates.begin(), choice.candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.predictedPs < b.predictedPs; });
  choice.predictedPs = best.predictedPs;
  choice.lowerBoundPs = lowerBoundPs(problem, links);
  choice.reason = candidateText({best.schedule.algorithm, best.schedule.slices, best.predictedPs}, false);
  if (rule) choice.reason += strCat(" (rule at ", place, ")");
  for (const Candidate& c : choice.candidates) {
    if (rule || c.algorithm == best.schedule.algorithm) continue;
    choice.reason += "; next " + candidateText(c, false);
    break;
  }
  choice.timer = std::move(best.timer);
  choice.schedule = std::make_shared<const Schedule>(std::move(best.schedule));
  return choice;
}

std::string choiceText(const Choice& choice) {
  const Problem& problem = choice.schedule->problem;
  std::string text = strCat(problemText(problem), "\n  ", choice.reason, "\n  limit of the links ",
                            base::formatNs(choice.lowerBoundPs / 1000), "\n");
  for (const Candidate& c : choice.candidates) {
    int64_t permille = c.predictedPs > 0 ? choice.lowerBoundPs * 1000 / c.predictedPs : 0;
    text +=
        strCat("  ", candidateText(c, choice.amongNodes), ", ", permille / 10, ".", permille % 10, " % of the limit\n");
  }
  return text;
}

}  // namespace hpu::collectives
