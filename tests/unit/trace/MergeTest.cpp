// SPDX-License-Identifier: Apache-2.0
// Merged traces against the ones that they were made of.
#include "runtime/trace/Merge.h"

#include <unistd.h>

#include <map>

#include "base/File.h"
#include "runtime/trace/Export.h"
#include "runtime/trace/Format.h"
#include "tests/unit/trace/TraceFixture.h"

namespace hpu::trace {
namespace {

using format::ChunkType;
using format::DomainKind;

/// What a recording says of its process.
struct Identity {
  uint64_t pid = 1;
  std::string host = "boot-a";
  int64_t clockNs = 1000, wallNs = 1'700'000'000'000'000'000;
};

class Merge : public TraceTest {
 protected:
  /// The example with another identity in its session chunk.
  TraceData recordedBy(const Identity& who) {
    (void)recorded(example_);
    std::vector<uint8_t> bytes = *base::readFile(file("t.hputrace")), out, session;
    format::Encoder e(session);
    e.text("test"), e.varint(who.pid), e.varint(2), e.varint(1 << 20), e.signedVarint(who.clockNs);
    e.text(who.host), e.signedVarint(who.wallNs), e.text("worker");
    format::appendFileHeader(out);
    format::appendChunk(out, ChunkType::kSession, 0, 1, session);
    format::forEachChunk(bytes.data(), bytes.size(),
                         [&](ChunkType type, uint32_t domain, uint32_t records, const uint8_t* data, size_t size) {
                           if (type != ChunkType::kSession)
                             format::appendChunk(out, type, domain, records, {data, data + size});
                         });
    return parse(out);
  }
  static TraceData parse(const std::vector<uint8_t>& bytes) {
    auto owner = std::make_shared<std::vector<uint8_t>>(bytes);
    StatusOr<TraceData> trace = readTrace(owner->data(), owner->size(), owner, "t");
    EXPECT_TRUE(trace.ok()) << trace.status().message();
    return trace.ok() ? std::move(*trace) : TraceData{};
  }
  static StatusOr<Merged> merge(const std::vector<const TraceData*>& traces, Align align = Align::kClock) {
    std::vector<MergeInput> inputs;
    for (size_t i = 0; i < traces.size(); ++i) inputs.push_back({"t" + std::to_string(i), traces[i]});
    return mergeTraces(inputs, align);
  }
  /// Payloads of a device's chunks.
  static std::vector<std::vector<uint8_t>> deviceBytes(const TraceData& trace, uint32_t device) {
    std::vector<std::vector<uint8_t>> out;
    format::forEachChunk(trace.bytes, trace.fileBytes,
                         [&](ChunkType, uint32_t domain, uint32_t, const uint8_t* data, size_t size) {
                           if (domain == format::domainId(DomainKind::kDevice, device))
                             out.emplace_back(data, data + size);
                         });
    return out;
  }
  static std::string csv(const TraceData& trace) {
    std::string text;
    EXPECT_TRUE(writeCsv(trace, [&](std::string_view piece) {
                  text += piece;
                  return okStatus();
                }).ok());
    return text;
  }
  Example example_;
};

TEST_F(Merge, HostTimesKeepTheirDistanceOnTheClockTheyShare) {
  TraceData a = recordedBy({1, "boot-a", 5'000'000, 1}), b = recordedBy({2, "boot-a", 2'000'000, 2});
  StatusOr<Merged> merged = merge({&a, &b});
  ASSERT_TRUE(merged.ok()) << merged.status().message();
  TraceData m = parse(merged->bytes);
  EXPECT_EQ(m.startNs, 2'000'000) << "the earlier of the two";
  ASSERT_EQ(m.processes.size(), 2u);
  EXPECT_EQ(m.processes[0].startNs, 3'000'000);
  EXPECT_EQ(m.processes[1].startNs, 0);
  EXPECT_TRUE(merged->processes[0].exact && merged->processes[1].exact);
  ASSERT_EQ(m.threads.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const TraceData& from = i == 0 ? a : b;
    const HostThread &before = from.threads[0], &after = m.threads[i];
    EXPECT_EQ(after.process, i);
    EXPECT_EQ(m.text(after.name), from.text(before.name));
    ASSERT_EQ(after.events.size(), before.events.size());
    for (size_t e = 0; e < after.events.size(); ++e) {
      EXPECT_EQ(m.startNs + after.events[e].start, from.startNs + before.events[e].start);
      EXPECT_EQ(after.events[e].end - after.events[e].start, before.events[e].end - before.events[e].start);
      EXPECT_EQ(m.text(after.events[e].name), from.text(before.events[e].name));
      ASSERT_EQ(after.events[e].numArgs, before.events[e].numArgs);
      for (uint32_t k = 0; k < after.events[e].numArgs; ++k) {
        const HostArg &x = after.args[after.events[e].firstArg + k], &y = before.args[before.events[e].firstArg + k];
        EXPECT_EQ(m.text(x.key), from.text(y.key));
        ASSERT_EQ(x.isText, y.isText);
        if (x.isText)
          EXPECT_EQ(m.text(static_cast<StringId>(x.value)), from.text(static_cast<StringId>(y.value)));
        else
          EXPECT_EQ(x.value, y.value);
      }
    }
    ASSERT_EQ(after.counters.size(), 1u);
    ASSERT_EQ(after.edges.size(), 3u);
  }
}

TEST_F(Merge, DevicesKeepTheirBytesAndNamesAndConflictsAreNamed) {
  TraceData a = recordedBy({1}), b = recordedBy({2});
  StatusOr<Merged> merged = merge({&a, &b});
  ASSERT_TRUE(merged.ok()) << merged.status().message();
  TraceData m = parse(merged->bytes);
  ASSERT_EQ(m.devices.size(), 2u);
  ASSERT_EQ(merged->renumbered.size(), 1u);
  EXPECT_EQ(merged->renumbered[0].input, 1u);
  EXPECT_EQ(merged->renumbered[0].before, 0u);
  EXPECT_EQ(merged->renumbered[0].after, 1u);
  EXPECT_EQ(deviceBytes(m, 0), deviceBytes(a, 0));
  EXPECT_EQ(deviceBytes(m, 1), deviceBytes(b, 0));
  EXPECT_EQ(m.devices[1].process, 1u);
  EXPECT_EQ(m.devices[1].indexThere, 0u);
  EXPECT_EQ(m.text(m.devices[1].name), "hpu0");
  // The clock edges speak of the new index.
  for (const ClockEdgeEvent& e : m.threads[0].edges) EXPECT_EQ(e.device, 0u);
  for (const ClockEdgeEvent& e : m.threads[1].edges) EXPECT_EQ(e.device, 1u);
  EXPECT_EQ(m.numEvents(), a.numEvents() + b.numEvents());
  EXPECT_TRUE(m.stopped);
}

TEST_F(Merge, OneTraceMergedAloneSaysTheSame) {
  TraceData a = recordedBy({7});
  StatusOr<Merged> merged = merge({&a});
  ASSERT_TRUE(merged.ok());
  TraceData m = parse(merged->bytes);
  EXPECT_EQ(csv(m), csv(a));
  EXPECT_EQ(m.startNs, a.startNs);
  EXPECT_TRUE(merged->renumbered.empty());
}

TEST_F(Merge, AMergedTraceCanBeMergedAgain) {
  TraceData a = recordedBy({1, "boot-a", 100, 1}), b = recordedBy({2, "boot-a", 400, 2}),
            c = recordedBy({3, "boot-a", 50, 3});
  TraceData ab = parse(merge({&a, &b})->bytes);
  StatusOr<Merged> all = merge({&ab, &c});
  ASSERT_TRUE(all.ok()) << all.status().message();
  TraceData m = parse(all->bytes);
  ASSERT_EQ(m.processes.size(), 3u);
  EXPECT_EQ(m.processes[0].startNs, 50);
  EXPECT_EQ(m.processes[1].startNs, 350);
  EXPECT_EQ(m.processes[2].startNs, 0);
  EXPECT_EQ(m.devices.size(), 3u);
  EXPECT_EQ(m.devices[1].indexThere, 0u);
}

TEST_F(Merge, ClocksThatNothingTiesTogetherAreRefused) {
  TraceData a = recordedBy({1, "boot-a", 100, 1'000'000}), b = recordedBy({2, "boot-b", 9'000'000'000, 1'004'000}),
            old = recordedBy({3, "", 5, 0});
  for (const TraceData* other : {&b, &old}) {
    StatusOr<Merged> refused = merge({&a, other});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition);
    EXPECT_NE(refused.status().message().find("--align"), std::string::npos) << refused.status().message();
  }
  StatusOr<Merged> wall = merge({&a, &b}, Align::kWall);
  ASSERT_TRUE(wall.ok()) << wall.status().message();
  EXPECT_EQ(wall->processes[1].offsetNs, 4000);
  EXPECT_TRUE(wall->processes[0].exact);
  EXPECT_FALSE(wall->processes[1].exact);
  EXPECT_FALSE(merge({&a, &old}, Align::kWall).ok()) << "it has no wall clock";
  StatusOr<Merged> start = merge({&a, &b, &old}, Align::kStart);
  ASSERT_TRUE(start.ok());
  for (const Merged::Process& p : start->processes) EXPECT_EQ(p.offsetNs, 0);
}

TEST_F(Merge, TheSameRecordingTwiceIsAMistake) {
  TraceData a = recordedBy({1}), b = recordedBy({2});
  EXPECT_EQ(merge({&a, &b, &a}).status().code(), StatusCode::kInvalidArgument);
  TraceData ab = parse(merge({&a, &b})->bytes);
  EXPECT_EQ(merge({&ab, &b}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(merge({}).ok());
}

TEST_F(Merge, ACutRecordingIsTakenAsFarAsItIsWhole) {
  TraceData a = recordedBy({1});
  std::vector<uint8_t> bytes(a.bytes, a.bytes + a.fileBytes - 5);
  TraceData cut = parse(bytes), b = recordedBy({2});
  StatusOr<Merged> merged = merge({&cut, &b});
  ASSERT_TRUE(merged.ok());
  TraceData m = parse(merged->bytes);
  EXPECT_EQ(m.truncatedBytes, 0u);
  EXPECT_FALSE(m.stopped);
  EXPECT_FALSE(m.processes[0].stopped);
  EXPECT_TRUE(m.processes[1].stopped);
}

TEST_F(Merge, TimesThatDoNotFitAreRefused) {
  TraceData a = recordedBy({1, "boot-a", INT64_MIN + 1, 1}), b = recordedBy({2, "boot-a", INT64_MAX, 2});
  EXPECT_FALSE(merge({&a, &b}).ok());
  TraceData c = recordedBy({3, "boot-a", 0, 3}), d = recordedBy({4, "boot-a", INT64_MAX / 2, 4});
  EXPECT_FALSE(merge({&c, &d}).ok()) << "beyond what the format holds";
}

}  // namespace
}  // namespace hpu::trace
