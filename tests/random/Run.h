// SPDX-License-Identifier: Apache-2.0
// Compiling a random model and running it on the simulated device, and cutting one that fails down to what still fails.
// The one thing to know: a trial may crash; the caller decides whether it runs in a process of its own.
#pragma once

#include <functional>

#include "hpu/compiler.h"
#include "hpu/device.h"
#include "tests/random/Evaluate.h"

namespace hpu::randomtest {

/// How a model is compiled.
struct Draw {
  Target target = Target::kGaudi2;
  int level = 2;
  Precision precision = Precision::kF32;
};
/// Options of hpu-verify that compile the same.
std::string flags(const Draw& draw);

enum class Verdict {
  kOk,
  kRefused,   ///< With a reason that names what is not there.
  kMismatch,  ///< A result is another one.
  kBug,       ///< An internal error, by its own message.
  kInvalid,   ///< A model that the reference takes is called wrong.
  kCrash,     ///< A signal.
  kHang,      ///< No result in time.
};
const char* verdictName(Verdict verdict);

struct Trial {
  Verdict verdict = Verdict::kOk;
  std::string text;
};

/// Host seconds of the parts of trials.
struct Seconds {
  double import = 0, compile = 0, run = 0;
};

/// A model to run, and what came of it.
struct Task {
  const Model* model = nullptr;
  std::vector<Draw> draws;
  Trial trial;
  Draw failed;  ///< The draw that `trial` is of.
};

/// Compiles and runs models; keeps devices open.
class Runner {
 public:
  /// `scratch`: a folder for the model's file.
  explicit Runner(std::string scratch) : scratch_(std::move(scratch)) {}
  Trial run(const Model& model, const Draw& draw);
  /// Imports once, then runs each draw; stops at the first that is neither ok nor refused.
  Trial run(const Model& model, const std::vector<Draw>& draws, Draw* failed);
  /// Each of several models in one of a few threads.
  void run(std::vector<Task>& tasks);
  Seconds seconds;

 private:
  Status openDevice(Target target);
  std::string scratch_;
  Device devices_[3];
};

/// The smallest part of a model found for which `fails` is true, within so many calls.
Model shrink(Model model, const std::function<bool(const Model&)>& fails, int calls = 120);

}  // namespace hpu::randomtest
