// SPDX-License-Identifier: Apache-2.0
// Runs the fuzz target without a fuzzer: the given files, then random mutations of them and of
// right schedules and tables for a while. `fuzz_schedule_replay [--seconds N] [--seed S]
// [FILE...]`. On a crash the input that caused it is in fuzz_schedule_crash.bin in the current
// folder.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/File.h"
#include "collectives/algorithms/Registry.h"
#include "collectives/schedule/Export.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using namespace hpu::collectives;
const std::string* current = nullptr;

/// Leaves the input that crashed in a file, with async-signal-safe calls only.
void onCrash(int signal) {
  int file = open("fuzz_schedule_crash.bin", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file >= 0 && current) (void)!write(file, current->data(), current->size());
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void run(const std::string& bytes) {
  current = &bytes;
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  current = nullptr;
}

/// A small schedule of every algorithm and operation, and a table.
std::vector<std::string> samples() {
  std::vector<std::string> all{
      "Tall-reduce 8 * 0 64K mesh-one-shot 1 # x\nbroadcast * 4 16M * scatter-exchange *\n"};
  for (const Algorithm& algorithm : algorithms())
    for (int c = 0; c < kNumCollectives; ++c)
      for (int32_t ranks : {1, 2, 3}) {
        Problem problem{static_cast<Collective>(c), ranks, c == 8 ? 0 : 6};
        problem.destination = ranks - 1;
        if (!algorithm.accepts(problem)) continue;
        std::string text;
        for (const std::string& document :
             exportChakra(algorithm.make(problem, {2}), linkModel(hpu::Target::kGaudi2)))
          text += (text.empty() ? std::string() : std::string(1, '\0')) + document;
        all.push_back(text);
      }
  return all;
}

std::string mutated(std::string bytes, std::mt19937_64& random) {
  constexpr const char* kDigits = "0123456789";
  for (size_t edits = 1 + random() % 3; edits > 0 && !bytes.empty(); --edits) {
    size_t at = random() % bytes.size();
    switch (random() % 8) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes.resize(at);
        break;
      case 2:
        bytes.insert(at, bytes.substr(random() % bytes.size(), 1 + random() % 60));
        break;
      case 3:
        bytes.erase(at, 1 + random() % 60);
        break;
      default: {  // Another number.
        size_t begin = bytes.find_first_of(kDigits, at);
        if (begin == bytes.npos) break;
        size_t end = std::min(bytes.find_first_not_of(kDigits, begin), bytes.size());
        constexpr const char* kHard[] = {
            "-1",    "9223372036854775807", "4611686018427387903", "18446744073709551616",
            "1e300", "2147483648"};
        std::string number = random() % 16 ? std::to_string(random() % 8) : kHard[random() % 6];
        bytes.replace(begin, end - begin, number);
      }
    }
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 2;
  uint64_t seed = 1;
  std::vector<std::string> inputs = samples();
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--seconds") && i + 1 < argc) {
      seconds = std::atof(argv[++i]);
    } else if (!std::strcmp(argv[i], "--seed") && i + 1 < argc) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else {
      auto bytes = hpu::base::readFile(argv[i]);
      if (!bytes.ok()) return std::fprintf(stderr, "%s\n", bytes.status().message().c_str()), 1;
      inputs.emplace_back(bytes->begin(), bytes->end());
    }
  }
  for (int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL}) std::signal(signal, onCrash);
  for (const std::string& input : inputs) run(input);
  std::mt19937_64 random(seed);
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int64_t runs = 0;
  for (; std::chrono::steady_clock::now() < end; ++runs)
    run(mutated(inputs[random() % inputs.size()], random));
  std::printf("%lld mutations of %zu inputs, seed %llu\n", static_cast<long long>(runs),
              inputs.size(), static_cast<unsigned long long>(seed));
  return 0;
}
