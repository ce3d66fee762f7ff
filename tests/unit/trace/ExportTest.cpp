// SPDX-License-Identifier: Apache-2.0
// Exports read back by something else: nlohmann-json, and a protobuf decoder written for this test.
#include "runtime/trace/Export.h"

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/File.h"
#include "tests/unit/trace/TraceFixture.h"

namespace hpu::trace {
namespace {

using Export = TraceTest;

std::string sanitized(std::string text) {
  // What kNastyName becomes: its byte 0xff is not UTF-8.
  for (size_t at; (at = text.find('\xff')) != std::string::npos;) text.replace(at, 1, "\xef\xbf\xbd");
  return text;
}

TEST_F(Export, ChromeJsonParsesAndHoldsEveryEvent) {
  Example example;
  ASSERT_TRUE(start().ok());
  example.record();
  ASSERT_TRUE(stop(file("t.json")).ok());
  nlohmann::json json = nlohmann::json::parse(*base::readTextFile(file("t.json")));
  std::map<std::string, int> phases;
  std::map<int, double> busy;
  std::set<std::string> names;
  int devicePid = 1000;
  for (const auto& e : json["traceEvents"]) {
    phases[e["ph"]]++;
    names.insert(e["name"]);
    if (e["ph"] != "X") continue;
    EXPECT_GE(e["dur"].get<double>(), 0);
    if (e["pid"] == devicePid) busy[e["tid"]] += e["dur"].get<double>();
  }
  EXPECT_EQ(phases["X"], 3 * 8 + 1 + 3 + 4) << "commands, the copy, launches, host events";
  EXPECT_EQ(phases["C"], 2);
  EXPECT_TRUE(names.count(sanitized(kNastyName + "+relu1")));
  EXPECT_NEAR(busy[1], 3 * static_cast<double>(example.timeline.busy[0]) / 1e6, 1e-6);
  EXPECT_NEAR(busy[2], 3 * static_cast<double>(example.timeline.busy[1]) / 1e6, 1e-6);
}

TEST_F(Export, ChromeTimesKeepEveryPicosecond) {
  Example example;
  TraceData trace = recorded(example);
  trace.devices[0].launches[0].start = 123456789012345678;  // 34 hours.
  trace.devices[0].launches[0].end = trace.devices[0].launches[0].start + 1;
  std::string text;
  ASSERT_TRUE(writeChrome(trace, [&](std::string_view piece) { return text += piece, okStatus(); }).ok());
  EXPECT_NE(text.find("\"ts\":123456789012.345678,\"dur\":0.000001,"), std::string::npos);
}

/// Two collectives that overlap, the second with two transfers at a time; and a third later on.
void recordNetwork() {
  recordDevice(0, Target::kGaudi2, "hpu0", "sustained");
  auto span = [](Track track, const char* name, Picoseconds from, Picoseconds to) {
    SpanRecord record;
    record.track = track;
    record.name = name;
    record.category = "external";
    record.ready = record.start = from;
    record.end = to;
    recordSpan(record);
  };
  span(Track::kNic, "all-reduce", 0, 1000);
  span(Track::kNic, "all-gather", 500, 2000);
  span(Track::kNetwork, "receive from 1", 500, 1500);
  span(Track::kNetwork, "receive from 2", 600, 2000);
  span(Track::kNic, "barrier", 2000, 2100);
}

TEST_F(Export, NetworkSpansThatOverlapAreDrawnInRowsOfTheirOwn) {
  ASSERT_TRUE(start().ok());
  recordNetwork();
  ASSERT_TRUE(stop(file("t.hputrace")).ok());
  TraceData trace = readBack("t.hputrace");
  ASSERT_EQ(trace.devices.size(), 1u);
  EXPECT_EQ(trace.devices[0].spans.size(), 3u);
  EXPECT_EQ(trace.devices[0].details.size(), 2u);
  EXPECT_EQ(trace.numEvents(), 5);
  std::string text;
  auto append = [&](std::string_view piece) { return text += piece, okStatus(); };
  ASSERT_TRUE(writeChrome(trace, append).ok());
  std::map<int, std::string> rows;
  std::map<std::string, std::string> rowOf;
  nlohmann::json json = nlohmann::json::parse(text);
  for (const auto& e : json["traceEvents"])
    if (e["name"] == "thread_name") rows[e["tid"]] = e["args"]["name"];
  for (const auto& e : json["traceEvents"])
    if (e["ph"] == "X") rowOf[e["name"]] = rows[e["tid"]];
  EXPECT_EQ(rowOf, (std::map<std::string, std::string>{{"all-reduce", "nic"},
                                                       {"all-gather", "nic 2"},
                                                       {"barrier", "nic"},
                                                       {"receive from 1", "network"},
                                                       {"receive from 2", "network 2"}}));
  text.clear();
  ASSERT_TRUE(writeCsv(trace, append).ok());
  EXPECT_NE(text.find("0,network,receive from 2,external"), std::string::npos);
  text.clear();
  ASSERT_TRUE(writePerfetto(trace, append).ok());
  EXPECT_NE(text.find("network 2"), std::string::npos);
}

// ---- Perfetto
// -----------------------------------------------------------------------------------------

/// One field of a protobuf message.
struct Field {
  uint32_t number = 0, wire = 0;
  uint64_t value = 0;
  std::string_view bytes;
};

/// Splits a message; fails the test when the wire format is broken.
std::vector<Field> fields(std::string_view message) {
  std::vector<Field> out;
  size_t at = 0;
  auto varint = [&]() -> uint64_t {
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (at >= message.size() || shift > 63) break;
      auto byte = static_cast<uint8_t>(message[at++]);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (!(byte & 0x80)) return value;
    }
    ADD_FAILURE() << "broken varint";
    at = message.size();
    return 0;
  };
  while (at < message.size()) {
    Field f;
    uint64_t key = varint();
    f.number = static_cast<uint32_t>(key >> 3);
    f.wire = static_cast<uint32_t>(key & 7);
    if (f.wire == 0) {
      f.value = varint();
    } else if (f.wire == 2) {
      uint64_t size = varint();
      if (size > message.size() - at) {
        ADD_FAILURE() << "a field longer than its message";
        return out;
      }
      f.bytes = message.substr(at, static_cast<size_t>(size));
      at += static_cast<size_t>(size);
    } else {
      ADD_FAILURE() << "unexpected wire type " << f.wire;
      return out;
    }
    out.push_back(f);
  }
  return out;
}
const Field* find(const std::vector<Field>& all, uint32_t number) {
  for (const Field& f : all)
    if (f.number == number) return &f;
  return nullptr;
}
uint64_t value(const std::vector<Field>& all, uint32_t number) {
  const Field* f = find(all, number);
  return f ? f->value : 0;
}

TEST_F(Export, PerfettoSlicesNestAndKeepTheirNamesAndTimes) {
  Example example;
  ASSERT_TRUE(start().ok());
  {
    HostScope outer("outer");
    HostScope inner("inner");
    example.record();
  }
  ASSERT_TRUE(stop(file("t.pftrace")).ok());
  std::string bytes = *base::readTextFile(file("t.pftrace"));

  std::map<uint64_t, std::string> tracks;
  std::set<std::pair<uint64_t, uint64_t>> clocksKnown;                     // Sequence and clock.
  std::map<uint64_t, std::map<uint64_t, std::string>> names;               // By sequence.
  std::map<uint64_t, std::vector<std::pair<uint64_t, std::string>>> open;  // By track.
  std::map<std::string, uint64_t> durations;                               // By track name.
  std::map<uint64_t, uint64_t> lastTime;
  std::set<uint64_t> started;
  std::set<std::string> slices;
  int begins = 0, ends = 0, counters = 0;
  for (const Field& outer : fields(bytes)) {
    ASSERT_EQ(outer.number, 1u) << "a trace holds packets only";
    std::vector<Field> packet = fields(outer.bytes);
    uint64_t sequence = value(packet, 10);
    ASSERT_NE(sequence, 0u);
    if (const Field* snapshot = find(packet, 6)) {
      for (const Field& clock : fields(snapshot->bytes))
        if (clock.number == 1) clocksKnown.insert({sequence, value(fields(clock.bytes), 1)});
      continue;
    }
    if (const Field* descriptor = find(packet, 60)) {
      std::vector<Field> track = fields(descriptor->bytes);
      std::string name = find(track, 2) ? std::string(find(track, 2)->bytes) : "";
      EXPECT_TRUE(tracks.emplace(value(track, 1), name).second) << "a track's uuid is its own";
      continue;
    }
    ASSERT_TRUE(clocksKnown.count({sequence, value(packet, 58)})) << "no clock without a snapshot";
    // The first packet of a sequence clears the state, all others need it.
    EXPECT_EQ(value(packet, 13), started.insert(sequence).second ? 3u : 2u);
    if (const Field* interned = find(packet, 12))
      for (const Field& kind : fields(interned->bytes)) {
        std::vector<Field> entry = fields(kind.bytes);
        if (kind.number == 2) names[sequence][value(entry, 1)] = std::string(find(entry, 2)->bytes);
      }
    const Field* event = find(packet, 11);
    ASSERT_NE(event, nullptr);
    std::vector<Field> e = fields(event->bytes);
    uint64_t track = value(e, 11), time = value(packet, 8);
    ASSERT_TRUE(tracks.count(track)) << "no event before its track's descriptor";
    switch (value(e, 9)) {
      case 1: {
        ++begins;
        std::string name = names[sequence].at(value(e, 10));
        slices.insert(name);
        if (!open[track].empty()) {
          EXPECT_GE(time, open[track].back().first);
        }
        open[track].push_back({time, name});
        EXPECT_GE(time, lastTime[track]);
        lastTime[track] = time;
        break;
      }
      case 2:
        ++ends;
        ASSERT_FALSE(open[track].empty()) << "an end without a begin";
        EXPECT_GE(time, open[track].back().first);
        durations[tracks[track]] += time - open[track].back().first;
        open[track].pop_back();
        lastTime[track] = time;
        break;
      case 4:
        ++counters;
        break;
      default:
        ADD_FAILURE() << "unknown event type";
    }
  }
  EXPECT_EQ(begins, 3 * 8 + 1 + 3 + 6);
  EXPECT_EQ(ends, begins);
  EXPECT_EQ(counters, 2);
  for (const auto& [track, stack] : open) EXPECT_TRUE(stack.empty()) << tracks[track];
  EXPECT_TRUE(slices.count(sanitized(kNastyName + "+relu1")));
  EXPECT_TRUE(slices.count("outer") && slices.count("inner"));
  // Device nanoseconds, each interval rounded down at both ends.
  EXPECT_NEAR(static_cast<double>(durations["mme"]), 3 * static_cast<double>(example.timeline.busy[0]) / 1e3, 3 * 4);
  EXPECT_NEAR(static_cast<double>(durations["tpc"]), 3 * static_cast<double>(example.timeline.busy[1]) / 1e3, 3 * 4);
}

TEST_F(Export, CsvHasALineForEachSliceAndQuotesItsNames) {
  Example example;
  TraceData trace = recorded(example);
  std::string text;
  ASSERT_TRUE(writeCsv(trace, [&](std::string_view piece) { return text += piece, okStatus(); }).ok());
  // A reader of RFC 4180.
  std::vector<std::vector<std::string>> rows(1);
  rows[0].emplace_back();
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"')
      rows.back().back() += text[++i];
    else if (c == '"')
      quoted = !quoted;
    else if (!quoted && c == ',')
      rows.back().emplace_back();
    else if (!quoted && c == '\n')
      rows.push_back({""});
    else
      rows.back().back() += c;
  }
  rows.pop_back();
  ASSERT_EQ(rows.size(), 1 + 3u * 8 + 1);
  size_t columns = rows[0].size();
  EXPECT_EQ(columns, 15u + perfmodel::kNumTerms);
  bool found = false;
  for (const auto& row : rows) {
    ASSERT_EQ(row.size(), columns);
    if (row[2] != sanitized(kNastyName + "+relu1")) continue;
    found = true;
    EXPECT_EQ(row[1], "mme");
    int64_t sum = 0;
    for (size_t t = 15; t < columns; ++t) sum += std::stoll(row[t]);
    EXPECT_EQ(sum, std::stoll(row[12]) - std::stoll(row[10]));
  }
  EXPECT_TRUE(found);
}

TEST_F(Export, Utf8IsMendedAndNeverLost) {
  EXPECT_EQ(toUtf8("plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"), "plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_EQ(toUtf8("\xff"), "\xef\xbf\xbd");
  EXPECT_EQ(toUtf8("\xc0\xaf"), "\xef\xbf\xbd\xef\xbf\xbd") << "overlong";
  EXPECT_EQ(toUtf8("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd") << "surrogate";
  EXPECT_EQ(toUtf8("a\xe2\x82"), "a\xef\xbf\xbd\xef\xbf\xbd") << "cut short";
}

}  // namespace
}  // namespace hpu::trace
