// SPDX-License-Identifier: Apache-2.0
#include "tools/common/Cli.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "base/File.h"
#include "base/OptionNames.h"
#include "base/Suggest.h"

namespace {

using hpu::tools::ExitCode;
using hpu::tools::Tool;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  int code = -1;
  std::string out, err;
};

Outcome runTool(Tool& tool, std::vector<std::string> arguments, const hpu::tools::Body& body) {
  arguments.insert(arguments.begin(), "tool");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.code = body ? tool.run(static_cast<int>(argv.size()), argv.data(), body)
                      : tool.run(static_cast<int>(argv.size()), argv.data());
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  return outcome;
}

const hpu::tools::Body kNothing = [] { return ExitCode::kOk; };

TEST(Tool, ListOptionsTakeOneValueEachAndLeaveThePositionalsAlone) {
  Tool tool("tool", "Tests.");
  std::vector<std::string> shapes, reports;
  std::string model;
  tool.addOption("--shape", shapes, "Shapes");
  tool.addOption("--report", reports, "Reports", ',');
  tool.addPositional("MODEL", model, "Model");
  Outcome outcome = runTool(tool, {"--shape", "a=1x2", "m.onnx", "--shape", "b=3", "--report", "x,y"}, kNothing);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(shapes, ElementsAre("a=1x2", "b=3"));
  EXPECT_THAT(reports, ElementsAre("x", "y"));
  EXPECT_EQ(model, "m.onnx");
  EXPECT_TRUE(tool.given("--shape"));
}

TEST(Tool, AListWithAnEmptyValueIsAUserError) {
  for (const char* wrong : {"2,,8", ",2", "2,", ""}) {
    Tool tool("tool", "Tests.");
    std::vector<std::string> nodes;
    tool.addOption("-N,--nodes", nodes, "Nodes", ',');
    Outcome outcome = runTool(tool, {"-N", wrong}, kNothing);
    EXPECT_EQ(outcome.code, 1) << wrong;
    EXPECT_THAT(outcome.err, HasSubstr("--nodes: '" + std::string(wrong) + "' has an empty value"));
  }
}

TEST(Tool, AnOptionalValueMayBeLeftOut) {
  const std::pair<std::vector<std::string>, double> cases[] = {
      {{}, 0},          {{"--loop"}, 5},   {{"-l"}, 5},          {{"-l", "2"}, 2},
      {{"-l0.5"}, 0.5}, {{"--loop=3"}, 3}, {{"-l", "--flag"}, 5}};
  for (const auto& [arguments, expected] : cases) {
    Tool tool("tool", "Tests.");
    double seconds = 0;
    bool flag = false;
    tool.addOptionalValue("-l,--loop", seconds, 5, "Seconds");
    tool.addFlag("--flag", flag, "Flag");
    Outcome outcome = runTool(tool, arguments, kNothing);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(seconds, expected) << arguments.size();
  }
  Tool tool("tool", "Tests.");
  double seconds = 0;
  tool.addOptionalValue("-l,--loop", seconds, 5, "Seconds");
  Outcome outcome = runTool(tool, {"-l", "often"}, kNothing);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("--loop"));
}

TEST(Tool, TheLettersOfCommonOptionsMayBelongToOthers) {
  hpu::tools::CommonNames names;
  names.version = "-v,--version";
  names.quiet = "--quiet";
  names.verbose = "--verbose";
  Tool tool("tool", "Tests.", names);
  bool query = false;
  tool.addFlag("-q,--query", query, "Query");
  EXPECT_EQ(runTool(tool, {"-q"}, kNothing).code, 0);
  EXPECT_TRUE(query);
  EXPECT_FALSE(tool.quiet());
  EXPECT_THAT(runTool(tool, {"-v"}, kNothing).out, HasSubstr("(OpenHPU)"));
}

TEST(Tool, ReportsAMisspeltOptionInOneLineWithTheNearestOne) {
  Tool tool("tool", "Tests.");
  std::string target;
  tool.addOption("--target", target, "Target");
  Outcome outcome = runTool(tool, {"--taget=x"}, kNothing);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.err, "error: unknown option '--taget=x'; did you mean '--target'? (see 'tool --help')\n");
  EXPECT_EQ(outcome.out, "");
}

TEST(Tool, AMissingPositionalIsAUserErrorThatNamesIt) {
  Tool tool("tool", "Tests.");
  std::string model;
  tool.addPositional("MODEL", model, "Model");
  Outcome outcome = runTool(tool, {}, kNothing);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("MODEL"));
}

TEST(Tool, JsonModePrintsOneObjectAndNoLineForPeople) {
  Tool tool("tool", "Tests.");
  Outcome outcome = runTool(tool, {"--json"}, [&] {
    tool.print("for people");
    tool.note("on stderr");
    tool.json().set("answer", 42);
    return ExitCode::kMismatch;
  });
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "{\n  \"answer\": 42\n}\n");
  EXPECT_EQ(outcome.err, "note: on stderr\n");
}

TEST(Tool, JsonModeReportsFailuresInTheObjectToo) {
  Tool tool("tool", "Tests.");
  Outcome outcome = runTool(tool, {"--json"}, [] { return hpu::notFound("no such file 'x'"); });
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("\"error\": \"no such file 'x'\""));
  EXPECT_THAT(outcome.out, HasSubstr("\"code\": \"NOT_FOUND\""));
  Tool wrong("tool", "Tests.");
  outcome = runTool(wrong, {"--json", "--nonsense"}, kNothing);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("\"error\""));
}

TEST(Tool, InternalErrorsAndExceptionsExitWithThreeAndAReproducer) {
  Tool tool("tool", "Tests.");
  Outcome outcome = runTool(tool, {}, [] { return hpu::internalError("lost the plot"); });
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("error: lost the plot"));
  size_t at = outcome.err.find("reproducer ");
  ASSERT_NE(at, std::string::npos);
  std::string path = outcome.err.substr(at + 11);
  path.resize(path.find('\n'));
  FILE* file = fopen(path.c_str(), "r");
  ASSERT_NE(file, nullptr) << path;
  char text[4096] = {};
  (void)!fread(text, 1, sizeof text - 1, file);
  fclose(file);
  remove(path.c_str());
  EXPECT_THAT(text, HasSubstr("lost the plot"));
  EXPECT_THAT(text, HasSubstr("exec 'tool'"));

  outcome = runTool(tool, {}, []() -> hpu::StatusOr<ExitCode> { throw std::runtime_error("thrown"); });
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("unexpected exception: thrown"));
}

TEST(Tool, QuietKeepsResultsAndErrorsOnly) {
  Tool tool("tool", "Tests.");
  Outcome outcome = runTool(tool, {"--quiet"}, [&] {
    tool.print("chatter");
    tool.note("chatter");
    tool.printAlways("result");
    return ExitCode::kOk;
  });
  EXPECT_EQ(outcome.out, "result\n");
  EXPECT_EQ(outcome.err, "");
}

TEST(Tool, RunsTheSubcommandThatWasNamedWithItsOptionsAndTheCommonOnes) {
  Tool tool("tool", "Tests.");
  std::string file;
  int64_t count = 3;
  std::string ran;
  auto& top = tool.addCommand("top", "Top", [&] { return ran = "top", ExitCode::kOk; });
  top.addPositional("FILE", file, "File");
  top.addOption("-n,--count", count, "How many");
  tool.addCommand("info", "Info", [&] { return ran = "info", ExitCode::kOk; });
  Outcome outcome = runTool(tool, {"top", "a.trace", "-n", "7", "--json"}, {});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(ran, "top");
  EXPECT_EQ(file, "a.trace");
  EXPECT_EQ(count, 7);
  EXPECT_TRUE(tool.jsonMode());
  Tool empty("tool", "Tests.");
  empty.addCommand("info", "Info", kNothing);
  EXPECT_EQ(runTool(empty, {}, {}).code, 1) << "a sub-command is required";
}

TEST(Tool, ReadsByteSizesWithSuffixesAndRefusesOthers) {
  Tool tool("tool", "Tests.");
  int64_t bytes = 1024;
  tool.addBytes("--bytes", bytes, "Bytes");
  EXPECT_EQ(runTool(tool, {"--bytes", "16M"}, kNothing).code, 0);
  EXPECT_EQ(bytes, 16 << 20);
  Tool second("tool", "Tests.");
  second.addBytes("--bytes", bytes, "Bytes");
  Outcome outcome = runTool(second, {"--bytes", "many"}, kNothing);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("many"));
}

TEST(Tool, AChoiceOutsideItsListIsAUserErrorThatListsTheValidOnes) {
  Tool tool("tool", "Tests.");
  std::string precision = "f32";
  tool.addChoice("--precision", precision, {"f32", "bf16"}, "Precision");
  Outcome outcome = runTool(tool, {"--precision", "f7"}, kNothing);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("'f7' is not one of f32, bf16"));
}

TEST(Tool, ErrorsOfTheLibrariesNameItsOptions) {
  Tool tool("tool", "Tests.");
  const std::string sizes = hpu::base::optionEntries("dims", {{"batch", "SIZE"}});
  Outcome outcome = runTool(tool, {"--json"}, [&]() -> hpu::StatusOr<ExitCode> {
    return hpu::invalidArgument("the input has free dimensions; give their sizes: " + sizes);
  });
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.err, "error: the input has free dimensions; give their sizes: --dim batch=SIZE\n");
  EXPECT_THAT(outcome.out, HasSubstr("--dim batch=SIZE"));
}

TEST(Tool, HelpAndVersionGoToStdoutWithSuccess) {
  Tool tool("tool", "Does a thing.");
  Outcome outcome = runTool(tool, {"--help"}, kNothing);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("Does a thing."));
  Tool second("tool", "Does a thing.");
  outcome = runTool(second, {"--version"}, kNothing);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("(OpenHPU)"));
}

TEST(Tool, AFooterOfItsOwnDoesNotTakeThePlaceOfTheEnvironment) {
  Tool tool("tool", "Tests.");
  tool.setFooter("Rules of this tool.");
  tool.setEnvironment({"all", "runtime", "-HPU_TRACE", "HPU_CACHE"});
  Outcome outcome = runTool(tool, {"--help"}, kNothing);
  EXPECT_THAT(outcome.out, HasSubstr("Rules of this tool."));
  EXPECT_THAT(outcome.out, HasSubstr("Environment:\n"));
  EXPECT_THAT(outcome.out, HasSubstr("  HPU_NUM_THREADS "));
  EXPECT_THAT(outcome.out, HasSubstr("  HPU_WAIT_TIMEOUT_MS "));
  EXPECT_THAT(outcome.out, HasSubstr("  HPU_CACHE "));
  EXPECT_THAT(outcome.out, HasSubstr("Exit codes: 0 ok"));
  for (const char* other : {"  HPU_TRACE ", "HPU_CACHE_BYTES", "HCCL_COMM_ID"})
    EXPECT_THAT(outcome.out, Not(HasSubstr(other)));
}

TEST(Tool, HelpIsAtMostEightyColumnsWide) {
  Tool tool("tool",
            "Does a thing, and says so in a sentence that is much longer than what one line of a terminal takes.");
  std::string text, choice = "one";
  tool.addOption("-l,--long-name-of-an-option", text,
                 std::string(30, 'w') + " and more words than the line has room for");
  tool.addChoice("--choice", choice,
                 {"one", "a-long-one", "another-long-one", "yet-another-one", "and-the-last-one-of-all"}, "One");
  tool.addCommand("command", "What it does is told here at a length that nobody would want to read in one line",
                  kNothing);
  tool.setEnvironment({"all", "runtime", "collectives", "synapse", "compiler"});
  tool.setFooter("A rule about this tool that, like all of the others above, does not end where the line ends.");
  std::istringstream lines(runTool(tool, {"--help"}, {}).out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST(Tool, WordsThatAreNearlyRightAreOffered) {
  const auto errorOf = [](std::vector<std::string> arguments, bool commands) {
    Tool tool("tool", "Tests.");
    std::string level = "slice";
    auto& line = commands ? tool.addCommand("summary", "Sums", kNothing) : static_cast<hpu::tools::CommandLine&>(tool);
    line.addChoice("--level", level, {"slice", "node", "api"}, "Level");
    if (commands) tool.addCommand("info", "Info", kNothing);
    return runTool(tool, std::move(arguments), commands ? hpu::tools::Body() : kNothing).err;
  };
  EXPECT_THAT(errorOf({"summry", "x"}, true),
              HasSubstr("there is no command 'summry' (the commands are summary, info); did you mean 'summary'?"));
  EXPECT_THAT(errorOf({}, true), HasSubstr("a command is needed: one of summary, info"));
  EXPECT_THAT(errorOf({"summary", "--levle", "x"}, true), HasSubstr("did you mean '--level'?"));
  EXPECT_THAT(errorOf({"--level", "slcie"}, false), HasSubstr("slice, node, api; did you mean 'slice'?"));
  EXPECT_THAT(errorOf({"--level", "quantum"}, false), Not(HasSubstr("did you mean")));
}

TEST(Tool, NoOutputIsAnInputOrAnotherOutput) {
  const std::string folder = testing::TempDir() + "cli-files-" + std::to_string(getpid());
  std::filesystem::create_directories(folder + "/sub");
  const std::string model = folder + "/model";
  std::ofstream(model) << "bytes";
  std::filesystem::create_symlink("model", folder + "/link");
  std::filesystem::create_hard_link(model, folder + "/hard");
  const auto codeOf = [&](const std::string& in, const std::string& out, const std::string& second,
                          std::string& error) {
    Tool tool("tool", "Tests.");
    std::string input, output, other;
    tool.addPositional("IN", input, "In");
    tool.readsFiles("IN");
    tool.addOption("-o,--output", output, "Out");
    tool.writesFile("--output", output);
    tool.addOption("--other", other, "Other");
    tool.writesFile("--other", other);
    bool ran = false;
    Outcome outcome = runTool(tool, {in, "-o", out, "--other", second}, [&] { return ran = true, ExitCode::kOk; });
    error = outcome.err;
    EXPECT_EQ(ran, outcome.code == 0);
    return outcome.code;
  };
  std::string error;
  for (const char* same : {"/model", "/./model", "/sub/../model", "/link", "/hard"}) {
    EXPECT_EQ(codeOf(model, folder + same, folder + "/other", error), 1) << same;
    EXPECT_THAT(error, HasSubstr("would be written over the input")) << same;
  }
  EXPECT_EQ(codeOf(folder + "/link", model, folder + "/other", error), 1);
  EXPECT_EQ(codeOf(model, folder + "/new", folder + "/sub/../new", error), 1);
  EXPECT_THAT(error, HasSubstr("are one file"));
  EXPECT_EQ(codeOf(model, folder + "/new", folder + "/other", error), 0) << error;
  EXPECT_EQ(codeOf(model, "/dev/null", "/dev/null", error), 0) << error;
  std::filesystem::remove_all(folder);
}

TEST(Tool, AnOutputOnStdoutLeavesLinesForPeopleToStderr) {
  Tool tool("tool", "Tests.");
  std::string output;
  tool.addOption("-o,--output", output, "Out");
  tool.writesFile("--output", output);
  Outcome outcome = runTool(tool, {"-o", "-"}, [&]() -> hpu::StatusOr<ExitCode> {
    tool.print("for people");
    if (hpu::Status written = hpu::base::writeFileAtomic(output, "data"); !written.ok()) return written;
    return ExitCode::kOk;
  });
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "data");
  EXPECT_EQ(outcome.err, "for people\n");
  Tool json("tool", "Tests.");
  json.addOption("-o,--output", output, "Out");
  json.writesFile("--output", output);
  outcome = runTool(json, {"-o", "-", "--json"}, kNothing);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("-o - and --json both write to stdout"));
}

TEST(ToolDeathTest, AFatalSignalWritesAReproducerAndExitsWithThree) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep their own handlers";
#endif
  auto crash = [] {
    Tool tool("tool", "Tests.");
    char name[] = "tool";
    char* argv[] = {name, nullptr};
    setenv("TMPDIR", testing::TempDir().c_str(), 1);
    exit(tool.run(1, argv, []() -> hpu::StatusOr<ExitCode> { abort(); }));
  };
  EXPECT_EXIT(crash(), testing::ExitedWithCode(3), "caught signal 6; .*reproducer .*tool-crash-");
}

TEST(Suggest, OffersWhatIsNearAndNothingElse) {
  const std::vector<std::string> words = {"fusion", "tile", "memory", "schedule", "time"};
  EXPECT_THAT(hpu::base::nearestOf("fuson", words), ElementsAre("fusion"));
  EXPECT_THAT(hpu::base::nearestOf("sched", words), ElementsAre("schedule"));
  EXPECT_THAT(hpu::base::nearestOf("tiem", words), ElementsAre("time"));
  EXPECT_THAT(hpu::base::nearestOf("", words), ElementsAre());
  EXPECT_THAT(hpu::base::nearestOf(std::string(5000, 'x'), words), ElementsAre());
  EXPECT_EQ(hpu::base::didYouMean("memroy", words), "; did you mean 'memory'?");
  EXPECT_EQ(hpu::base::editDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(hpu::base::editDistance("summary", "sumamry"), 1u);
}

}  // namespace
