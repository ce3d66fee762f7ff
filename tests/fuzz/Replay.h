// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target without a fuzzer: `fuzz_NAME_replay [--seconds N] [--count N] [--seed S] [--keep-going]
// [--write-samples FOLDER] [FILE|FOLDER...]` gives it the target's samples and the files, then for
// N seconds (0 when not said), and at least --count times, random mutations of them.
// The one thing to know: a child process runs the inputs; when it ends before its time, by a
// signal, a sanitizer's exit, or because an input hangs, that input is in fuzz_NAME_crash.bin. With --keep-going
// another child goes on with other mutations, and the files are fuzz_NAME_crash1.bin and so on, at most 100.
// In the program fuzz_NAME (HPU_LIBFUZZER) the samples are the corpus to begin with and the mutations are among
// libFuzzer's.
#pragma once

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/File.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
#ifdef HPU_LIBFUZZER
extern "C" int LLVMFuzzerRunDriver(int* argc, char*** argv, int (*callback)(const uint8_t* data, size_t size));
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);
#endif

namespace hpu::fuzz {

using Random = std::mt19937_64;

struct Input {
  struct Field {
    size_t offset = 0, bytes = 0;
  };
  std::string bytes;
  std::vector<Field> fields = {};  ///< Little-endian numbers whose places are known.
};

/// Changes an input that is not empty.
using Edit = void (*)(Input&, Random&);

struct Target {
  std::string name;
  std::vector<Input> samples;
  std::vector<Edit> edits;  ///< All as likely; one that is there twice is twice as likely.
  size_t mostEdits = 4;     ///< Of one input.
};

inline std::vector<Input> inputsOf(std::vector<std::string> texts) {
  std::vector<Input> out;
  for (std::string& text : texts) out.push_back({std::move(text)});
  return out;
}

// ---- Edits --------------------------------------------------------------------------------------

inline void anotherByte(Input& input, Random& random) {
  input.bytes[random() % input.bytes.size()] = static_cast<char>(random());
}

inline void anotherBit(Input& input, Random& random) {
  input.bytes[random() % input.bytes.size()] ^= static_cast<char>(1u << (random() % 8));
}

inline void cutOff(Input& input, Random& random) {
  input.bytes.resize(random() % input.bytes.size());
}

inline void eraseSome(Input& input, Random& random) {
  input.bytes.erase(random() % input.bytes.size(), 1 + random() % 60);
}

/// Some bytes of one value.
inline void insertRun(Input& input, Random& random) {
  input.bytes.insert(random() % input.bytes.size(), 1 + random() % 16, static_cast<char>(random()));
}

/// A piece of the input again elsewhere: orders that nobody wrote.
inline void repeatPiece(Input& input, Random& random) {
  std::string piece = input.bytes.substr(random() % input.bytes.size(), 1 + random() % 200);
  input.bytes.insert(random() % input.bytes.size(), piece);
}

/// Another number in a text.
inline void anotherNumber(Input& input, Random& random) {
  constexpr std::string_view kDigits = "0123456789";
  static const char* const kHard[] = {"-1",    "9223372036854775807", "4611686018427387903", "18446744073709551616",
                                      "1e300", "2147483648"};
  size_t begin = input.bytes.find_first_of(kDigits, random() % input.bytes.size());
  if (begin == std::string::npos) return;
  size_t end = std::min(input.bytes.find_first_not_of(kDigits, begin), input.bytes.size());
  input.bytes.replace(begin, end - begin,
                      random() % 16 ? std::to_string(random() % 8) : kHard[random() % std::size(kHard)]);
}

/// A value near a limit in one of the known fields; of a file, which has none, another byte.
inline void hostileField(Input& input, Random& random) {
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
  if (input.fields.empty()) return anotherByte(input, random);
  Input::Field field = input.fields[random() % input.fields.size()];
  uint64_t pick = random() % (std::size(kValues) + 4);
  uint64_t value = pick < std::size(kValues) ? kValues[pick] : random() >> (random() % 64);
  for (size_t i = 0; i < field.bytes && field.offset + i < input.bytes.size(); ++i)
    input.bytes[field.offset + i] = static_cast<char>(value >> (8 * i));
}

// ---- The run ------------------------------------------------------------------------------------

/// The input that runs, where the parent still has it when the process that ran it is gone.
class Running {
 public:
  static constexpr size_t kMost = size_t{256} << 20;  ///< Of a longer input the beginning is kept.

  /// Null: there is no memory.
  static Running* create() {
    void* memory = ::mmap(nullptr, sizeof(Running) + kMost, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? nullptr : new (memory) Running;
  }
  void set(const std::string& bytes) {
    size_ = std::min(bytes.size(), kMost);
    std::memcpy(bytes_(), bytes.data(), size_);
    count_.fetch_add(1);
  }
  uint64_t count() const { return count_.load(); }
  std::string input() { return {bytes_(), size_}; }

 private:
  char* bytes_() { return reinterpret_cast<char*>(this + 1); }
  std::atomic<uint64_t> count_{0};
  size_t size_ = 0;
};

/// Waits for the process that runs the inputs; whether it came back from all of them, and they were at least `least`.
inline bool supervise(pid_t child, Running& running, const std::string& name, uint64_t least, int number) {
  // Of one input, which takes milliseconds: of processor time, as others may have the machine, and while it waits.
  constexpr double kHang = 10;
  constexpr auto kStuck = std::chrono::seconds(120);
  auto since = std::chrono::steady_clock::now();
  clockid_t clock{};
  const bool hasClock = ::clock_getcpuclockid(child, &clock) == 0;
  auto processorSeconds = [&] {
    timespec time{};
    if (!hasClock || ::clock_gettime(clock, &time) != 0) return 0.0;
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  double used = processorSeconds();
  uint64_t count = running.count();
  std::string what;
  for (int status = 0; what.empty();) {
    pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0) {
      if (running.count() >= least) return true;
      std::fprintf(stderr, "%llu inputs were run, of %llu at least\n", static_cast<unsigned long long>(running.count()),
                   static_cast<unsigned long long>(least));
      return false;
    }
    auto now = std::chrono::steady_clock::now();
    if (ended == child) {
      what = WIFSIGNALED(status) ? "was ended by signal " + std::to_string(WTERMSIG(status))
                                 : "ended with status " + std::to_string(WEXITSTATUS(status));
    } else if (running.count() != count) {
      count = running.count();
      since = now;
      used = processorSeconds();
    } else if (processorSeconds() - used > kHang || now - since > kStuck) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      what = "hangs";
    }
    ::usleep(10000);
  }
  std::string input = running.input(),
              path = "fuzz_" + name + "_crash" + (number ? std::to_string(number) : "") + ".bin";
  Status written = base::writeFileAtomic(path, input.data(), input.size());
  std::fprintf(stderr, "the target %s; its input is in %s\n", what.c_str(),
               written.ok() ? path.c_str() : written.message().c_str());
  return false;
}

inline Input mutated(Input input, const Target& target, Random& random) {
  for (size_t edits = 1 + random() % target.mostEdits; edits > 0 && !input.bytes.empty(); --edits)
    target.edits[random() % target.edits.size()](input, random);
  return input;
}

/// False: said why.
inline bool addFile(const std::string& path, std::vector<Input>& inputs) {
  auto bytes = base::readFile(path);
  if (bytes.ok())
    inputs.push_back({std::string(bytes->begin(), bytes->end())});
  else
    std::fprintf(stderr, "%s\n", bytes.status().message().c_str());
  return bytes.ok();
}

inline bool addPath(const std::string& path, std::vector<Input>& inputs) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return addFile(path, inputs);
  for (const auto& entry : std::filesystem::directory_iterator(path, error))
    if (entry.is_regular_file(error) && !addFile(entry.path().string(), inputs)) return false;
  return true;
}

inline bool writeSamples(const Target& target, const std::string& folder) {
  for (size_t i = 0; i < target.samples.size(); ++i) {
    const std::string& bytes = target.samples[i].bytes;
    Status written = base::writeFileAtomic(folder + "/sample" + std::to_string(i) + ".bin", bytes.data(), bytes.size());
    if (!written.ok()) return std::fprintf(stderr, "%s\n", written.message().c_str()), false;
  }
  return true;
}

#ifdef HPU_LIBFUZZER
/// What libFuzzer's mutator goes by.
inline const Target*& mutatedTarget() {
  static const Target* target = nullptr;
  return target;
}

/// A program's main, too: libFuzzer's, which begins with the samples.
inline int fuzz(int argc, char** argv, const Target& target) {
  mutatedTarget() = &target;
  // Files are run once each.
  std::error_code ignored;
  if (std::any_of(argv + 1, argv + argc,
                  [&](const char* path) { return std::filesystem::is_regular_file(path, ignored); }))
    return LLVMFuzzerRunDriver(&argc, &argv, LLVMFuzzerTestOneInput);
  char folder[] = "/tmp/fuzz_samples_XXXXXX";
  if (!::mkdtemp(folder) || !writeSamples(target, folder)) return 1;
  std::vector<char*> arguments(argv, argv + argc);
  // libFuzzer adds what it finds to the first folder; one that is not said is of this run alone.
  char found[] = "/tmp/fuzz_found_XXXXXX";
  const bool hasFolder = std::any_of(argv + 1, argv + argc, [](const char* text) { return text[0] != '-'; });
  if (!hasFolder && ::mkdtemp(found)) arguments.push_back(found);
  arguments.push_back(folder);
  arguments.push_back(nullptr);
  int count = static_cast<int>(arguments.size()) - 1;
  char** list = arguments.data();
  const int result = LLVMFuzzerRunDriver(&count, &list, LLVMFuzzerTestOneInput);
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  return result;
}
#endif

/// A program's main.
inline int replay(int argc, char** argv, const Target& target) {
#ifdef HPU_LIBFUZZER
  return fuzz(argc, argv, target);
#endif
  double seconds = 0;
  uint64_t seed = 1, count = 0;
  bool keepsGoing = false;
  std::vector<Input> inputs = target.samples;
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    bool ok = true;
    if (!argument.starts_with("--"))
      ok = addPath(argv[i], inputs);
    else if (argument == "--keep-going")
      keepsGoing = true;
    else if (argument == "--seconds" && i + 1 < argc)
      seconds = std::atof(argv[++i]);
    else if (argument == "--count" && i + 1 < argc)
      count = std::strtoull(argv[++i], nullptr, 10);
    else if (argument == "--seed" && i + 1 < argc)
      seed = std::strtoull(argv[++i], nullptr, 10);
    else if (argument == "--write-samples" && i + 1 < argc)
      ok = writeSamples(target, argv[++i]);
    else
      return std::fprintf(stderr,
                          "usage: fuzz_%s_replay [--seconds N] [--count N] [--seed S] [--keep-going] "
                          "[--write-samples FOLDER] [FILE|FOLDER...]\n",
                          target.name.c_str()),
             1;
    if (!ok) return 1;
  }
  Running* running = Running::create();
  const pid_t parent = ::getpid();
  const uint64_t whole = inputs.size() + count;
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (int failures = 0;;) {
    std::fflush(nullptr);
    const pid_t child = running ? ::fork() : -1;
    if (child < 0) return std::perror("cannot start the target"), 1;
    if (child == 0) break;
    if (supervise(child, *running, target.name, whole, keepsGoing ? failures + 1 : 0)) return failures != 0;
    if (!keepsGoing || ++failures == 100) return 1;
    seed += 1000003;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) return 1;
  auto run = [&](const std::string& bytes) {
    running->set(bytes);
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  };
  // After a failure those that were run are not run again.
  while (running->count() < inputs.size()) run(inputs[running->count()].bytes);
  Random random(seed);
  uint64_t mutations = running->count() - inputs.size();
  for (; mutations < count || std::chrono::steady_clock::now() < end; ++mutations)
    run(mutated(inputs[random() % inputs.size()], target, random).bytes);
  std::printf("%zu samples, %zu files and %llu mutations (seed %llu): no failure\n", target.samples.size(),
              inputs.size() - target.samples.size(), static_cast<unsigned long long>(mutations),
              static_cast<unsigned long long>(seed));
  return 0;
}

}  // namespace hpu::fuzz

#ifdef HPU_LIBFUZZER
/// Half of the mutations know the format.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  using namespace hpu::fuzz;
  Random random(seed);
  if (size == 0 || random() % 2) return LLVMFuzzerMutate(data, size, most);
  const Input input = mutated({std::string(reinterpret_cast<char*>(data), size)}, *mutatedTarget(), random);
  const size_t length = std::min(input.bytes.size(), most);
  std::memcpy(data, input.bytes.data(), length);
  return length;
}
#endif
