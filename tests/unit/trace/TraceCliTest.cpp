// SPDX-License-Identifier: Apache-2.0
// hpu-trace as a program: its JSON, its exit codes, its files.
#include <nlohmann/json.hpp>

#include "base/File.h"
#include "tests/unit/trace/TraceCliFixture.h"

namespace hpu::trace {
namespace {

TEST_F(TraceCli, SummaryJsonHasTheStableKeys) {
  Ran ran = run("summary --json " + path());
  ASSERT_EQ(ran.exit, 0) << ran.err;
  nlohmann::json json = nlohmann::json::parse(ran.out);
  EXPECT_DOUBLE_EQ(json["device_time_us"].get<double>(), 5 * static_cast<double>(example_->timeline.end) / 1e6);
  EXPECT_GT(json["host_time_us"].get<double>(), 0);
  EXPECT_DOUBLE_EQ(json["engines"]["mme"]["busy_us"].get<double>(),
                   3 * static_cast<double>(example_->timeline.busy[0]) / 1e6);
  EXPECT_TRUE(json["engines"].contains("tpc") && json["engines"].contains("dma"));
  EXPECT_EQ(json["attributed_fraction"], 1.0);
  EXPECT_EQ(json["dropped_events"], 0);
  ASSERT_EQ(json["top"].size(), 3u);
  EXPECT_GE(json["top"][0]["share"], json["top"][1]["share"]);
  EXPECT_EQ(json["launches"], 3);
}

TEST_F(TraceCli, SummaryFitsOnAScreenAndIsSafeToPrint) {
  Ran ran = run("summary " + path());
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_LE(std::count(ran.out.begin(), ran.out.end(), '\n'), 40);
  EXPECT_NE(ran.out.find("mme||tpc"), std::string::npos);
  for (char c : ran.out) ASSERT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << "a control character";
}

TEST_F(TraceCli, TopGroupsAsAsked) {
  nlohmann::json json = nlohmann::json::parse(run("top --json --group-by kind " + path()).out);
  ASSERT_EQ(json["top"].size(), 3u);
  std::set<std::string> names;
  for (const auto& row : json["top"]) names.insert(row["name"]);
  EXPECT_EQ(names, (std::set<std::string>{"Conv+Relu", "Relu", "copy"}));
  EXPECT_EQ(run("top --group-by colour " + path()).exit, 1);
  EXPECT_EQ(run("top --device 7 " + path()).exit, 1);
}

TEST_F(TraceCli, LevelsThatWereNotRecordedAreNoZeros) {
  Options options;
  options.level = Level::kApi;
  (void)recorded(*example_, options);
  nlohmann::json json = nlohmann::json::parse(run("summary --json " + path()).out);
  for (const char* engine : {"mme", "tpc", "dma"}) EXPECT_TRUE(json["engines"][engine]["busy_us"].is_null()) << engine;
  EXPECT_FALSE(json["engines"]["h2d"]["busy_us"].is_null());
  for (const char* key : {"attributed_fraction", "why_not_peak_us"}) EXPECT_TRUE(json[key].is_null()) << key;
  EXPECT_TRUE(json["idle"]["waiting_for_signals_us"].is_null());
  EXPECT_NE(json["not_recorded"].get<std::string>().find("level api"), std::string::npos);
  EXPECT_NE(run("summary " + path()).out.find("not recorded"), std::string::npos);
  for (const char* verb : {"overlap", "roofline", "critical-path", "memory"}) {
    Ran ran = run(std::string(verb) + " " + path());
    EXPECT_EQ(ran.exit, 1) << verb;
    EXPECT_NE(ran.err.find("record with --level node or slice"), std::string::npos) << verb;
  }
  EXPECT_NE(run("top " + path()).err.find("level api"), std::string::npos);
  EXPECT_NE(run("timeline " + path()).err.find("level api"), std::string::npos);
}

TEST_F(TraceCli, DroppedEventsAreSaidWhereverSumsAreShown) {
  Options options;
  options.maxEvents = 20;
  (void)recorded(*example_, options);
  for (const char* verb : {"summary", "top", "timeline", "roofline", "overlap", "critical-path", "memory"}) {
    Ran ran = run(std::string(verb) + " --json " + path());
    EXPECT_NE(ran.err.find("events are missing"), std::string::npos) << verb;
    EXPECT_GT(nlohmann::json::parse(ran.out)["dropped_events"], 0) << verb;
  }
}

TEST_F(TraceCli, OutputsThatCannotBeWrittenAreFoundBeforeTheWork) {
  std::string marker = file("ran");
  for (const std::string& output : {file("no/such/t.hputrace"), file(""), std::string("/proc/t.hputrace")}) {
    Ran ran = run("record -o " + output + " -- touch " + marker);
    EXPECT_EQ(ran.exit, 1) << output;
    EXPECT_NE(ran.err.find(output == "/proc/t.hputrace" ? "/proc" : "--output"), std::string::npos) << ran.err;
    EXPECT_NE(access(marker.c_str(), F_OK), 0) << "the command ran";
  }
  EXPECT_NE(run("export -o " + file("no/such/t.json") + " " + path()).err.find("--output"), std::string::npos);
  EXPECT_NE(run("merge -o " + file("no/such/t.hputrace") + " " + path()).err.find("--output"), std::string::npos);
}

TEST_F(TraceCli, InfoAndValidateTellAboutTheFile) {
  nlohmann::json info = nlohmann::json::parse(run("info --json " + path()).out);
  EXPECT_EQ(info["devices"][0]["commands"], 24);
  EXPECT_EQ(info["devices"][0]["target"], "gaudi2");
  EXPECT_EQ(info["threads"][0]["events"], 4);
  Ran valid = run("validate --strict " + path());
  EXPECT_EQ(valid.exit, 0) << valid.out << valid.err;

  std::vector<uint8_t> bytes = *base::readFile(path());
  bytes.resize(bytes.size() - 5);
  ASSERT_TRUE(base::writeFileAtomic(path(), bytes.data(), bytes.size()).ok());
  Ran cut = run("validate --json " + path());
  EXPECT_EQ(cut.exit, 2);
  EXPECT_EQ(nlohmann::json::parse(cut.out)["valid"], false);
  // Figures of a part must not pass for those of the whole.
  for (const char* verb : {"summary", "top", "timeline", "roofline", "overlap", "critical-path", "memory", "export"}) {
    Ran refused = run(std::string(verb) + " " + path());
    EXPECT_EQ(refused.exit, 1) << verb;
    EXPECT_NE(refused.err.find("is cut short: it ends at byte " + std::to_string(bytes.size())), std::string::npos)
        << refused.err;
  }
  Ran partial = run("summary --partial --json " + path());
  ASSERT_EQ(partial.exit, 0) << partial.err;
  EXPECT_EQ(nlohmann::json::parse(partial.out)["launches"], 3);
  EXPECT_NE(partial.err.find("note: "), std::string::npos);
}

TEST_F(TraceCli, ATraceWithoutEventsIsNotSummarisedAsZeros) {
  std::vector<uint8_t> whole = *base::readFile(path());
  int refused = 0, cutWithin = 0;
  for (size_t size = 0; size + 1 < whole.size(); size += 41) {
    std::vector<uint8_t> bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    ASSERT_TRUE(base::writeFileAtomic(file("cut"), bytes.data(), bytes.size()).ok());
    Ran plain = run("summary --json " + file("cut"));
    ASSERT_EQ(plain.exit, 1) << "cut at " << size << ": " << plain.out;
    ++refused;
    Ran partial = run("summary --partial --json " + file("cut"));
    ASSERT_LE(partial.exit, 1);
    if (partial.exit == 1) continue;
    ++cutWithin;
    EXPECT_GT(nlohmann::json::parse(partial.out)["launches"].get<int>(), 0) << "cut at " << size;
  }
  EXPECT_GT(refused, 10);
  EXPECT_GT(cutWithin, 0);
}

TEST_F(TraceCli, ATraceThatIsStillBeingRecordedIsSaidToBe) {
  Options options;
  options.streamTo = file("live.hputrace");
  options.eachLaunch = true;
  ASSERT_TRUE(start(options).ok());
  EXPECT_NE(run("summary " + options.streamTo).err.find("holds no events yet"), std::string::npos);
  example_->record();
  Ran ran = run("summary " + options.streamTo);
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_NE(ran.err.find("is still being recorded"), std::string::npos) << ran.err;
  ASSERT_TRUE(stop("").ok());
  EXPECT_EQ(run("summary " + options.streamTo).err, "");
}

TEST_F(TraceCli, ExportWritesEachFormat) {
  for (const char* format : {"perfetto", "chrome", "csv"}) {
    Ran ran = run(std::string("export --json --format ") + format + " " + path());
    ASSERT_EQ(ran.exit, 0) << ran.err;
    std::string written = nlohmann::json::parse(ran.out)["path"];
    EXPECT_GT(base::readFile(written)->size(), 500u) << written;
  }
  EXPECT_TRUE(nlohmann::json::accept(*base::readTextFile(file("t.json"))));
  // The name of the file says it, too.
  for (const auto& [name, format] :
       {std::pair("n.json", "chrome"), std::pair("n.csv", "csv"), std::pair("n.x", "perfetto")}) {
    Ran ran = run("export --json -o " + file(name) + " " + path());
    ASSERT_EQ(ran.exit, 0) << ran.err;
    EXPECT_EQ(nlohmann::json::parse(ran.out)["format"], format) << name;
  }
  EXPECT_TRUE(nlohmann::json::accept(*base::readTextFile(file("n.json"))));
  EXPECT_EQ(run("export --format csv -o " + file("n.json") + " " + path()).exit, 0);
  EXPECT_FALSE(nlohmann::json::accept(*base::readTextFile(file("n.json"))));
  EXPECT_EQ(run("export -o " + path() + " " + path()).exit, 1) << "never replaces its input";
}

TEST_F(TraceCli, ErrorsSayWhatToDoAndHaveTheRightExitCode) {
  Ran missing = run("summary " + file("none.hputrace"));
  EXPECT_EQ(missing.exit, 1);
  EXPECT_NE(missing.err.find("none.hputrace"), std::string::npos);
  ASSERT_TRUE(base::writeFileAtomic(file("text"), std::string_view("hello, this is not a trace at all")).ok());
  EXPECT_EQ(run("summary " + file("text")).exit, 1);
  EXPECT_EQ(run("merge " + path()).exit, 1) << "without -o";
  EXPECT_EQ(run("merge -o " + path() + " " + path()).exit, 1) << "never replaces its input";
  EXPECT_EQ(run("record").exit, 1) << "without a command";
}

}  // namespace
}  // namespace hpu::trace
