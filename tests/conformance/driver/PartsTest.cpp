// SPDX-License-Identifier: Apache-2.0
// Programs of parts: what they compute, how often parts run, and that a launch takes the time of its iterations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "DriverFixture.h"
#include "PartsSample.h"
#include "perfmodel/EngineCost.h"
#include "recipe/RecipeVerifier.h"

namespace hpu::driver {
namespace {

using namespace recipe::testing;
using recipe::kNone;
using recipe::Part;
using recipe::PartPlace;
using recipe::Program;
using recipe::SectionKind;
using Values = std::vector<int32_t>;

constexpr ElementType kI32 = ElementType::kI32;
constexpr int64_t kCount = 64;
constexpr int64_t kBytes = kCount * 4;
constexpr int64_t kDecisionNs = perfmodel::kPartDecision / 1000;

Program holder(std::string name) {
  Program program;
  program.name = std::move(name);
  program.producer = "test";
  program.target = Target::kGaudi2;
  return program;
}

/// Copies kCount elements.
PartBuilder copier(std::string name) {
  PartBuilder copy(std::move(name));
  copy.passOn(kI32, kCount);
  return copy;
}

class DriverParts : public DriverFixture {
 protected:
  ProgramId load(Program program) {
    const Status status = recipe::verifyProgram(program);
    EXPECT_TRUE(status.ok()) << status.message();
    program_ = std::make_shared<const Program>(std::move(program));
    auto id = device->loadProgram(program_);
    EXPECT_TRUE(id.ok()) << id.status().message();
    return id.ok() ? *id : 0;
  }
  /// Each section has a MiB for itself.
  DeviceAddress sectionAt(uint32_t section) const { return base + static_cast<DeviceAddress>(section) * kMiB; }
  Addresses addresses() const {
    Addresses list;
    for (uint32_t s = 0; s < program_->sections.size(); ++s) list.push_back(sectionAt(s));
    return list;
  }
  template <typename T>
  void put(QueueId q, uint32_t section, const std::vector<T>& values) {
    wait(submit(q, CopyToDevice{sectionAt(section), values.data(), static_cast<int64_t>(values.size() * sizeof(T))}));
  }
  Values get(QueueId q, uint32_t section, int64_t count = kCount) {
    Values values(static_cast<size_t>(count), -1);
    wait(download(q, values, sectionAt(section)));
    return values;
  }
  int64_t lasts(Ticket ticket) {
    const auto time = span(ticket);
    return time.endNs - time.startNs;
  }
  /// What a program of one copy takes alone.
  int64_t copyNs() {
    Program one = copier("one").program;
    one.target = Target::kGaudi2;
    auto id = device->loadProgram(std::make_shared<const Program>(one));
    QueueId q = queue("alone");
    return lasts(
        submit(q, Launch{id.value(), {base + 50 * kMiB, base + 51 * kMiB}}, {.earliestStartNs = 1'000'000'000'000}));
  }

  std::shared_ptr<const Program> program_;
};

TEST_P(DriverParts, SequencesHandValuesOn) {
  Program program = holder("sequence");
  const uint32_t in = addInput(program, kI32, {kCount}), out = addOutput(program, kI32, {kCount});
  const uint32_t between = addSection(program, SectionKind::kWorkspace, kBytes);
  copier("first").addTo(program, {nullptr, {at(in), at(between)}});
  copier("second").addTo(program, {nullptr, {at(between), at(out)}});
  ProgramId id = load(program);
  QueueId q = queue();
  const Values data = ramp(kCount, 3);
  put(q, in, data);
  Ticket launch = submit(q, Launch{id, addresses(), {0}});
  EXPECT_NEAR(static_cast<double>(lasts(launch)), 2.0 * static_cast<double>(copyNs()), 2.0);
  EXPECT_EQ(span(launch + 1).endNs, span(launch).endNs);
  if (computes()) {
    EXPECT_EQ(get(q, out), data);
  }
  // The copy alone is the other launch.
  EXPECT_EQ(device->counters().launches, 2);
  EXPECT_EQ(device->counters().commands, 3);
}

TEST_P(DriverParts, ConstantsAreThoseOfTheHolder) {
  Program program = holder("constants");
  const uint32_t out = addOutput(program, kI32, {2 * kCount});
  std::vector<uint8_t> bytes(2 * kBytes);
  const Values data = ramp(2 * kCount, 100);
  std::memcpy(bytes.data(), data.data(), bytes.size());
  const uint32_t table = addConstants(program, bytes);
  for (uint64_t half : {1, 0}) {
    PartBuilder part("half");
    const uint32_t constant = part.section(SectionKind::kConst, kBytes), to = part.output(kI32, {kCount});
    part.copy(constant, to, kI32, kCount);
    part.addTo(program, {nullptr, {at(table, half * kBytes), at(out, (1 - half) * kBytes)}});
  }
  ProgramId id = load(program);
  QueueId q = queue();
  put(q, table, bytes);
  wait(submit(q, Launch{id, addresses()}));
  if (!computes()) return;
  Values expected(data.begin() + kCount, data.end());
  expected.insert(expected.end(), data.begin(), data.begin() + kCount);
  EXPECT_EQ(get(q, out, 2 * kCount), expected);
}

/// Carries a value over `trips` slices, which it hands out one iteration later: out[i] = slice[i - 1]. In the order of
/// the slices or, `backwards`, from the last one on. Behind the loop what is left is the output `last`.
struct Delay {
  Program program = holder("delay");
  uint32_t start, slices, out, last, work;
  uint32_t count = kNone, flags = kNone;

  explicit Delay(uint64_t trips, bool backwards = false, bool counted = false, bool conditional = false) {
    const auto rows = static_cast<int64_t>(trips);
    start = addInput(program, kI32, {kCount});
    slices = addInput(program, kI32, {rows, kCount});
    if (counted) count = addInput(program, ElementType::kI64, {1});
    if (conditional) flags = addInput(program, ElementType::kBool, {rows + 1});
    out = addOutput(program, kI32, {rows, kCount});
    last = addOutput(program, kI32, {kCount});
    work = addSection(program, SectionKind::kWorkspace, 2 * kBytes);
    const PartPlace a = at(work), b = at(work, kBytes);
    copier("begin").addTo(program, {nullptr, {at(start), a}});
    PartBuilder body("body");
    const uint32_t carried = body.input(kI32, {kCount}), slice = body.input(kI32, {kCount});
    const uint32_t next = body.output(kI32, {kCount}), handed = body.output(kI32, {kCount});
    body.copy(carried, handed, kI32, kCount).copy(slice, next, kI32, kCount);
    auto rowsOf = [&](uint32_t section) {
      return backwards ? moving(section, static_cast<uint64_t>((rows - 1) * kBytes), -kBytes)
                       : moving(section, 0, kBytes);
    };
    Part loop{nullptr, {turning(1, a, b), rowsOf(slices), turning(1, b, a), rowsOf(out)}, trips};
    if (counted) loop.count = at(count);
    if (conditional) loop.condition = moving(flags, 0, 1);
    body.addTo(program, std::move(loop));
    copier("end").addTo(program, {nullptr, {turning(1, a, b), at(last)}});
  }

  /// What it leaves in `out`, whose rows are -1 before, and in `last`, after so many iterations.
  static void expect(Values& rows, Values& last, const Values& start, const Values& slices, int64_t trips, int64_t ran,
                     bool backwards) {
    rows.assign(static_cast<size_t>(trips * kCount), -1);
    last = start;
    for (int64_t i = 0; i < ran; ++i) {
      const int64_t row = backwards ? trips - 1 - i : i;
      std::copy(last.begin(), last.end(), rows.begin() + row * kCount);
      last.assign(slices.begin() + row * kCount, slices.begin() + (row + 1) * kCount);
    }
  }
};

class DriverLoops : public DriverParts {
 protected:
  /// Launches the delay and checks what it leaves; returns how long it took.
  int64_t run(const Delay& delay, ProgramId id, QueueId q, int64_t trips, int64_t ran, bool backwards = false) {
    const Values start = ramp(kCount, 1000), slices = ramp(trips * kCount);
    put(q, delay.start, start);
    put(q, delay.slices, slices);
    put(q, delay.out, Values(static_cast<size_t>(trips * kCount), -1));
    Ticket launch = submit(q, Launch{id, addresses()});
    const int64_t lasts = this->lasts(launch);
    if (!computes()) return lasts;
    Values rows, last;
    Delay::expect(rows, last, start, slices, trips, ran, backwards);
    EXPECT_EQ(get(q, delay.out, trips * kCount), rows) << trips << " trips, ran " << ran;
    EXPECT_EQ(get(q, delay.last), last) << trips << " trips, ran " << ran;
    return lasts;
  }
  /// Of a body with two copies, and of the copies before and behind the loop.
  double expectedNs(int64_t ran, double decisions) {
    return static_cast<double>(copyNs()) * static_cast<double>(2 + 2 * ran) + decisions * kDecisionNs;
  }
};

TEST_P(DriverLoops, FixedTripsCarryValuesAndCutSlices) {
  for (bool backwards : {false, true})
    for (int64_t trips : {1, 2, 5}) {
      Delay delay(static_cast<uint64_t>(trips), backwards);
      ProgramId id = load(delay.program);
      QueueId q = queue();
      const int64_t took = run(delay, id, q, trips, trips, backwards);
      EXPECT_NEAR(static_cast<double>(took), expectedNs(trips, 0), 3.0 * static_cast<double>(trips + 2));
    }
}

TEST_P(DriverLoops, ACountEndsThem) {
  constexpr int64_t kTrips = 5;
  Delay delay(kTrips, false, /*counted=*/true);
  ProgramId id = load(delay.program);
  QueueId q = queue();
  for (int64_t count : {0, 1, 3, 5, 99, -1, -99}) {
    put(q, delay.count, std::vector<int64_t>{count});
    const int64_t ran = std::clamp<int64_t>(count, 0, kTrips), most = computes() ? ran : kTrips;
    const int64_t took = run(delay, id, q, kTrips, ran);
    EXPECT_NEAR(static_cast<double>(took), expectedNs(most, 1), 3.0 * (kTrips + 2)) << count;
  }
  for (int64_t count : {INT64_MAX, INT64_MIN}) {
    put(q, delay.count, std::vector<int64_t>{count});
    run(delay, id, q, kTrips, count > 0 ? kTrips : 0);
  }
}

TEST_P(DriverLoops, AConditionEndsThem) {
  constexpr int64_t kTrips = 4;
  Delay delay(kTrips, true, false, /*conditional=*/true);
  ProgramId id = load(delay.program);
  QueueId q = queue();
  for (int64_t ran = 0; ran <= kTrips; ++ran) {
    std::vector<uint8_t> flags(kTrips + 1, 1);
    flags[static_cast<size_t>(ran)] = 0;
    put(q, delay.flags, flags);
    const int64_t most = computes() ? ran : kTrips;
    const double decisions = static_cast<double>(most + (most < kTrips ? 1 : 0));
    EXPECT_NEAR(static_cast<double>(run(delay, id, q, kTrips, ran, true)), expectedNs(most, decisions),
                3.0 * (kTrips + 2))
        << ran;
  }
}

TEST_P(DriverLoops, AConditionMayBeWhatTheyCarry) {
  // Each iteration copies the next flag to where the condition is read from: while (flag) flag = flags[i].
  Program program = holder("while");
  constexpr int64_t kTrips = 9;
  const uint32_t flags = addInput(program, ElementType::kBool, {kTrips + 1});
  const uint32_t marks = addOutput(program, ElementType::kBool, {kTrips});
  const uint32_t work = addSection(program, SectionKind::kWorkspace, 512);
  PartBuilder first("first");
  first.passOn(ElementType::kBool, 1);
  first.addTo(program, {nullptr, {at(flags), at(work)}});
  PartBuilder body("body");
  const uint32_t next = body.input(ElementType::kBool, {1});
  const uint32_t carried = body.output(ElementType::kBool, {1}), mark = body.output(ElementType::kBool, {1});
  body.copy(next, carried, ElementType::kBool, 1).fill(mark, ElementType::kBool, 1, 1);
  Part loop{nullptr, {moving(flags, 1, 1), turning(1, at(work, 256), at(work)), moving(marks, 0, 1)}, kTrips};
  loop.condition = turning(1, at(work), at(work, 256));
  body.addTo(program, std::move(loop));
  ProgramId id = load(program);
  QueueId q = queue();
  for (int64_t ran : {0, 1, 2, 7, 9}) {
    std::vector<uint8_t> values(kTrips + 1, 1), out(kTrips, 7);
    values[static_cast<size_t>(ran)] = 0;
    put(q, flags, values);
    put(q, marks, out);
    wait(submit(q, Launch{id, addresses()}));
    wait(submit(q, CopyToHost{out.data(), sectionAt(marks), kTrips}));
    if (!computes()) continue;
    std::vector<uint8_t> expected(kTrips, 7);
    std::fill_n(expected.begin(), ran, 1);
    EXPECT_EQ(out, expected) << ran;
  }
}

TEST_P(DriverParts, BranchesRunOneOrTheOther) {
  Program program = holder("branches");
  const uint32_t flag = addInput(program, ElementType::kBool, {1});
  const uint32_t yes = addInput(program, kI32, {kCount}), no = addInput(program, kI32, {kCount});
  const uint32_t out = addOutput(program, kI32, {kCount});
  const uint32_t work = addSection(program, SectionKind::kWorkspace, kBytes);
  for (bool inverted : {false, true}) {
    Part branch{nullptr, {at(inverted ? no : yes), at(work)}};
    branch.condition = at(flag);
    branch.conditionInverted = inverted;
    copier(inverted ? "else" : "then").addTo(program, std::move(branch));
  }
  copier("end").addTo(program, {nullptr, {at(work), at(out)}});
  ProgramId id = load(program);
  QueueId q = queue();
  put(q, yes, ramp(kCount, 10));
  put(q, no, ramp(kCount, 20));
  for (uint8_t value : {1, 0, 2}) {
    put(q, flag, std::vector<uint8_t>{value});
    Ticket launch = submit(q, Launch{id, addresses(), {0}});
    // Both are asked; without data both are taken to run.
    const double copies = computes() ? 2 : 3;
    EXPECT_NEAR(static_cast<double>(lasts(launch)), copies * static_cast<double>(copyNs()) + 2 * kDecisionNs, 4.0);
    EXPECT_EQ(span(launch + 1).endNs, span(launch).endNs);
    if (computes()) {
      EXPECT_EQ(get(q, out), ramp(kCount, value ? 10 : 20));
    }
  }
}

TEST_P(DriverParts, LoopsNest) {
  // Three rows of four slices, each row copied by a loop of its own.
  constexpr int64_t kRows = 3, kColumns = 4;
  Program row = holder("row");
  {
    const uint32_t in = addInput(row, kI32, {kColumns, kCount}), limit = addInput(row, ElementType::kI64, {1});
    const uint32_t out = addOutput(row, kI32, {kColumns, kCount});
    Part loop{nullptr, {moving(in, 0, kBytes), moving(out, 0, kBytes)}, kColumns};
    loop.count = at(limit);
    copier("cell").addTo(row, std::move(loop));
  }
  Program program = holder("nest");
  const uint32_t in = addInput(program, kI32, {kRows, kColumns, kCount});
  const uint32_t limits = addInput(program, ElementType::kI64, {kRows});
  const uint32_t out = addOutput(program, kI32, {kRows, kColumns, kCount});
  constexpr int64_t kRowBytes = kColumns * kBytes;
  program.parts.push_back({std::make_shared<const Program>(row),
                           {moving(in, 0, kRowBytes), moving(limits, 0, 8), moving(out, 0, kRowBytes)},
                           kRows});
  ProgramId id = load(program);
  QueueId q = queue();
  const Values data = ramp(kRows * kColumns * kCount);
  put(q, in, data);
  put(q, limits, std::vector<int64_t>{2, 0, 4});
  put(q, out, Values(data.size(), -1));
  const double cells = computes() ? 6 : 12;
  EXPECT_NEAR(static_cast<double>(lasts(submit(q, Launch{id, addresses()}))),
              cells * static_cast<double>(copyNs()) + 3 * kDecisionNs, 3.0 * cells);
  // The copy alone is another command.
  EXPECT_EQ(device->counters().commands, static_cast<int64_t>(cells) + 1);
  if (!computes()) return;
  Values expected(data.size(), -1);
  std::copy_n(data.begin(), 2 * kCount, expected.begin());
  std::copy_n(data.begin() + 2 * kColumns * kCount, 4 * kCount, expected.begin() + 2 * kColumns * kCount);
  EXPECT_EQ(get(q, out, kRows * kColumns * kCount), expected);
}

TEST_P(DriverParts, ARecurrenceMultiplies) {
  // h = h w, eight times: powers of a matrix that shifts.
  constexpr int64_t n = 4;
  Program program = holder("powers");
  const uint32_t h = addInput(program, ElementType::kF32, {n, n}), w = addInput(program, ElementType::kF32, {n, n});
  const uint32_t limit = addInput(program, ElementType::kI64, {1});
  const uint32_t out = addOutput(program, ElementType::kF32, {n, n});
  const uint32_t work = addSection(program, SectionKind::kWorkspace, 512);
  PartBuilder begin("begin"), body("body");
  begin.passOn(ElementType::kF32, n * n);
  begin.addTo(program, {nullptr, {at(h), at(work)}});
  const uint32_t a = body.input(ElementType::kF32, {n, n}), b = body.input(ElementType::kF32, {n, n});
  const uint32_t c = body.output(ElementType::kF32, {n, n});
  body.multiply(a, b, c, n);
  Part loop{nullptr, {turning(1, at(work), at(work, 256)), at(w), turning(1, at(work, 256), at(work))}, 8};
  loop.count = at(limit);
  body.addTo(program, std::move(loop));
  begin.addTo(program, {nullptr, {turning(1, at(work), at(work, 256)), at(out)}});
  ProgramId id = load(program);
  QueueId q = queue();
  std::vector<float> one(n * n), shift(n * n), result(n * n);
  for (int64_t i = 0; i < n; ++i) {
    one[static_cast<size_t>(i * n + i)] = 1;
    shift[static_cast<size_t>(i * n + (i + 1) % n)] = 2;
  }
  put(q, h, one);
  put(q, w, shift);
  for (int64_t count : {8, 3, 0, 5}) {
    put(q, limit, std::vector<int64_t>{count});
    wait(submit(q, Launch{id, addresses()}));
    wait(submit(q, CopyToHost{result.data(), sectionAt(out), n * n * 4}));
    if (!computes()) continue;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        EXPECT_EQ(result[static_cast<size_t>(i * n + j)], (i + count) % n == j ? static_cast<float>(1 << count) : 0)
            << count;
  }
}

TEST_P(DriverLoops, ManyLaunchesQueueUp) {
  constexpr int64_t kTrips = 3;
  Delay delay(kTrips, false, true);
  ProgramId id = load(delay.program);
  QueueId q = queue(), other = queue("other");
  put(q, delay.count, std::vector<int64_t>{2});
  put(q, delay.start, ramp(kCount));
  std::vector<Ticket> launches, others;
  for (int i = 0; i < 200; ++i) {
    launches.push_back(submit(q, Launch{id, addresses()}));
    others.push_back(submit(other, Fill{base + 40 * kMiB, 1, 1024}));
    if (i % 10 == 0) submit(other, WaitFor{launches.back(), nullptr});
  }
  wait(launches.back());
  wait(others.back());
  int64_t end = 0;
  for (size_t i = 0; i < launches.size(); ++i) {
    const auto time = span(launches[i]);
    EXPECT_GE(time.startNs + 1, end);
    EXPECT_GT(time.endNs, time.startNs);
    end = time.endNs;
  }
  EXPECT_GE(span(others.back()).endNs, span(launches[190]).endNs);
  EXPECT_EQ(device->counters().launches, 200);
}

TEST_P(DriverLoops, TimesDoNotDependOnTheHost) {
  // Launches whose time data decides, on two queues, with work that waits for one of them.
  auto run = [&](bool slowly) {
    device.reset();
    device = open(2);
    Delay delay(5, false, true);
    ProgramId id = load(delay.program);
    QueueId a = queue("a"), b = queue("b"), c = queue("c");
    const std::vector<int64_t> three{3};
    put(a, delay.count, three);
    std::vector<Ticket> tickets;
    for (int i = 0; i < 20; ++i) {
      tickets.push_back(submit(a, Launch{id, addresses()}));
      if (slowly) wait(tickets.back());
      tickets.push_back(submit(b, Fill{base + 40 * kMiB, 1, 4096}));
      if (i % 3 == 0) {
        submit(c, WaitFor{tickets[tickets.size() - 2], nullptr});
        tickets.push_back(submit(c, Fill{base + 41 * kMiB, 1, 4096}));
      }
    }
    std::vector<int64_t> times;
    for (Ticket ticket : tickets) {
      const auto time = span(ticket);
      times.push_back(time.startNs);
      times.push_back(time.endNs);
    }
    return times;
  };
  EXPECT_EQ(run(false), run(true));
}

TEST_P(DriverLoops, ABatchHasTheirTimes) {
  Delay delay(4, false, true);
  ProgramId id = load(delay.program);
  QueueId q = queue();
  put(q, delay.count, std::vector<int64_t>{1});
  std::vector<BatchItem> items(3);
  for (BatchItem& item : items) {
    item.work = Launch{id, addresses()};
    item.kept = true;
  }
  BatchOptions options;
  options.queue = q;
  auto tickets = device->submitBatch(items, std::move(options));
  ASSERT_TRUE(tickets.ok()) << tickets.status().message();
  const int64_t alone = lasts(submit(q, Launch{id, addresses()}, {.earliestStartNs = 1'000'000'000}));
  for (Ticket ticket : *tickets) EXPECT_NEAR(static_cast<double>(lasts(ticket)), static_cast<double>(alone), 1.0);
}

TEST_P(DriverLoops, AResetEndsThem) {
  // 2^31 iterations would take minutes.
  Program program = holder("endless");
  const uint32_t in = addInput(program, kI32, {kCount}), out = addOutput(program, kI32, {kCount});
  const uint32_t flag = addInput(program, ElementType::kBool, {1});
  Part loop{nullptr, {at(in), at(out)}, recipe::kMaxPartTrips};
  loop.condition = at(flag);
  copier("body").addTo(program, std::move(loop));
  ProgramId id = load(program);
  QueueId q = queue();
  put(q, flag, std::vector<uint8_t>{1});
  put(q, in, ramp(kCount, 5));
  put(q, out, ramp(kCount));
  Ticket launch = submit(q, Launch{id, addresses()}), behind = submit(q, Launch{id, addresses()});
  // Most often it runs by then. Looking at what it writes would be a race.
  if (computes()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ASSERT_TRUE(device->reset(kDeadlineMs).ok());
  EXPECT_TRUE(device->done(launch) && device->done(behind));
  if (computes()) {
    EXPECT_FALSE(device->wait(behind, kDeadlineMs).ok());
    const Status ended = device->wait(launch, kDeadlineMs);
    EXPECT_FALSE(ended.ok());
    if (ended.code() != StatusCode::kCancelled || ended.message().find("part") != std::string::npos) {
      EXPECT_THAT(ended.message(), ::testing::HasSubstr("part 0 'body', iteration "));
    }
  }
  // The device goes on, and knows the time of what came in between.
  put(q, flag, std::vector<uint8_t>{0});
  Ticket again = submit(q, Launch{id, addresses()});
  EXPECT_GE(span(again).startNs, 0);
  EXPECT_GE(device->counters().deviceNs, span(again).endNs);
}

TEST_P(DriverParts, WorkBehindAFailureTakesNoTimeAndIsNotRun) {
  Program program = holder("loop");
  const uint32_t in = addInput(program, kI32, {kCount}), out = addOutput(program, kI32, {kCount});
  const uint32_t flag = addInput(program, ElementType::kBool, {1});
  Part loop{nullptr, {at(in), at(out)}, 3};
  loop.condition = at(flag);
  copier("body").addTo(program, std::move(loop));
  ProgramId id = load(program);
  QueueId q = queue();
  put(q, flag, std::vector<uint8_t>{1});
  submit(q, Fault{internalError("broken")});
  Ticket skipped = submit(q, Launch{id, addresses()});
  EXPECT_FALSE(device->wait(skipped, kDeadlineMs).ok());
  auto time = device->deviceSpan(skipped);
  ASSERT_TRUE(time.ok()) << time.status().message();
  if (computes()) {
    EXPECT_LE(time->endNs - time->startNs, 1);  // Begin and end are rounded apart.
  }
  EXPECT_FALSE(device->takeError(q, skipped).ok());
  EXPECT_GT(lasts(submit(q, Launch{id, addresses()})), 0);
}

HPU_FOR_ALL_DRIVERS(DriverParts);
HPU_FOR_ALL_DRIVERS(DriverLoops);

}  // namespace
}  // namespace hpu::driver
