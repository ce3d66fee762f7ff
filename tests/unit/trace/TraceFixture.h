// SPDX-License-Identifier: Apache-2.0
// A small program with two engines, recorded the way the runtime does it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "perfmodel/Timeline.h"
#include "runtime/trace/Reader.h"
#include "runtime/trace/Recorder.h"
#include "tests/unit/base/TemporaryFolder.h"

namespace hpu::trace {

/// A name that breaks careless writers: quotes, a tag, controls, bytes that are not UTF-8.
inline const std::string kNastyName = "conv \"1\" </script>\\\x01\n\xff\xc3\xa9";

struct Example {
  std::shared_ptr<recipe::Program> program = std::make_shared<recipe::Program>();
  std::vector<perfmodel::TimedQueue> queues;
  perfmodel::TimelineResult timeline;

  explicit Example(int slices = 4) {
    recipe::Program& p = *program;
    p.name = "example";
    p.sections = {{recipe::SectionKind::kWorkspace, recipe::kNone, 1 << 26}};
    p.sourceNodes = {{kNastyName, "Conv"}, {"relu1", "Relu"}};
    p.kernels.resize(1);
    p.kernels[0].cost = {1.0 / 64, 1.0 / 64, 2.0 / 64, 0};
    p.bundles = {{"bundle0", {0, 1}, static_cast<uint32_t>(slices)}};
    auto operand = [](std::vector<int64_t> sizes) {
      recipe::Operand o;
      o.section = 0;
      o.type = ElementType::kF32;
      o.strides.assign(sizes.size(), 1);
      for (size_t d = sizes.size(); d-- > 1;) o.strides[d - 1] = o.strides[d] * sizes[d];
      o.sizes = std::move(sizes);
      return o;
    };
    int64_t rows = 128 * slices;
    recipe::Op gemm, relu;
    gemm.engine = Engine::kMme;
    gemm.name = kNastyName + "+relu1";
    gemm.provenance = {0, 1};
    gemm.space = {rows, 256};
    gemm.mme.a = operand({rows, 512});
    gemm.mme.b = operand({512, 256});
    gemm.mme.c = operand({rows, 256});
    relu.engine = Engine::kTpc;
    relu.name = "relu1";
    relu.provenance = {1};
    relu.space = {rows, 256};
    relu.tpc.kernel = 0;
    relu.tpc.inputs = {operand({rows, 256})};
    relu.tpc.outputs = {operand({rows, 256})};
    p.ops = {gemm, relu};
    p.queues.resize(2);
    p.queues[0].engine = Engine::kMme;
    p.queues[1].engine = Engine::kTpc;
    p.numSignals = 1;
    for (uint32_t s = 0; s < static_cast<uint32_t>(slices); ++s) {
      recipe::Command c;
      c.bundle = 0;
      c.slice = s;
      c.lo = {128 * int64_t{s}, 0};
      c.hi = {128 * int64_t{s + 1}, 256};
      c.op = 0;
      c.signal = 0;
      p.queues[0].commands.push_back(c);
      c.op = 1;
      c.signal = recipe::kNone;
      c.waits = {{0, s + 1}};
      p.queues[1].commands.push_back(c);
    }
    const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi2);
    queues = perfmodel::timedQueues(p, target, target.clock());
    auto result = perfmodel::simulate(target, target.clock(), {{&queues, p.numSignals}});
    EXPECT_TRUE(result.ok());
    timeline = *result;
  }

  LaunchRecord launch(uint64_t id, perfmodel::Picoseconds at = 0) const {
    LaunchRecord record;
    record.launch = id;
    record.queue = 3;
    record.queueName = "compute";
    record.label = "example";
    record.program = program;
    record.queues = &queues;
    record.intervals = &timeline.intervals[0];
    record.start = timeline.launchStart[0] + at;
    record.end = timeline.launchEnd[0] + at;
    record.offset = at;
    return record;
  }

  /// Host calls, two copies and three launches; the clock edges make the host side differ from run
  /// to run.
  void record() const {
    nameThread("main \"thread\"");
    recordDevice(0, Target::kGaudi2, "hpu0", "sustained");
    for (uint64_t i = 0; i < 3; ++i) {
      HostScope scope("Executable.launch");
      scope.arg("launch", static_cast<int64_t>(i));
      recordClockEdge(0, i + 1, ClockEdge::kSubmit, hostNowNs(), 0);
      recordLaunch(launch(i + 1, static_cast<perfmodel::Picoseconds>(i) * 2 * timeline.end));
    }
    SpanRecord copy;
    copy.track = Track::kHostToDevice;
    copy.queueName = "copy in";
    copy.launch = 9;
    copy.name = "copy to device";
    copy.category = "copy";
    copy.ready = 100, copy.start = 400, copy.end = 5000;
    copy.bytes.hbm = 4096;
    recordSpan(copy);
    recordDeviceCounter(0, "hbm used", 77, 1 << 20);
    recordHostCounter("queue depth", 3);
    int64_t now = hostNowNs();
    recordHost("prepare", "api", now - 50, now, {{"path", std::string_view(kNastyName)}, {"n", -7}});
  }
};

class TraceTest : public testing::Test {
 protected:
  void TearDown() override { cancel(); }
  std::string file(const std::string& name) const { return folder_.file(name); }
  /// Records the example and reads the file back.
  TraceData recorded(const Example& example, const Options& options = {}) {
    EXPECT_TRUE(start(options).ok());
    example.record();
    Status stopped = stop(file("t.hputrace"));
    EXPECT_TRUE(stopped.ok()) << stopped.message();
    return readBack("t.hputrace");
  }
  TraceData readBack(const std::string& name) {
    StatusOr<TraceData> trace = readTraceFile(file(name));
    EXPECT_TRUE(trace.ok()) << trace.status().message();
    return trace.ok() ? std::move(*trace) : TraceData{};
  }
  base::TemporaryFolder folder_;
};

}  // namespace hpu::trace
