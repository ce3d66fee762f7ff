// SPDX-License-Identifier: Apache-2.0
#include "collectives/fabric/FabricFile.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/Format.h"
#include "collectives/fabric/RankMap.h"

namespace hpu::collectives {
namespace {

using base::strCat;

std::string examples() {
  const char* source = std::getenv("HPU_SOURCE_DIR");
  return std::string(source ? source : ".") + "/collectives/fabric/examples/";
}

Fabric example(const std::string& name) {
  auto fabric = namedFabric(name);
  EXPECT_TRUE(fabric.ok()) << fabric.status().message();
  return fabric.ok() ? *fabric : Fabric();
}

TEST(FabricFile, HasEveryExampleCompiledIn) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(examples()))
    files.push_back(entry.path().stem().string());
  std::vector<std::string> names = namedFabrics();
  std::sort(files.begin(), files.end());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, files);
  for (const std::string& name : names) {
    const auto read = readFabric(examples() + name + ".json");
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read->name, name);
    const Fabric compiled = example(name);
    EXPECT_EQ(fabricText(compiled), fabricText(*read));
    EXPECT_TRUE(checkFabric(compiled).ok());
    EXPECT_TRUE(RankMap::all(compiled).ok());
  }
}

TEST(FabricFile, IsTheSameFabricWhenItIsWrittenAndRead) {
  for (const std::string& name : namedFabrics()) {
    Fabric fabric = example(name);
    for (int step = 0; step < 3; ++step) {
      const auto back = parseFabric(fabricText(fabric), "back");
      ASSERT_TRUE(back.ok()) << back.status().message() << fabricText(fabric);
      EXPECT_TRUE(*back == fabric) << fabricText(fabric);
      ASSERT_TRUE(setConstant(fabric, {"message_us", 1.0 / 3, 0, step + 7.0, "measured \"here\""}).ok());
      ASSERT_TRUE(setConstant(fabric, {"packets_per_ack", 4, 1, 64, "x"}).ok());
      fabric.railPacketBytes = 4096;
      fabric.mesh.linkBytesPerNs /= 3;
      fabric = [&] {  // What follows from the rate.
        auto again = parseFabric(fabricText(fabric), "again");
        return again.ok() ? *again : fabric;
      }();
    }
  }
}

TEST(FabricFile, TakesFromTheTargetsStandardNodeWhatItLeavesOut) {
  for (const auto& [name, target] :
       {std::pair("hls-1", Target::kGaudi1), {"hls-2", Target::kGaudi2}, {"hls-3", Target::kGaudi3}})
    for (int32_t nodes : {1, 4, 128}) {
      const auto fabric = namedFabric(name, nodes);
      ASSERT_TRUE(fabric.ok());
      EXPECT_TRUE(*fabric == standardFabric(target, nodes)) << fabricText(*fabric);
    }
}

TEST(FabricFile, KnowsTheUsualMachines) {
  const Fabric pcie = example("hl-338");
  EXPECT_EQ(pcie.devicesPerNode, 4);
  EXPECT_EQ(pcie.mesh.linkBytesPerNs, 150);  // 3 x 150 = 450 GB/s among four.
  EXPECT_EQ(pcie.railBytesPerNs, 100);
  const Fabric cloud = example("dl1");
  EXPECT_EQ(cloud.rails, 4);
  EXPECT_EQ(cloud.railBytesPerNs, 12.5);
  EXPECT_EQ(cloud.mesh.linkBytesPerNs, 12.5);
  EXPECT_EQ(cloud.railOf(0, 1), 0);
  EXPECT_GT(cloud.railMessagePs, standardFabric(Target::kGaudi1, 4).railMessagePs + 10'000'000);
  const Fabric spine = example("leaf-spine");
  EXPECT_EQ(spine.nodesPerLeaf, 16);
  EXPECT_EQ(spine.oversubscription, 2);
  const Fabric degraded = example("degraded");
  EXPECT_EQ(degraded.railOf(1, 5), 6);
  EXPECT_EQ(degraded.rateOf(3), 0.8);
  EXPECT_EQ(RankMap::all(degraded)->ranks(), 30);
}

std::string errorOf(std::string_view text) {
  const auto fabric = parseFabric(text, "f.json");
  if (fabric.ok()) return "";
  EXPECT_EQ(fabric.status().code(), StatusCode::kInvalidArgument);
  return std::string(fabric.status().message());
}

/// A right file with `more` in it.
std::string with(const std::string& more) {
  return R"({"format": "openhpu-fabric-1", "target": "gaudi3", "nodes": 4)" + more + "}";
}

TEST(FabricFile, SaysWhereAndWhatMayBeThere) {
  EXPECT_EQ(errorOf(with("")), "");
  EXPECT_EQ(errorOf("{"), "f.json: it is not JSON (or not UTF-8)");
  EXPECT_EQ(errorOf("[]"), "f.json: it is not an object");
  EXPECT_EQ(errorOf("{}"), "f.json: its 'format' is '', not 'openhpu-fabric-1'");
  EXPECT_EQ(errorOf(R"({"format": "openhpu-fabric-1", "nodes": 4})"), "f.json: it has no 'target'");
  EXPECT_EQ(errorOf(R"({"format": "openhpu-fabric-1", "target": "gaudi3"})"), "f.json: it has no 'nodes'");
  EXPECT_NE(errorOf(R"({"format": "openhpu-fabric-1", "target": "gaudi4", "nodes": 4})").find("valid targets"),
            std::string::npos);
  EXPECT_NE(errorOf(with(R"(, "node": 4)")).find("there is no 'node'; there are format, comment, name, target, nodes"),
            std::string::npos);
  EXPECT_EQ(errorOf(with(R"(, "nodes": 5)")), "f.json: 'nodes' comes twice in one object");
  EXPECT_EQ(errorOf(with(R"(, "rails": {"count": 4, "gbits": 200})")),
            "f.json: 'rails': there is no 'gbits'; there are count, ports, gbit_per_port, gb_per_s, packet_bytes, "
            "packet_overhead_bytes, message_overhead_bytes");
  EXPECT_EQ(errorOf(with(R"(, "rails": {"count": 9})")), "f.json: 'rails': 'count' is 9, not from 1 to 8");
  EXPECT_EQ(errorOf(with(R"(, "mesh": {"ports": 3})")), "f.json: 'mesh': 'ports' and 'gbit_per_port' go together");
  EXPECT_EQ(errorOf(with(R"(, "mesh": {"ports": 3, "gbit_per_port": 200, "gb_per_s": 75})")),
            "f.json: 'mesh': it has both 'gb_per_s' and 'ports' with 'gbit_per_port': one of them");
  EXPECT_EQ(errorOf(with(R"(, "leaf": {"oversubscription": 2})")), "f.json: 'leaf': it has no 'nodes'");
  EXPECT_EQ(errorOf(with(R"(, "exceptions": [{"node": 1}, {"node": 4}])")),
            "f.json: entry 1 of 'exceptions': 'node' is 4, not from 0 to 3");
  EXPECT_EQ(errorOf(with(R"(, "exceptions": [{"node": 1}, {"node": 1}])")),
            "f.json: 'exceptions' has node 1 twice; one entry says all of it");
  EXPECT_EQ(errorOf(with(R"(, "exceptions": [{"node": 1, "rails_down": [2, 2]}])")),
            "f.json: entry 0 of 'exceptions': 'rails_down' has 2 twice");
  EXPECT_EQ(errorOf(with(R"(, "exceptions": [{"node": 1, "rate": 1.5}])")),
            "f.json: entry 0 of 'exceptions': 'rate' is 1.5, not from 0.01 to 1");
  EXPECT_EQ(errorOf(with(R"(, "exceptions": [{"rate": 0.5}])")), "f.json: entry 0 of 'exceptions': it has no 'node'");
  EXPECT_NE(errorOf(with(R"(, "constants": {"latency": 5})"))
                .find("'constants': there is no constant 'latency'; there "
                      "are start_us"),
            std::string::npos);
  EXPECT_NE(errorOf(with(R"(, "constants": {"message_us": -1})")).find("'message_us' is -1"), std::string::npos);
  EXPECT_NE(errorOf(with(R"(, "constants": {"message_us": {"value": 5, "high": 3}})")).find("interval"),
            std::string::npos);
  EXPECT_NE(errorOf(with(R"(, "mesh": {"gb_per_s": 900})")).find("copy_gb_per_s"), std::string::npos);
}

TEST(FabricFile, ChangesTheModelByItsConstants) {
  const auto fabric = parseFabric(with(R"(, "constants": {"message_us": 5, "switch_us": {"value": 1, "low": 0.5,
                                          "high": 2, "source": "measured"}})"),
                                  "what-if");
  ASSERT_TRUE(fabric.ok()) << fabric.status().message();
  EXPECT_EQ(fabric->mesh.messagePs, 5'000'000);
  EXPECT_EQ(fabric->railMessagePs, 6'000'000);
  EXPECT_EQ(fabric->name, "what-if");
  EXPECT_EQ(findConstant(*fabric, "message_us")->source, "set in what-if");
  EXPECT_EQ(findConstant(*fabric, "switch_us")->high, 2);
}

TEST(FabricFile, RefusesHostileText) {
  EXPECT_EQ(errorOf(std::string(1'000'000, '[')), "f.json: it is nested more than 8 deep");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += R"({"a":)";
  EXPECT_EQ(errorOf(objects), "f.json: it is nested more than 8 deep");
  EXPECT_NE(errorOf(std::string_view("\0\0\0\0", 4)), "");
  EXPECT_NE(errorOf("\xff\xfe{}"), "");
  EXPECT_NE(errorOf(with(", \"name\": \"\xc3\x28\"")), "");
  for (const char* nodes : {"1e6", "-1", "0", "18446744073709551615", "9223372036854775808", "1048577", "1e999",
                            "\"4\"", "null", "[4]", "true"})
    EXPECT_NE(errorOf(std::string(R"({"format": "openhpu-fabric-1", "target": "gaudi3", "nodes": )") + nodes + "}"), "")
        << nodes;
  EXPECT_EQ(errorOf(R"({"format": "openhpu-fabric-1", "target": "gaudi3", "nodes": 1048576, "devices_per_node": 2})"),
            "f.json: 'nodes' x 'devices_per_node' are 2097152 devices; at most 1048576");
  EXPECT_NE(errorOf(with(R"(, "name": ")" + std::string(101, 'x') + "\"")).find("at most 100"), std::string::npos);
  // What a terminal would act on stays out of tables and errors.
  for (const char* control : {"\\u001b[2J", "\\n", "\\u007f", "\\u009b"}) {
    EXPECT_NE(errorOf(with(strCat(", \"name\": \"a", control, "\""))).find("'name' has a control character at byte 1"),
              std::string::npos);
    EXPECT_NE(errorOf(with(strCat(", \"a", control, "\": 1"))).find("there is no '(with control characters)'"),
              std::string::npos);
  }
  EXPECT_EQ(errorOf(with(", \"name\": \"\\u00fcber \\u6587\"")), "");
  // Any truncation, and any byte lost, is an error or a fabric; nothing else happens.
  const std::string text = fabricText(example("degraded"));
  for (size_t i = 0; i + 2 < text.size(); ++i) {
    EXPECT_NE(errorOf(text.substr(0, i)), "");
    std::string lost = text;
    lost.erase(i, 1);
    (void)errorOf(lost);
  }
}

TEST(FabricFile, AMeshThatLeavesCopiesNothingNamesItsDevices) {
  const std::string error = errorOf(with(", \"devices_per_node\": 64"));
  EXPECT_NE(error.find("'copy_gb_per_s' is 0: the links of 64 devices in one mesh ('devices_per_node')"),
            std::string::npos)
      << error;
  EXPECT_EQ(errorOf(with(", \"devices_per_node\": 64, \"constants\": {\"copy_gb_per_s\": 100, "
                         "\"reduce_gb_per_s\": 100}")),
            "");
}

TEST(FabricFile, StandardNodesAreTheExamplesOfTheirNames) {
  for (Target target : {Target::kGaudi1, Target::kGaudi2, Target::kGaudi3})
    for (int32_t nodes : {0, 1, 2, 9}) {
      const auto unset = settingsFabric(target, nodes);
      ASSERT_TRUE(unset.ok()) << unset.status().message();
      EXPECT_EQ(fabricText(*unset), fabricText(*namedFabric(unset->name, nodes)));
      if (nodes == 0) continue;
      EXPECT_EQ(fabricText(*unset), fabricText(standardFabric(target, nodes)));
    }
}

TEST(FabricFile, SaysWhyAFileCannotBeRead) {
  const auto missing = readFabric("/nowhere/fabric.json");
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_NE(missing.status().message().find("/nowhere/fabric.json"), std::string::npos);
  EXPECT_FALSE(readFabric("/").ok());
  const std::string pipe = strCat("fabric-pipe-", ::getpid());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NE(readFabric(pipe).status().message().find("it is not a regular file"), std::string::npos);
  ::unlink(pipe.c_str());
  const auto unknown = namedFabric("hls-4");
  EXPECT_EQ(unknown.status().code(), StatusCode::kNotFound);
  EXPECT_NE(unknown.status().message().find("there are hls-1, hls-2, hls-3"), std::string::npos);
  EXPECT_EQ(namedFabric("hls-3", -1).status().code(), StatusCode::kInvalidArgument);
  // An exception of a node that is not there any more.
  EXPECT_NE(namedFabric("degraded", 2).status().message().find("'node' is 3, not from 0 to 1"), std::string::npos);
}

}  // namespace
}  // namespace hpu::collectives
