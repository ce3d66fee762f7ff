// SPDX-License-Identifier: Apache-2.0
// Programs that exit while their first compilation goes on: each is a child process that runs one of the disabled
// tests.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "hpu/compiler.h"

namespace hpu {
namespace {

constexpr int kDone = 42;  // What a child exits with.

std::string model() {
  return std::string(std::getenv("HPU_SOURCE_DIR")) + "/tests/models/digits/model.onnx";
}

void exitAsAsked() {
  std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(std::getenv("HPU_TEST_EXIT_MS"))));
  std::exit(kDone);
}

TEST(CompilationExitChild, DISABLED_WithALeakedHandle) {
  static auto* const compilation = new Compilation(Compilation::startFile(model()).value());
  (void)compilation;
  exitAsAsked();
}

TEST(CompilationExitChild, DISABLED_WithAStaticHandle) {
  static const Compilation compilation = Compilation::startFile(model()).value();
  exitAsAsked();
}

TEST(CompilationExitChild, DISABLED_WithALocalHandle) {
  const Compilation compilation = Compilation::startFile(model()).value();
  exitAsAsked();
}

TEST(CompilationExitChild, DISABLED_WithOneOfAGraph) {
  Graph graph("layers");
  const TensorType type{ElementType::kF32, {64, 64}};
  Value value = graph.input("x", type).value();
  for (int i = 0; i < 30; ++i) value = graph.op("gelu", {graph.op("matmul", {value, value}).value()}).value();
  ASSERT_TRUE(graph.output("y", value).ok());
  const Compilation compilation = Compilation::start(graph).value();
  exitAsAsked();
}

TEST(CompilationExitChild, DISABLED_WithOneThatAnotherThreadWaitsIn) {
  std::atomic<bool> begun{false};
  std::thread([&] {
    begun = true;
    (void)compileFile(model());
    for (;;) ::pause();
  }).detach();
  while (!begun) std::this_thread::yield();
  exitAsAsked();
}

/// What came of a child that runs the test: "exit code 42" is well.
std::string outcomeOf(const std::string& test, int ms) {
  constexpr std::chrono::seconds kDeadline{120};
  const std::string filter = "--gtest_filter=CompilationExitChild.DISABLED_" + test, pause = std::to_string(ms);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("HPU_TEST_EXIT_MS", pause.c_str(), 1);
    // What a program leaves that exits in the middle of something looks like leaks.
    const char* options = std::getenv("ASAN_OPTIONS");
    ::setenv("ASAN_OPTIONS", (std::string(options ? options : "") + " detect_leaks=0").c_str(), 1);
    if (int null = ::open("/dev/null", O_WRONLY); null >= 0) ::dup2(null, STDOUT_FILENO);
    ::execl("/proc/self/exe", "exit_child", filter.c_str(), "--gtest_also_run_disabled_tests", nullptr);
    ::_exit(99);
  }
  const auto until = std::chrono::steady_clock::now() + kDeadline;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > until) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return "it did not end";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                             : "exit code " + std::to_string(WEXITSTATUS(status));
}

void expectDone(const std::string& test, int rounds) {
  for (int round = 0; round < rounds; ++round)
    for (int ms : {0, 1, 2, 5, 10, 20, 50}) {
      EXPECT_EQ(outcomeOf(test, ms), "exit code 42") << test << ", " << ms << " ms after its start";
      if (::testing::Test::HasFailure()) return;
    }
}

TEST(CompilationExit, WithALeakedHandleIsClean) {
  expectDone("WithALeakedHandle", 2);
}

TEST(CompilationExit, WithAStaticHandleIsClean) {
  expectDone("WithAStaticHandle", 2);
}

TEST(CompilationExit, WithALocalHandleIsClean) {
  expectDone("WithALocalHandle", 1);
}

TEST(CompilationExit, OfAGraphIsClean) {
  expectDone("WithOneOfAGraph", 1);
}

TEST(CompilationExit, WhileAnotherThreadCompilesIsClean) {
  expectDone("WithOneThatAnotherThreadWaitsIn", 2);
}

}  // namespace
}  // namespace hpu
