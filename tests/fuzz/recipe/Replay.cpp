// SPDX-License-Identifier: Apache-2.0
// Runs the fuzz target without a fuzzer: every file of the given folders, then random mutations of
// them and of the built-in samples for a while. `fuzz_recipe_replay [--seconds N] [--seed S]
// [--write-samples DIR] [FOLDER...]`. On a crash the input that caused it is in
// fuzz_recipe_crash.bin in the current folder.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "SampleProgram.h"
#include "base/File.h"
#include "recipe/Container.h"
#include "recipe/RecipeWriter.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;
using Clock = std::chrono::steady_clock;

struct Input {
  Bytes bytes;
  std::vector<hpu::recipe::EncodedField> fields;  ///< Empty for files.
};

/// Keeps the input on disk while it runs, so that it survives a crash.
void run(const Bytes& bytes) {
  static std::FILE* file = std::fopen("fuzz_recipe_crash.bin", "w+b");
  if (file) {
    std::rewind(file);
    std::fwrite(bytes.data(), 1, bytes.size(), file);
    std::fflush(file);
    if (ftruncate(fileno(file), static_cast<off_t>(bytes.size())) != 0) std::perror("ftruncate");
  }
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

Input sampleInput(const hpu::recipe::Program& program) {
  auto encoded = hpu::recipe::encodeProgram(program, /*wantFields=*/true);
  if (!encoded.ok()) std::abort();
  Input input;
  input.fields = encoded->fields;
  input.bytes = hpu::recipe::joinRecipe(std::move(*encoded));
  return input;
}

uint64_t hostileValue(std::mt19937_64& random) {
  static constexpr uint64_t kValues[] = {0,
                                         1,
                                         2,
                                         3,
                                         4,
                                         7,
                                         8,
                                         255,
                                         256,
                                         65535,
                                         0x7fffffff,
                                         0x80000000,
                                         0xffffffff,
                                         0x100000000,
                                         UINT64_MAX,
                                         UINT64_MAX - 7,
                                         INT64_MAX,
                                         uint64_t{1} << 63,
                                         uint64_t{1} << 48,
                                         0x7ff0000000000000};
  uint64_t pick = random() % (std::size(kValues) + 4);
  return pick < std::size(kValues) ? kValues[pick] : random() >> (random() % 64);
}

Bytes mutate(const Input& input, std::mt19937_64& random) {
  Bytes bytes = input.bytes;
  for (uint64_t changes = 1 + random() % 5; changes > 0 && !bytes.empty(); --changes) {
    uint64_t how = random() % 8;
    if (how < 5 && !input.fields.empty()) {
      const auto& field = input.fields[random() % input.fields.size()];
      uint64_t value = hostileValue(random);
      for (uint32_t i = 0; i < field.bytes && field.offset + i < bytes.size(); ++i) {
        bytes[field.offset + i] = static_cast<uint8_t>(value >> (8 * i));
      }
    } else if (how < 6) {
      bytes[random() % bytes.size()] ^= static_cast<uint8_t>(1 << random() % 8);
    } else if (how < 7) {
      uint64_t at = random() % std::min<size_t>(bytes.size(), 512);  // Header and table.
      bytes[at] = static_cast<uint8_t>(random());
    } else if (random() % 4 == 0) {
      bytes.resize(random() % bytes.size());
    }
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 0;
  uint64_t seed = 1;
  std::vector<Input> inputs;
  const hpu::recipe::Program sample = hpu::recipe::testing::sampleProgram();
  const hpu::recipe::Program large = hpu::recipe::testing::largeProgram(3, 4);
  inputs.push_back(sampleInput(sample));
  inputs.push_back(sampleInput(large));
  size_t files = 0;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (i + 1 < argc && argument == "--seconds") {
      seconds = std::atof(argv[++i]);
    } else if (i + 1 < argc && argument == "--seed") {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (i + 1 < argc && argument == "--write-samples") {
      std::string folder = argv[++i];
      for (size_t n = 0; n < 2; ++n) {
        std::string path = folder + "/sample" + std::to_string(n) + ".recipe";
        auto status =
            hpu::base::writeFileAtomic(path, inputs[n].bytes.data(), inputs[n].bytes.size());
        if (!status.ok()) return std::fprintf(stderr, "%s\n", status.message().c_str()), 1;
      }
    } else if (std::error_code error; std::filesystem::is_directory(argument, error)) {
      for (const auto& entry : std::filesystem::directory_iterator(argument, error)) {
        auto bytes = hpu::base::readFile(entry.path().string(), 64 << 20);
        if (!bytes.ok()) continue;
        inputs.push_back({std::move(*bytes), {}});
        ++files;
      }
    } else {
      std::fprintf(stderr,
                   "usage: fuzz_recipe_replay [--seconds N] [--seed S] [--write-samples DIR] "
                   "[FOLDER...]\n'%s' is neither an option nor a folder\n",
                   argv[i]);
      return 1;
    }
  }
  for (const Input& input : inputs) run(input.bytes);
  std::mt19937_64 random(seed);
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  uint64_t mutations = 0;
  for (; Clock::now() < end; ++mutations) run(mutate(inputs[random() % inputs.size()], random));
  std::remove("fuzz_recipe_crash.bin");
  std::printf("replayed %zu samples, %zu files and %llu mutations (seed %llu): no failure\n",
              inputs.size() - files, files, static_cast<unsigned long long>(mutations),
              static_cast<unsigned long long>(seed));
  return 0;
}
