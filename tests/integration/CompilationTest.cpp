// SPDX-License-Identifier: Apache-2.0
// Compilations beside the program, and those that are cancelled (Compilation, CompileOptions::isCancelled).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "hpu/compiler.h"
#include "hpu/log.h"

namespace hpu {
namespace {

using ::testing::HasSubstr;

std::string model() {
  return std::string(std::getenv("HPU_SOURCE_DIR")) + "/tests/models/digits/model.onnx";
}

struct Folder {
  std::string path = ::testing::TempDir() + "compilation_" + std::to_string(::getpid()) + "_" +
                     ::testing::UnitTest::GetInstance()->current_test_info()->name();
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  size_t files() const {
    return static_cast<size_t>(std::distance(std::filesystem::recursive_directory_iterator(path), {}));
  }
};

std::string bytesOf(const Recipe& recipe) {
  Folder folder;
  EXPECT_TRUE(recipe.save(folder.path + "/r.recipe").ok());
  std::ifstream file(folder.path + "/r.recipe", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The recipe that compileFile makes, once.
const std::string& synchronous() {
  static const std::string bytes = bytesOf(compileFile(model()).value().recipe);
  return bytes;
}

Graph layers(int count) {
  Graph graph("layers");
  TensorType type{ElementType::kF32, {64, 64}};
  Value value = graph.input("x", type).value();
  Value other = graph.input("w", type).value();
  for (int i = 0; i < count; ++i) value = graph.op("gelu", {graph.op("matmul", {value, other}).value()}).value();
  EXPECT_TRUE(graph.output("y", value).ok());
  return graph;
}

TEST(AsynchronousCompilation, SeveralAtOnceGiveTheRecipesOfCompileByteForByte) {
  std::vector<Compilation> running;
  for (int i = 0; i < 3; ++i) running.push_back(Compilation::startFile(model()).value());
  for (const Compilation& one : running) {
    auto result = one.result();
    ASSERT_TRUE(result.ok()) << result.status().toString();
    EXPECT_TRUE(one.done());
    EXPECT_EQ(one.phase(), "");
    EXPECT_EQ(bytesOf(result->recipe), synchronous());
    one.cancel();  // Too late.
    EXPECT_TRUE(one.result(0).ok());
  }
}

TEST(AsynchronousCompilation, OfOneGraphTwiceOutlivesTheGraph) {
  std::optional<Graph> graph(layers(4));
  const std::string expected = bytesOf(compile(*graph).value().recipe);
  Compilation one = Compilation::start(*graph).value(), two = Compilation::start(*graph).value();
  graph.reset();
  EXPECT_EQ(bytesOf(one.result().value().recipe), expected);
  EXPECT_EQ(bytesOf(two.result().value().recipe), expected);
}

TEST(AsynchronousCompilation, TellsItsPhaseAndItsEnd) {
  std::promise<void> reached, go, told;
  CompileOptions options;
  options.onPhase = [&, once = false](const PhaseInfo& info) mutable {
    if (info.name != "fuse" || std::exchange(once, true)) return;
    reached.set_value();
    go.get_future().wait();
  };
  Compilation compilation = Compilation::startFile(model(), options).value();
  compilation.onDone([&] { told.set_value(); });
  reached.get_future().wait();
  EXPECT_EQ(compilation.phase(), "layout");
  EXPECT_FALSE(compilation.done());
  const auto waited = compilation.result(1);
  EXPECT_EQ(waited.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(waited.status().message(), HasSubstr("layout"));
  go.set_value();
  told.get_future().wait();
  EXPECT_TRUE(compilation.done());
  EXPECT_TRUE(compilation.result(0).ok());
  bool now = false;
  compilation.onDone([&] { now = true; });
  EXPECT_TRUE(now);
}

TEST(AsynchronousCompilation, FailsAsCompileDoes) {
  Compilation compilation = Compilation::startFile("/nowhere/model.onnx").value();
  EXPECT_EQ(compilation.result().status().message(), compileFile("/nowhere/model.onnx").status().message());
  Compilation empty;
  EXPECT_FALSE(empty.valid());
  EXPECT_FALSE(empty.done());
  EXPECT_EQ(empty.result().status().code(), StatusCode::kFailedPrecondition);
  empty.cancel();
  empty.onDone([] { FAIL(); });
}

TEST(AsynchronousCompilation, HasTheNodesThatCannotBeImported) {
  const std::string path = std::string(std::getenv("HPU_SOURCE_DIR")) + "/tests/models/malformed/unknown_ops.onnx";
  std::vector<UnsupportedNode> expected;
  EXPECT_EQ(compileFile(path, {}, &expected).status().code(), StatusCode::kUnimplemented);
  Compilation compilation = Compilation::startFile(path).value();
  EXPECT_EQ(compilation.result().status().code(), StatusCode::kUnimplemented);
  const std::vector<UnsupportedNode> unsupported = compilation.unsupported();
  ASSERT_EQ(unsupported.size(), expected.size());
  EXPECT_GE(expected.size(), 3u);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(unsupported[i].node, expected[i].node);
  EXPECT_TRUE(Compilation().unsupported().empty());
}

TEST(AsynchronousCompilation, ItsLastHandleMayGoInOnDone) {
  auto handle = std::make_shared<Compilation>(Compilation::startFile(model()).value());
  std::promise<StatusCode> told;
  Compilation* raw = handle.get();
  raw->onDone([handle = std::move(handle), &told]() mutable {
    const StatusCode code = handle->result().status().code();  // Does not wait for itself.
    handle.reset();
    told.set_value(code);
  });
  EXPECT_EQ(told.get_future().get(), StatusCode::kOk);
}

TEST(AsynchronousCompilation, OfAParentIsRefusedInAForkedChild) {
  Compilation compilation = Compilation::startFile(model()).value();
  const pid_t child = ::fork();
  if (child == 0) {
    const bool refused = compilation.result().status().code() == StatusCode::kFailedPrecondition && !compilation.done();
    compilation = Compilation();
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(compilation.result().ok());
}

TEST(CancelledCompilation, NamesThePhaseAndLeavesNothing) {
  const std::vector<std::string> phases = phaseNames();
  for (size_t p = 0; p < phases.size(); ++p) {
    Folder cache;
    std::atomic<bool> cancel{p == 0};
    CompileOptions options;
    options.cacheDir = cache.path;
    options.isCancelled = [&] { return cancel.load(); };
    options.onPhase = [&](const PhaseInfo& info) { cancel = p > 0 && info.name == phases[p - 1]; };
    auto result = compileFile(model(), options);
    EXPECT_EQ(result.status().code(), StatusCode::kCancelled) << phases[p];
    EXPECT_THAT(result.status().message(), HasSubstr("phase " + phases[p]));
    EXPECT_EQ(cache.files(), 0u) << phases[p];
  }
}

TEST(CancelledCompilation, AtAnyQuestionIsCancelledAndTheNextOneIsWhole) {
  CompileOptions counted;
  std::atomic<int> asked{0};
  counted.isCancelled = [&] { return asked.fetch_add(1) < 0; };
  EXPECT_EQ(bytesOf(compileFile(model(), counted).value().recipe), synchronous());
  const int questions = asked;
  EXPECT_GT(questions, 50);
  for (int at = 0; at < questions - 5; at += questions / 12 + 1) {
    Folder dumps;
    asked = 0;
    CompileOptions options;
    options.dumpDir = dumps.path;
    options.isCancelled = [&] { return asked.fetch_add(1) >= at; };
    EXPECT_EQ(compileFile(model(), options).status().code(), StatusCode::kCancelled) << at;
    for (const auto& file : std::filesystem::directory_iterator(dumps.path))
      EXPECT_EQ(file.path().extension(), ".mlir") << file.path();
  }
  EXPECT_EQ(bytesOf(compileFile(model()).value().recipe), synchronous());
}

TEST(CancelledCompilation, ByItsHandleOrWithTheLastOneEndsSoon) {
  for (int round = 0; round < 8; ++round) {
    std::promise<void> begun;
    CompileOptions options;
    std::atomic<int> asked{0};
    options.isCancelled = [&] {
      if (asked++ == round * 9) begun.set_value();
      return false;
    };
    Compilation compilation = Compilation::startFile(model(), options).value();
    begun.get_future().wait();
    if (round % 2 == 0) {
      compilation.cancel();
      const auto code = compilation.result().status().code();
      EXPECT_TRUE(code == StatusCode::kCancelled || code == StatusCode::kOk);
    }
    compilation = Compilation();
  }
}

TEST(CancelledCompilation, DoesNotWaitForAnotherOneOfItsGraph) {
  Graph graph = layers(4);
  std::promise<void> reached, go;
  CompileOptions slow;
  slow.onPhase = [&](const PhaseInfo& info) {
    if (info.name != "normalize") return;
    reached.set_value();
    go.get_future().wait();
  };
  Compilation first = Compilation::start(graph, slow).value();
  reached.get_future().wait();
  Compilation second = Compilation::start(graph).value();
  second.cancel();
  EXPECT_EQ(second.result().status().code(), StatusCode::kCancelled);
  go.set_value();
  EXPECT_TRUE(first.result().ok());
}

TEST(CancelledCompilation, IsNoPartOfTheCachesKey) {
  Folder cache;
  CompileOptions options;
  options.cacheDir = cache.path;
  ASSERT_TRUE(compileFile(model(), options).ok());
  options.isCancelled = [] { return false; };
  options.onPhase = [](const PhaseInfo&) {};
  EXPECT_TRUE(compileFile(model(), options).value().stats.cacheHit);
}

/// docs/embedding.md, "Functions that throw".
TEST(ThrowingFunctions, EndTheCompilationWithWhatTheyThrew) {
  const Graph graph = layers(2);
  const std::vector<std::pair<const char*, std::function<Status(const CompileOptions&)>>> entries = {
      {"compile", [&](const CompileOptions& options) { return compile(graph, options).status(); }},
      {"compileFile", [](const CompileOptions& options) { return compileFile(model(), options).status(); }},
      {"Compilation::start",
       [&](const CompileOptions& options) { return Compilation::start(graph, options).value().result().status(); }},
      {"Compilation::startFile", [](const CompileOptions& options) {
         return Compilation::startFile(model(), options).value().result().status();
       }}};
  for (const auto& [name, call] : entries) {
    SCOPED_TRACE(name);
    for (const char* phase : {"normalize", "emit"}) {
      int after = 0;
      CompileOptions options;
      options.onPhase = [&, thrown = false](const PhaseInfo& info) mutable {
        after += thrown;
        if (info.name != phase) return;
        thrown = true;
        throw std::runtime_error("no terminal");
      };
      const Status status = call(options);
      EXPECT_EQ(status.code(), StatusCode::kUnknown) << status.toString();
      EXPECT_EQ(status.message(), std::string("CompileOptions::onPhase (phase ") + phase + ") has thrown: no terminal");
      EXPECT_EQ(after, 0);
    }
    for (int kind : {0, 1, 2}) {
      CompileOptions options;
      auto asked = std::make_shared<std::atomic<int>>(0);
      options.isCancelled = [kind, asked]() -> bool {
        if (++*asked < 3) return false;
        if (kind == 0) throw std::runtime_error("no clock");
        if (kind == 1) throw std::bad_alloc();
        throw 7;
      };
      const Status status = call(options);
      EXPECT_EQ(status.code(), kind == 1 ? StatusCode::kResourceExhausted : StatusCode::kUnknown);
      EXPECT_THAT(status.message(), HasSubstr("CompileOptions::isCancelled has thrown"));
      EXPECT_EQ(status.message().find(": no clock") != std::string::npos, kind == 0);
    }
    EXPECT_TRUE(call({}).ok()) << "and the graph is free";
  }
}

TEST(ThrowingFunctions, LeaveNothingInTheRecipeCache) {
  Folder folder;
  CompileOptions options;
  options.cacheDir = folder.path;
  options.onPhase = [](const PhaseInfo& info) {
    if (info.name == "emit") throw std::runtime_error("no terminal");
  };
  EXPECT_EQ(compileFile(model(), options).status().code(), StatusCode::kUnknown);
  options.onPhase = nullptr;
  auto compiled = compileFile(model(), options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  EXPECT_FALSE(compiled->stats.cacheHit);
}

TEST(ThrowingFunctions, OfOnDoneAreLoggedAndTheOthersAreCalled) {
  std::mutex mutex;
  std::string logged;
  setLogHook([&](LogLevel, const std::string& message) {
    std::lock_guard lock(mutex);
    logged += message;
  });
  std::promise<void> go, told;
  CompileOptions options;
  options.onPhase = [&, once = false](const PhaseInfo&) mutable {
    if (!std::exchange(once, true)) go.get_future().wait();
  };
  Compilation compilation = Compilation::startFile(model(), options).value();
  compilation.onDone([] { throw std::runtime_error("no terminal"); });
  compilation.onDone([&] { told.set_value(); });
  go.set_value();
  told.get_future().wait();
  EXPECT_TRUE(compilation.result().ok());
  compilation.onDone([] { throw std::runtime_error("nor now"); });
  setLogHook({});
  EXPECT_THAT(logged, HasSubstr("Compilation::onDone has thrown: no terminal"));
  EXPECT_THAT(logged, HasSubstr("Compilation::onDone has thrown: nor now"));
}

}  // namespace
}  // namespace hpu
