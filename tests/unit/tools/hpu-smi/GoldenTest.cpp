// SPDX-License-Identifier: Apache-2.0
// The texts of hpu-smi, byte by byte. HPU_UPDATE_GOLDEN=1 writes them anew; read the difference before you commit.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/unit/tools/hpu-smi/SampleNode.h"
#include "tools/hpu-smi/Formats.h"

namespace hpu::smi {
namespace {

void expectGolden(const std::string& name, const std::string& text) {
  const char* source = std::getenv("HPU_SOURCE_DIR");
  std::string path = std::string(source ? source : ".") + "/tests/unit/tools/hpu-smi/golden/" + name;
  if (std::getenv("HPU_UPDATE_GOLDEN")) {
    std::ofstream(path) << text << '\n';
    return;
  }
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  std::ostringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(text + '\n', expected.str()) << path;
}

TEST(SmiGolden, SummaryOfOneDevice) {
  expectGolden("summary-1.txt", formatSummary(sampleView(1)));
}
TEST(SmiGolden, SummaryOfEightDevices) {
  expectGolden("summary-8.txt", formatSummary(sampleView(8)));
}
TEST(SmiGolden, LogOfOneDevice) {
  expectGolden("log-1.txt", formatLog(sampleView(1), logSections()));
}
TEST(SmiGolden, LogOfEightDevicesWithoutTheirNetwork) {
  expectGolden("log-8.txt", formatLog(sampleView(8), {"PRODUCT", "MEMORY", "ECC", "UTILIZATION", "TEMPERATURE", "POWER",
                                                      "CLOCK", "PROCESS"}));
}
TEST(SmiGolden, EveryCsvFieldOfEightDevices) {
  std::string all;
  for (const std::string& field : csvFieldNames()) all += (all.empty() ? "" : ",") + field;
  CsvRequest request = parseCsvRequest(all, "csv").value();
  expectGolden("csv-8.txt", formatCsvHeader(request) + "\n" + formatCsvRows(sampleView(8), request));
}
TEST(SmiGolden, JsonOfEightDevices) {
  tools::Json document = tools::Json::object();
  addJson(sampleView(8), document);
  expectGolden("json-8.txt", document.dump());
}
TEST(SmiGolden, MetricsOfOneDevice) {
  expectGolden("prometheus-1.txt", formatPrometheus(sampleView(1)));
}
TEST(SmiGolden, TopologyOfEightDevices) {
  expectGolden("topology-8.txt", formatTopology(sampleView(8)));
}

}  // namespace
}  // namespace hpu::smi
