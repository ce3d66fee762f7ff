// SPDX-License-Identifier: Apache-2.0
// Runs the fuzz target without a fuzzer: the given files, then random mutations of them and of
// recorded samples for a while. `fuzz_trace_replay [--seconds N] [--seed S] [FILE...]`. On a crash
// the input that caused it is in fuzz_trace_crash.bin in the current folder.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/File.h"
#include "tests/unit/trace/TraceFixture.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

const std::vector<uint8_t>* current = nullptr;

/// Leaves the input that crashed in a file, with async-signal-safe calls only.
void onCrash(int signal) {
  int file = open("fuzz_trace_crash.bin", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file >= 0 && current) {
    ssize_t written = write(file, current->data(), current->size());
    (void)written;
  }
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void run(const std::vector<uint8_t>& bytes) {
  current = &bytes;
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  current = nullptr;
}

/// Traces of a small program at each level.
std::vector<std::vector<uint8_t>> samples() {
  using namespace hpu::trace;
  hpu::base::TemporaryFolder folder;
  std::vector<std::vector<uint8_t>> out;
  Example example(3);
  for (Level level : {Level::kApi, Level::kNode, Level::kSlice}) {
    Options options;
    options.level = level;
    if (!start(options).ok()) std::abort();
    example.record();
    std::string path = folder.file("sample.hputrace");
    if (!stop(path).ok()) std::abort();
    out.push_back(*hpu::base::readFile(path));
  }
  return out;
}

std::vector<uint8_t> mutated(std::vector<uint8_t> bytes, std::mt19937_64& random) {
  for (size_t edits = 1 + random() % 4; edits > 0 && !bytes.empty(); --edits) {
    size_t at = random() % bytes.size();
    switch (random() % 5) {
      case 0:
        bytes[at] = static_cast<uint8_t>(random());
        break;
      case 1:
        bytes[at] ^= static_cast<uint8_t>(1u << (random() % 8));
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), 1 + random() % 16,
                     static_cast<uint8_t>(random()));
        break;
      default: {
        // Repeats a piece of the file elsewhere: records and chunks in orders that nobody wrote.
        size_t from = random() % bytes.size(),
               length = std::min<size_t>(1 + random() % 200, bytes.size() - from);
        std::vector<uint8_t> piece(bytes.begin() + static_cast<std::ptrdiff_t>(from),
                                   bytes.begin() + static_cast<std::ptrdiff_t>(from + length));
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), piece.begin(), piece.end());
      }
    }
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 3;
  uint64_t seed = 1;
  std::vector<std::vector<uint8_t>> inputs = samples();
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--seconds") && i + 1 < argc) {
      seconds = std::atof(argv[++i]);
    } else if (!std::strcmp(argv[i], "--seed") && i + 1 < argc) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else {
      auto bytes = hpu::base::readFile(argv[i]);
      if (!bytes.ok()) return std::fprintf(stderr, "%s\n", bytes.status().message().c_str()), 1;
      inputs.push_back(std::move(*bytes));
    }
  }
  for (int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL}) std::signal(signal, onCrash);
  for (const std::vector<uint8_t>& input : inputs) run(input);
  std::mt19937_64 random(seed);
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int64_t runs = 0;
  for (; std::chrono::steady_clock::now() < end; ++runs)
    run(mutated(inputs[random() % inputs.size()], random));
  std::printf("%lld mutations of %zu inputs, seed %llu\n", static_cast<long long>(runs),
              inputs.size(), static_cast<unsigned long long>(seed));
  return 0;
}
