// SPDX-License-Identifier: Apache-2.0
// Runs the fuzz target without a fuzzer: the given files, then random mutations of them and of
// right messages for a while. `fuzz_bootstrap_replay [--seconds N] [--seed S] [FILE...]`. On a
// crash the input that caused it is in fuzz_bootstrap_crash.bin in the current folder.
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
#include "collectives/bootstrap/Coordinator.h"
#include "collectives/bootstrap/Wire.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using namespace hpu::collectives;
const std::string* current = nullptr;

/// Leaves the input that crashed in a file, with async-signal-safe calls only.
void onCrash(int signal) {
  int file = open("fuzz_bootstrap_crash.bin", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file >= 0 && current) (void)!write(file, current->data(), current->size());
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void run(const std::string& bytes) {
  current = &bytes;
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  current = nullptr;
}

/// A conversation of each side.
std::vector<std::string> samples() {
  using wire::MessageType;
  wire::Writer put, up;
  put.text("key");
  put.text("value");
  up.text("cards");
  up.status(hpu::okStatus());
  up.u32(1);
  up.i32(3);
  up.text("card");
  std::string rank =
      "\x1f" + wire::encodeFrame(MessageType::kHello, 0, wire::encodeHello({7, 1, 4, 99, "a"})) +
      wire::encodeFrame(MessageType::kPut, 0, put.take()) +
      wire::encodeFrame(MessageType::kBye, 0, "");
  std::string peer =
      "\x87" + wire::encodeFrame(MessageType::kPeerHello, 0, wire::encodePeerHello({7, 8, 3})) +
      wire::encodeFrame(MessageType::kUp, 1, up.take());
  std::string coordinator =
      "\x80" + wire::encodeFrame(MessageType::kMissing, 2,
                                 encodeMissing({{1, MemberState::kDied, "process 1 on a"},
                                                {2, MemberState::kAbsent, ""}}));
  return {rank, peer, coordinator, "127.0.0.1:4000", "[fe80::1%1]:5"};
}

std::string mutated(std::string bytes, std::mt19937_64& random) {
  for (size_t edits = 1 + random() % 4; edits > 0 && !bytes.empty(); --edits) {
    size_t at = random() % bytes.size();
    switch (random() % 4) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes[at] ^= static_cast<char>(1u << (random() % 8));
        break;
      case 2:
        bytes.resize(at);
        break;
      default:
        bytes.insert(at, bytes.substr(random() % bytes.size(), 1 + random() % 60));
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
