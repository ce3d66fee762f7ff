// SPDX-License-Identifier: Apache-2.0
// Makes random ONNX models, compiles each one twice, runs it on the simulated device and compares with ONNX Runtime or
// with the reference interpreter. The one thing to know: models run in a forked process, so a crash is one model's
// result, and what fails is cut down and written with the line that repeats it. Exit codes: 0 nothing found, 1 wrong
// options, 2 something was found, 77 ONNX Runtime is not there.
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/Format.h"
#include "hpu/compiler.h"
#include "tests/random/Builder.h"
#include "tests/random/Interp.h"
#include "tests/random/KnownDifferences.h"
#include "tests/random/Ort.h"
#include "tests/random/OrtReference.h"
#include "tests/random/Run.h"

using namespace hpu;
using namespace hpu::randomtest;
using base::strCat;

namespace {

constexpr const char* kUsage =
    "usage: random_models [options]\n"
    "  --seed N         of all models (1)\n"
    "  --first N        the first model (0)\n"
    "  --count N        how many (100)\n"
    "  --seconds N      no new model after so long\n"
    "  --precision P    f32 (default), bf16, f16 or fp8; narrow ones are compared with the interpreter\n"
    "  --ort FILE       libonnxruntime.so; without it: HPU_ORT_LIBRARY, then benchmarks/ort/node_modules\n"
    "  --interpreter    compare with the reference interpreter\n"
    "  --ops A,B        only these ops\n"
    "  --keep DIR       where failing models are written (random-models)\n"
    "  --no-shrink      as they are, not cut down\n"
    "  --verbose        a line for each model\n"
    "  --check-ops      whether each op that imports has a generator\n"
    "  --known          the list of known differences, and whether each is still there\n";

struct Options {
  uint64_t seed = 1;
  int64_t first = 0, count = 100;
  double seconds = 1e9;
  Precision precision = Precision::kF32;
  std::string ort, keep = "random-models";
  std::set<std::string> ops;
  bool interpreter = false, shrinks = true, verbose = false, checkOps = false, known = false;
};

constexpr int kMaxOps = 256, kMaxReasons = 512, kReasonSize = 200;
constexpr unsigned kSecondsPerModel = 60, kSecondsPerBatch = 240;  // Of processor time.
/// Models that are under way at a time.
constexpr int64_t kBatch = 16;

/// What worker and parent share.
struct Shared {
  int64_t current, done, runs, refused, found;
  int64_t singleUntil;  ///< Models before it run one at a time: a batch with one of them ended in a signal.
  Seconds seconds;
  double generating;
  int64_t nodes[kMaxOps], refusedNodes[kMaxOps], leftOpen[64], opsets[32];
  Verdict verdict;  ///< Of `current`, when the worker stops there.
  Draw draw;
  char text[1000];
  struct {
    char text[kReasonSize];
    int64_t count, example;
  } reasons[kMaxReasons];
};

/// From now on: of processor time, as others may have the machine; ten times as long in which nothing happens.
void limitTime(unsigned seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = static_cast<time_t>(seconds);
  setitimer(ITIMER_PROF, &timer, nullptr);
  alarm(10 * seconds);
}

bool isTimeout(int signal) {
  return signal == SIGALRM || signal == SIGPROF;
}

void die(const std::string& message) {
  fprintf(stderr, "error: %s\n", message.c_str());
  exit(1);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string flag = argv[i];
    auto value = [&]() -> std::string {
      if (i + 1 >= argc) die(flag + " needs a value\n" + kUsage);
      return argv[++i];
    };
    if (flag == "--seed")
      options.seed = std::strtoull(value().c_str(), nullptr, 10);
    else if (flag == "--first")
      options.first = std::atoll(value().c_str());
    else if (flag == "--count")
      options.count = std::atoll(value().c_str());
    else if (flag == "--seconds")
      options.seconds = std::atof(value().c_str());
    else if (flag == "--ort")
      options.ort = value();
    else if (flag == "--keep")
      options.keep = value();
    else if (flag == "--interpreter")
      options.interpreter = true;
    else if (flag == "--no-shrink")
      options.shrinks = false;
    else if (flag == "--verbose")
      options.verbose = true;
    else if (flag == "--check-ops")
      options.checkOps = true;
    else if (flag == "--known")
      options.known = true;
    else if (flag == "--help")
      printf("%s", kUsage), exit(0);
    else if (flag == "--precision") {
      StatusOr<Precision> precision = parsePrecision(value());
      if (!precision.ok()) die(precision.status().message());
      options.precision = *precision;
    } else if (flag == "--ops") {
      std::string list = value() + ",";
      for (size_t at = 0, end; (end = list.find(',', at)) != std::string::npos; at = end + 1)
        if (end > at) options.ops.insert(list.substr(at, end - at));
    } else {
      die("unknown option '" + flag + "'\n" + kUsage);
    }
  }
  if (options.precision != Precision::kF32) options.interpreter = true;
  if (options.ort.empty() && getenv("HPU_ORT_LIBRARY")) options.ort = getenv("HPU_ORT_LIBRARY");
  if (options.ort.empty()) {
    std::error_code error;
    std::filesystem::path bin = std::string(HPU_SOURCE_DIR) + "/benchmarks/ort/node_modules/onnxruntime-node/bin";
    for (const auto& entry : std::filesystem::directory_iterator(bin, error))
      if (auto file = entry.path() / "linux/x64/libonnxruntime.so.1"; std::filesystem::exists(file)) options.ort = file;
  }
  return options;
}

/// What a worker needs; nothing of it exists in the parent, which forks.
struct Lab {
  std::unique_ptr<Ort> ort;
  std::unique_ptr<Reference> reference;
  std::unique_ptr<Evaluator> evaluator;

  Lab(const Options& options, const std::string& scratch) {
    if (options.interpreter) {
      reference = interpreterReference(scratch);
    } else {
      StatusOr<std::unique_ptr<Ort>> loaded = Ort::load(options.ort);
      if (!loaded.ok()) die(loaded.status().message());
      ort = std::move(*loaded);
      reference = ortReference(*ort);
    }
    evaluator = std::make_unique<Evaluator>(*reference, options.precision);
  }
};

uint64_t modelSeed(const Options& options, int64_t index) {
  return options.seed * 1000003 + static_cast<uint64_t>(index);
}

std::vector<Draw> drawsOf(const Options& options, int64_t index) {
  Rng rng(modelSeed(options, index) ^ 0x5bf03635);
  std::vector<Draw> draws;
  bool noGaudi1 = options.precision == Precision::kF16 || options.precision == Precision::kFp8;
  for (int i = 0; i < 2; ++i) {
    auto target = static_cast<Target>(rng.between(noGaudi1 ? 2 : 1, 3));
    draws.push_back({target, static_cast<int>(rng.between(0, 3)), options.precision});
  }
  return draws;
}

void addReason(Shared& shared, const std::string& text, int64_t index) {
  // Without names and numbers, so that equal reasons are equal.
  std::string plain;
  bool quoted = false;
  for (char c : text.substr(0, text.find('\n'))) {
    if (c == '\'') quoted = !quoted;
    if (quoted || (c >= '0' && c <= '9')) continue;
    plain += c;
  }
  plain = plain.substr(0, kReasonSize - 1);
  for (auto& reason : shared.reasons) {
    if (reason.count > 0 && plain != reason.text) continue;
    if (reason.count++ == 0) {
      snprintf(reason.text, sizeof reason.text, "%s", plain.c_str());
      reason.example = index;
    }
    return;
  }
}

void stop(Shared& shared, Verdict verdict, const Draw& draw, const std::string& text) {
  shared.verdict = verdict;
  shared.draw = draw;
  snprintf(shared.text, sizeof shared.text, "%s", text.c_str());
}

/// A model under way, and what making it took note of.
struct Item {
  int64_t index = 0;
  Model model;
  std::vector<Draw> draws;
  std::map<std::string, int64_t> refusals, leftOpen;
};

Item makeItem(const Options& options, Lab& lab, int64_t index) {
  Item item;
  item.index = index;
  item.draws = drawsOf(options, index);
  lab.evaluator->leftOpen.clear();
  item.model = generate(modelSeed(options, index), options.ops, *lab.evaluator, &item.refusals);
  item.leftOpen = lab.evaluator->leftOpen;
  return item;
}

/// Counts a model; false when it fails, which is left in `shared`.
bool settle(const Options& options, const Item& item, const Task& task, const std::map<std::string, size_t>& place,
            Shared& shared) {
  for (const auto& [op, count] : item.refusals) shared.refusedNodes[place.at(op)] += count;
  auto countNodes = [&](const std::vector<Node>& nodes) {
    for (const Node& node : nodes)
      if (auto found = place.find(node.op); found != place.end()) ++shared.nodes[found->second];
  };
  for (const Node& node : item.model.nodes) {
    countNodes(node.disguise ? node.disguise->written : std::vector<Node>{node});
    if (node.op.starts_with("pattern:")) ++shared.nodes[place.at(node.op)];
    if (node.disguise) countNodes(node.disguise->plain);
  }
  for (size_t i = 0; i < knownDifferences().size(); ++i)
    if (auto found = item.leftOpen.find(knownDifferences()[i].name); found != item.leftOpen.end())
      shared.leftOpen[i] += found->second;
  ++shared.opsets[item.model.opset];
  ++shared.done;
  shared.runs += static_cast<int64_t>(item.draws.size());
  shared.current = item.index;
  if (options.verbose)
    printf("%lld: %zu nodes, %s %s\n", static_cast<long long>(item.index), item.model.nodes.size(),
           verdictName(task.trial.verdict), task.trial.text.c_str());
  if (task.trial.verdict == Verdict::kRefused) {
    ++shared.refused;
    addReason(shared, task.trial.text, item.index);
  } else if (task.trial.verdict != Verdict::kOk) {
    stop(shared, task.trial.verdict, task.failed, task.trial.text);
    return false;
  }
  ++shared.current;
  return true;
}

/// Runs models from shared.current on; ends at one that fails, which is left in `shared`. While a batch is compiled and
/// run the next one is made.
void work(const Options& options, const std::string& scratch, Shared& shared,
          std::chrono::steady_clock::time_point deadline) {
  Lab lab(options, scratch);
  Runner runner(scratch);
  runner.seconds = shared.seconds;
  std::vector<Generator> generators = allGenerators();
  std::map<std::string, size_t> place;
  for (size_t i = 0; i < generators.size(); ++i) place[generators[i].op] = i;
  const int64_t end = options.first + options.count;
  auto make = [&](int64_t from) {
    auto start = std::chrono::steady_clock::now();
    std::vector<Item> items;
    const int64_t to = std::min(end, from + (from < shared.singleUntil ? 1 : kBatch));
    for (int64_t index = from; index < to; ++index) items.push_back(makeItem(options, lab, index));
    shared.generating += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return items;
  };
  limitTime(kSecondsPerBatch);
  std::vector<Item> items;
  while (shared.current < end && std::chrono::steady_clock::now() < deadline) {
    const bool isSingle = shared.current < shared.singleUntil;
    limitTime(isSingle ? kSecondsPerModel : kSecondsPerBatch);
    if (items.empty()) items = make(shared.current);
    shared.draw = items.front().draws.front();
    std::vector<Task> tasks(items.size());
    for (size_t i = 0; i < items.size(); ++i) tasks[i] = {&items[i].model, items[i].draws, {}, {}};
    std::vector<Item> next;
    if (isSingle) {
      for (const Draw& draw : items[0].draws) {
        shared.draw = tasks[0].failed = draw;
        tasks[0].trial = runner.run(items[0].model, draw);
        if (tasks[0].trial.verdict != Verdict::kOk && tasks[0].trial.verdict != Verdict::kRefused) break;
      }
    } else {
      std::thread running([&] { runner.run(tasks); });
      next = make(items.back().index + 1);
      running.join();
    }
    shared.seconds = runner.seconds;
    for (size_t i = 0; i < items.size(); ++i)
      if (!settle(options, items[i], tasks[i], place, shared)) return;
    items = std::move(next);
  }
}

/// Runs a function in a process of its own; gives the wait status.
template <typename Function>
int inChild(Function&& function) {
  fflush(nullptr);
  pid_t pid = fork();
  if (pid == 0) {
    function();
    fflush(nullptr);
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return status;
}

std::string signalText(int status) {
  if (WIFEXITED(status)) return strCat("exit code ", WEXITSTATUS(status));
  return strCat("signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
}

/// Cuts the model down and writes it; runs in a process of its own.
void keep(const Options& options, const std::string& scratch, const Shared& found, Shared& trials) {
  Lab lab(options, scratch);
  Model model = generate(modelSeed(options, found.current), options.ops, *lab.evaluator, nullptr);
  std::string text = found.text;
  auto fails = [&](const Model& candidate) {
    trials.verdict = Verdict::kOk;
    int status = inChild([&] {
      limitTime(kSecondsPerModel);
      if (!getenv("HPU_RANDOM_LOUD")) (void)!freopen("/dev/null", "w", stderr);
      Trial trial = Runner(scratch).run(candidate, found.draw);
      stop(trials, trial.verdict, found.draw, trial.text);
    });
    Verdict verdict = trials.verdict;
    if (WIFSIGNALED(status)) verdict = isTimeout(WTERMSIG(status)) ? Verdict::kHang : Verdict::kCrash;
    if (verdict == found.verdict && verdict != Verdict::kCrash) text = trials.text;
    return verdict == found.verdict;
  };
  if (options.shrinks && fails(model)) {
    model = shrink(std::move(model), fails, found.verdict == Verdict::kHang ? 4 : 120);
    fails(model);  // For its text.
  }
  std::string folder =
      strCat(options.keep, "/", precisionName(options.precision), "-", options.seed, "-", found.current);
  std::string ops, note = strCat(verdictName(found.verdict), ": ", text, "\n\nopset ", model.opset, "\n");
  for (const Node& node : model.nodes) {
    note += describe(model, node) + " -> " + node.outputs[0] + "\n";
    if (node.op != "Constant") ops += (ops.empty() ? "" : ", ") + node.op;
  }
  note += strCat("\nhpu-verify model.onnx --data test_data_set_0 ", flags(found.draw), "\n");
  note += strCat("random_models --seed ", options.seed, " --first ", found.current, " --count 1",
                 options.interpreter && options.precision == Precision::kF32 ? " --interpreter" : "",
                 options.precision == Precision::kF32 ? "" : strCat(" --precision ", precisionName(options.precision)),
                 "\n");
  if (Status saved = save(model, folder, note); !saved.ok()) fprintf(stderr, "error: %s\n", saved.message().c_str());
  printf("%s model %lld (%s): %s\n    %s: %s\n", verdictName(found.verdict), static_cast<long long>(found.current),
         flags(found.draw).c_str(), text.substr(0, 300).c_str(), folder.c_str(), ops.c_str());
}

/// Ops that import and that no random model can have, with where they are verified.
struct Elsewhere {
  const char* why;
  std::vector<const char*> ops;
};
const Elsewhere kElsewhere[] = {
    {"results are random; import's RandomNumbersTest",
     {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}},
    {"ONNX Runtime has none of the training's; ONNX's backend data",
     {"ai.onnx.preview.training.Adagrad", "ai.onnx.preview.training.Adam", "ai.onnx.preview.training.Momentum"}},
    {"coordinates are rounded, so an error has no bound; tests/python/microsoft_ops.py", {"MaxRoiPool"}},
    {"ONNX Runtime does not have them yet; import's NewerOpsTest", {"BitCast", "CumProd"}},
};

int checkOps() {
  std::set<std::string> made, elsewhere;
  for (const Elsewhere& entry : kElsewhere) elsewhere.insert(entry.ops.begin(), entry.ops.end());
  for (const Generator& generator : allGenerators())
    if (!std::string(generator.op).starts_with("pattern:")) made.insert(generator.op);
  int missing = 0;
  for (const std::string& line : supportedOnnxOps()) {
    std::string op = line.substr(0, line.find(' '));
    const bool isElsewhere = elsewhere.erase(op) > 0, isMade = made.erase(op) > 0;
    if (isElsewhere && isMade) ++missing, printf("%s has a generator and is said to have none\n", op.c_str());
    if (!isElsewhere && !isMade) ++missing, printf("no generator makes %s\n", op.c_str());
  }
  for (const std::string& op : made) ++missing, printf("%s has a generator and does not import\n", op.c_str());
  for (const std::string& op : elsewhere)
    ++missing, printf("%s is said to be verified elsewhere and does not import\n", op.c_str());
  return missing ? 2 : 0;
}

/// Each known difference must show in its probe: else the entry is to go.
int checkKnown(const Options& options, const std::string& scratch) {
  int gone = 0;
  inChild([&] {
    Lab lab(options, scratch);
    for (const KnownDifference& known : knownDifferences()) {
      Model model = known.probe();
      for (const Node& node : model.nodes) {
        std::vector<const HostTensor*> operands;
        for (const std::string& name : node.inputs) operands.push_back(&model.values[name].tensor);
        auto runner = lab.reference->open(node, model.opset, operands, std::vector<bool>(node.inputs.size(), false));
        if (!runner.ok()) die(strCat(known.name, ": ", runner.status().message()));
        auto results = (*runner)->run(operands);
        if (!results.ok()) die(strCat(known.name, ": ", results.status().message()));
        for (size_t i = 0; i < node.outputs.size(); ++i) model.values[node.outputs[i]].tensor = (*results)[i];
      }
      Trial trial = Runner(scratch).run(model, Draw{.precision = known.probedAt});
      // A declared output of another shape is refused.
      bool isThere = trial.verdict == Verdict::kMismatch || trial.verdict == Verdict::kInvalid;
      printf("%s: %s\n    %s\n", known.name,
             isThere ? trial.text.c_str()
                     : strCat("NOT THERE ANY MORE: ", verdictName(trial.verdict), " ", trial.text).c_str(),
             known.reason);
      gone += !isThere;
    }
    fflush(nullptr);
    _exit(gone ? 2 : 0);
  });
  return gone;
}

void report(const Options& options, const Shared& shared, double seconds) {
  std::vector<Generator> generators = allGenerators();
  if (shared.refused > 0) {
    printf("refusals, by reason (an example):\n");
    std::multimap<int64_t, std::string, std::greater<>> sorted;
    for (const auto& reason : shared.reasons)
      if (reason.count > 0) sorted.emplace(reason.count, strCat(reason.text, " (", reason.example, ")"));
    for (const auto& [count, text] : sorted) printf("%7lld  %s\n", static_cast<long long>(count), text.c_str());
  }
  for (size_t i = 0; i < knownDifferences().size(); ++i)
    if (shared.leftOpen[i] > 0)
      printf("known difference %s: %lld results\n", knownDifferences()[i].name,
             static_cast<long long>(shared.leftOpen[i]));
  std::string never;
  for (size_t i = 0; i < generators.size(); ++i)
    if (shared.nodes[i] == 0 && !std::string(generators[i].op).starts_with("pattern:") &&
        (options.ops.empty() || options.ops.count(generators[i].op)))
      never += strCat(" ", generators[i].op, "(", shared.refusedNodes[i], " refused by the reference)");
  if (!never.empty() && shared.done >= 500) printf("never made:%s\n", never.c_str());
  int64_t nodes = 0;
  for (int64_t count : shared.nodes) nodes += count;
  printf("%lld models of %lld nodes, %lld runs: %lld refused, %lld failed; %.1f models/s\n",
         static_cast<long long>(shared.done), static_cast<long long>(nodes), static_cast<long long>(shared.runs),
         static_cast<long long>(shared.refused), static_cast<long long>(shared.found),
         static_cast<double>(shared.done) / seconds);
  printf("seconds: %.1f making models, %.1f importing, %.1f compiling, %.1f loading and running\n", shared.generating,
         shared.seconds.import, shared.seconds.compile, shared.seconds.run);
}

}  // namespace

int main(int argc, char** argv) {
  Options options = parse(argc, argv);
  if (options.checkOps) return checkOps();
  if (!options.interpreter && options.ort.empty()) {
    printf(
        "ONNX Runtime is not there: run `npm ci --ignore-scripts` in benchmarks/ort, or give --ort or --interpreter\n");
    return 77;
  }
  setenv("HPU_NODE", strCat("random-", getpid()).c_str(), 0);
  std::string scratch = strCat(std::filesystem::exists("/dev/shm") ? "/dev/shm" : "/tmp", "/random-models-", getpid());
  std::filesystem::create_directories(scratch);
  auto share = [] {
    void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) die("no memory");
    return new (memory) Shared();
  };
  Shared &shared = *share(), &trials = *share();
  int known = 0;
  if (options.known) {
    int status = inChild([&] { _exit(checkKnown(options, scratch)); });
    known = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    options.count = 0;
  }
  auto start = std::chrono::steady_clock::now();
  auto deadline = start + std::chrono::milliseconds(static_cast<int64_t>(std::min(options.seconds, 1e6) * 1000));
  auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  shared.current = options.first;
  while (shared.current < options.first + options.count && std::chrono::steady_clock::now() < deadline) {
    shared.verdict = Verdict::kOk;
    int status = inChild([&] { work(options, scratch, shared, deadline); });
    if (WIFSIGNALED(status)) {
      if (shared.current >= shared.singleUntil) {  // One of this batch or of the next one: which one?
        shared.singleUntil = shared.current + 2 * kBatch;
        continue;
      }
      Verdict verdict = isTimeout(WTERMSIG(status)) ? Verdict::kHang : Verdict::kCrash;
      stop(shared, verdict, shared.draw, signalText(status));
      ++shared.done;
    } else if (WEXITSTATUS(status) != 0) {
      return std::filesystem::remove_all(scratch), 1;
    }
    if (shared.verdict == Verdict::kOk) break;
    ++shared.found;
    inChild([&] { keep(options, scratch, shared, trials); });
    ++shared.current;
  }
  if (!options.known) report(options, shared, seconds());
  std::filesystem::remove_all(scratch);
  return shared.found > 0 || known ? 2 : 0;
}
