// SPDX-License-Identifier: Apache-2.0
// What the texts must be like, whatever is in them, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "tests/unit/tools/hpu-smi/SampleNode.h"
#include "tools/common/Terminal.h"
#include "tools/hpu-smi/Formats.h"

namespace hpu::smi {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

std::string csv(const NodeView& view, const std::string& fields, const std::string& format) {
  CsvRequest request = parseCsvRequest(fields, format).value();
  return formatCsvRows(view, request);
}

TEST(SmiSummary, EveryLineOfTheBoxHasItsWidth) {
  NodeView view = sampleView(8);
  // The widest values that there are, and texts that are wider than their columns.
  view.devices[1].status.usedBytes = view.devices[1].status.totalBytes;
  view.devices[1].status.owner.usedBytes = view.devices[1].status.totalBytes;
  view.devices[1].readings.utilization = 1;
  view.devices[1].readings.watts = 900;
  view.devices[0].status.name = "HL-225-and-some-more";
  view.devices[0].status.owner.pid = 4194304;
  view.identity = view.version = std::string(100, 'v');
  for (const std::string& line : lines(formatSummary(view))) {
    if (line[0] != '|' && line[0] != '+') continue;
    EXPECT_EQ(line.size(), 79u) << line;
  }
}

TEST(SmiSummary, ANarrowTerminalHasAllOfTheBoxInLinesThatFit) {
  NodeView view = sampleView(8);
  view.devices[1].status.usedBytes = view.devices[1].status.totalBytes;
  const auto wordsOf = [](std::string text) {
    std::replace(text.begin(), text.end(), '|', ' ');
    std::istringstream words(text);
    return std::set<std::string>(std::istream_iterator<std::string>(words), {});
  };
  for (int width : {30, 40, 60, 78}) {
    const std::string text = formatSummary(view, width);
    for (const std::string& line : lines(text))
      EXPECT_LE(tools::displayWidth(line), static_cast<size_t>(width)) << width << ":\n" << text;
    const std::set<std::string> narrow = wordsOf(text);
    for (const std::string& word : wordsOf(formatSummary(view)))
      if (word.find_first_of("0123456789") != std::string::npos && word != "P0") {  // The one level that there is.
        EXPECT_TRUE(narrow.count(word)) << word << "\n" << text;
      }
    for (const char* state : {"Lost", "Default", "answer"}) EXPECT_TRUE(narrow.count(state)) << state << "\n" << text;
  }
  EXPECT_EQ(formatSummary(view, 79), formatSummary(view));
  EXPECT_THAT(formatSummary(view, 60), HasSubstr("32C  Pwr 345W / 600W"));
  view.devices.resize(5);
  view.devices.erase(view.devices.begin(), view.devices.begin() + 4);
  EXPECT_THAT(formatSummary(view, 60), HasSubstr("no compute processes"));
}

TEST(SmiSummary, ScriptsFindAddressesAsInHlSmi) {
  // hl-smi | grep HL-225 | awk '{print $2,$6}' of published scripts.
  for (const std::string& line : lines(formatSummary(sampleView(1)))) {
    if (line.find("HL-225") == std::string::npos) continue;
    std::istringstream words(line);
    std::vector<std::string> all(std::istream_iterator<std::string>(words), {});
    EXPECT_EQ(all[1], "0");
    EXPECT_EQ(all[5], "0000:19:00.0");
  }
}

TEST(SmiCsv, ValuesAreTheDevices) {
  NodeView view = sampleView(8);
  EXPECT_EQ(csv(view, "index,name,memory.total,memory.used,memory.free", "csv,noheader,nounits").substr(0, 39),
            "0, HL-225, 98304, 2500, 95804\n1, HL-325");
  view.devices.resize(1);
  EXPECT_EQ(csv(view, "utilization.aip,utilization.tpc,power.draw,temperature.aip", "csv"), "50 %, 25 %, 345 W, 32 C");
  EXPECT_EQ(csv(view, "pcie.rx,pcie.tx,energy,queue.depth,pid,state", "csv,nounits"),
            "4000000, 500000, 1035, 7, 4321, in use");
  EXPECT_EQ(csv(view, "timestamp", "csv"), "Sat Nov 21 22:23:45 UTC 2026");
}

TEST(SmiCsv, ALostDeviceHasNoReadings) {
  NodeView view = sampleView(8);
  view.devices = {view.devices[2]};
  EXPECT_EQ(csv(view, "utilization.aip,power.draw,temperature.aip,clocks.current.soc,memory.total", "csv"),
            "N/A, N/A, N/A, N/A, 32768 MiB");
  EXPECT_EQ(csv(view, "ecc.errors.uncorrected.volatile.total,state", "csv"), "21, lost");
}

TEST(SmiCsv, NothingIsKnownOfADeviceWhoseOwnerDoesNotAnswer) {
  NodeView view = sampleView(8);
  view.devices = {view.devices[3]};
  EXPECT_EQ(csv(view, "index,pid,memory.total,memory.used,utilization.aip,queue.depth,state", "csv,nounits"),
            "3, 55, 98304, N/A, N/A, N/A, no answer");
}

TEST(SmiCsv, TheHeaderHasUnitsAlsoWithoutThemInTheRows) {
  CsvRequest request = parseCsvRequest(
                           "name,uuid,power.draw,temperature.aip,utilization.aip,"
                           "memory.used,memory.total",
                           "csv,nounits")
                           .value();
  // As hl-smi 1.18 prints it.
  EXPECT_EQ(formatCsvHeader(request),
            "name, uuid, power.draw [W], temperature.aip [C], utilization.aip [%], "
            "memory.used [MiB], memory.total [MiB]");
}

TEST(SmiCsv, UsedAndFreeSumToTheTotal) {
  NodeView view = sampleView(1);
  for (int64_t used : {int64_t{0}, int64_t{1}, int64_t{524288}, int64_t{1572864}, int64_t{96} << 30}) {
    view.devices[0].status.usedBytes = used;
    long total = 0, free = 0, taken = 0;
    sscanf(csv(view, "memory.total,memory.free,memory.used", "csv,nounits").c_str(), "%ld, %ld, %ld", &total, &free,
           &taken);
    EXPECT_EQ(free + taken, total);
  }
}

TEST(SmiCsv, UnknownFieldsAndFormatsAreRefusedWithTheValidOnes) {
  Status bad = parseCsvRequest("index,utilisation", "csv").status();
  EXPECT_EQ(bad.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(bad.message(), HasSubstr("'utilisation'"));
  for (const std::string& field : csvFieldNames()) EXPECT_THAT(bad.message(), HasSubstr(field));
  EXPECT_THAT(parseCsvRequest("", "csv").status().message(), HasSubstr("unknown field ''"));
  EXPECT_THAT(parseCsvRequest("index,", "csv").status().message(), HasSubstr("unknown field ''"));
  EXPECT_THAT(parseCsvRequest("index", "json").status().message(), HasSubstr("'json'"));
  EXPECT_THAT(parseCsvRequest("index", "noheader").status().message(), HasSubstr("'csv' is missing"));
  EXPECT_TRUE(parseCsvRequest(" index , name ", "csv, nounits").ok());
}

TEST(SmiCsv, FieldsSayWhetherTheyNeedAWindow) {
  EXPECT_FALSE(parseCsvRequest("index,memory.used,energy", "csv")->needsWindow);
  for (const char* field : {"utilization.aip", "power.draw", "temperature.aip", "pcie.rx"})
    EXPECT_TRUE(parseCsvRequest(field, "csv")->needsWindow) << field;
}

TEST(SmiLog, SectionsAreThoseAskedFor) {
  std::string text = formatLog(sampleView(8), parseSections("power,Temperature").value());
  EXPECT_THAT(text, HasSubstr("Power Draw              : 345 W"));
  EXPECT_THAT(text, HasSubstr("[ 1] On Chip            : 32 C"));
  EXPECT_THAT(text, Not(HasSubstr("Product Name")));
  EXPECT_THAT(text, HasSubstr("[7] AIP (accel7) 0000:b4:00.0"));
  Status bad = parseSections("POWER,FANS").status();
  EXPECT_THAT(bad.message(), HasSubstr("'FANS'"));
  for (const std::string& section : logSections()) EXPECT_THAT(bad.message(), HasSubstr(section));
}

TEST(SmiSelect, ByAddressIndexUuidAndSerial) {
  for (const char* word :
       {"0000:33:00.0", "33:00.0", "2", "OHPU-SIM0-01234567-02", "ohpu-sim0-01234567-02", "SIM01234567-02"}) {
    NodeView view = sampleView(8);
    ASSERT_TRUE(selectDevices(view, word).ok()) << word;
    ASSERT_EQ(view.devices.size(), 1u);
    EXPECT_EQ(view.devices[0].status.index, 2);
    EXPECT_EQ(view.attached, 8u);
  }
  NodeView view = sampleView(8);
  ASSERT_TRUE(selectDevices(view, "5,0000:19:00.0,5").ok());
  ASSERT_EQ(view.devices.size(), 2u);
  EXPECT_EQ(view.devices[0].status.index, 0);
  EXPECT_EQ(view.devices[1].status.index, 5);
}

TEST(SmiSelect, AnUnknownDeviceIsNotFoundAndTheOthersAreListed) {
  NodeView view = sampleView(8);
  Status bad = selectDevices(view, "0000:99:00.0");
  EXPECT_EQ(bad.code(), StatusCode::kNotFound);
  EXPECT_THAT(bad.message(), HasSubstr("0000:b4:00.0"));
  EXPECT_EQ(selectDevices(view, "").code(), StatusCode::kNotFound);
  EXPECT_EQ(selectDevices(view, "0,").code(), StatusCode::kNotFound);
  EXPECT_EQ(selectDevices(view, "8").code(), StatusCode::kNotFound);
}

TEST(SmiNic, LinksAreListedAsInHlSmi) {
  NodeView view = sampleView(1);
  std::string text = formatNic(view, "link", "").value();
  EXPECT_THAT(text, StartsWith("port  0:        UP\nport  1:        UP\n"));
  EXPECT_EQ(lines(text).size(), 21u);  // Inside the box.
  EXPECT_EQ(formatNic(view, "link", "7,8").value(), "port  7:        UP\nport  8:        UP");
  EXPECT_EQ(formatNic(view, "ports", "7,8").value(), "port  7:        internal\nport  8:        external");
  EXPECT_EQ(lines(formatNic(view, "ports", "").value()).size(), 24u);
  view.devices[0].status.railUsers = 0;
  EXPECT_EQ(formatNic(view, "link", "7,8").value(), "port  7:        UP\nport  8:        DOWN");
  view = sampleView(8);
  view.devices = {view.devices[2]};  // Lost.
  EXPECT_THAT(formatNic(view, "link", "").value(), Not(HasSubstr("UP")));
}

TEST(SmiNic, StatisticsAreListedByPort) {
  NodeView view = sampleView(8);
  view.devices.resize(4);
  const auto of = [&](size_t device, const char* ports) {
    NodeView one = view;
    one.devices = {view.devices[device]};
    return formatNic(one, "stats", ports).value();
  };
  // Device 1's link has three ports: 70,000 bytes, 20 packets, 10 messages.
  const std::string first = of(0, "0"), last = of(0, "2");
  EXPECT_THAT(first, StartsWith("port  0:        UP, to device 1\n    tx_bytes             24507\n"
                                "    tx_payload_bytes     23334\n    tx_packets           7\n"
                                "    tx_messages          4\n    tx_busy_ns           2000\n"));
  EXPECT_THAT(last, HasSubstr("    tx_payload_bytes     23333\n    tx_packets           6\n"));
  EXPECT_THAT(first, HasSubstr("    retransmitted        0\n"));
  EXPECT_THAT(of(0, "3"), StartsWith("port  3:        UP, to device 2\n    tx_bytes             0\n"));
  EXPECT_THAT(of(0, "8"), StartsWith("port  8:        UP, external\n    tx_bytes             17254\n"));
  EXPECT_THAT(of(0, "8"), HasSubstr("    retransmitted        3\n"));
  EXPECT_THAT(of(1, "8"), StartsWith("port  8:        DOWN, external\n    tx_bytes             0\n"));
  EXPECT_THAT(of(3, "0"), HasSubstr("    tx_bytes             N/A\n"));  // Its owner has never answered.
  EXPECT_EQ(lines(formatNic(view, "stats", "0,1").value()).size(), 4u * (1 + 2 * 24));
}

TEST(SmiNic, WhatIsNotThereIsRefused) {
  NodeView view = sampleView(1);
  EXPECT_EQ(formatNic(view, "cables", "").status().code(), StatusCode::kInvalidArgument);
  for (const char* ports : {"24", "-1", "x", "1,", "99999999999"})
    EXPECT_EQ(formatNic(view, "link", ports).status().code(), StatusCode::kInvalidArgument) << ports;
}

TEST(SmiPrometheus, LabelsAreEscaped) {
  NodeView view = sampleView(1);
  view.identity = "a\"b\\c\nd";
  EXPECT_THAT(formatPrometheus(view), HasSubstr("node=\"a\\\"b\\\\c\\nd\""));
}

TEST(SmiView, AnUnknownClockProfileIsAnError) {
  node::NodeStatus node = freeNode(1);
  node.devices[0].clockProfile = "warp";
  Status bad = makeView(node, node, 0).status();
  EXPECT_EQ(bad.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(bad.message(), HasSubstr("device 0"));
}

TEST(SmiView, ADeviceWithoutAnEarlierSampleReadsAsIdle) {
  node::NodeStatus before, after = freeNode(2);
  NodeView view = makeView(before, after, 0).value();
  EXPECT_EQ(view.devices[1].readings.utilization, 0);
  EXPECT_EQ(view.timestamp, "Thu Jan  1 00:00:00 UTC 1970");
}

}  // namespace
}  // namespace hpu::smi
