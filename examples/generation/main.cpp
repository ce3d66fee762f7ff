// SPDX-License-Identifier: Apache-2.0
// Greedy generation with a decoder that has a cache of keys and values: compiled once for prompts and steps of all
// lengths, the cache in device memory and changed in place.
//
//   generation MODEL.onnx TOKENS ID [ID ...]
//
// The model's inputs are token ids [batch, seq] and caches that end in `past`, its outputs logits [batch, seq,
// vocabulary] and the caches `present_*` of `past_*` (or `present.*` of `past_key_values.*`, as Optimum names them).
// Tokens go to stdout, one a line, and how long it took to stderr.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "hpu/compiler.h"
#include "hpu/device.h"
#include "hpu/executable.h"
#include "hpu/recipe.h"
#include "hpu/stream.h"

namespace {

template <typename T>
T take(hpu::StatusOr<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().message());
  return std::move(result).value();
}
void check(const hpu::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

constexpr int64_t kMostPrompt = 512, kMostPast = 1024;

hpu::Recipe compile(const std::string& path) {
  hpu::CompileOptions options;
  options.dims = {{"batch", 1}};
  options.dimBounds = {{"seq", {1, kMostPrompt}}, {"past", {0, kMostPast}}};
  options.states = {{"present_*", "past_*"}};
  if (auto result = hpu::compileFile(path, options); result.ok()) return result->recipe;
  options.states = {{"present.*", "past_key_values.*"}};
  return take(hpu::compileFile(path, options)).recipe;
}

/// One decoder on a device, with the cache of one sequence.
class Generator {
 public:
  explicit Generator(const hpu::Recipe& recipe)
      : recipe_(recipe),
        device_(take(hpu::Device::open({.target = recipe.target()}))),
        stream_(take(hpu::Stream::create(device_))),
        executable_(take(hpu::Executable::load(device_, recipe))),
        inputs_(recipe.inputs().size()),
        outputs_(recipe.outputs().size()) {
    // An input and its output are one piece of memory, as large as the sequence may become.
    for (const hpu::StateInfo& state : recipe.states())
      inputs_[state.input] = outputs_[state.output] = take(device_.allocate(state.capacity.bytes(), "cache"));
    tokens_ = firstEmpty(inputs_);
    logits_ = firstEmpty(outputs_);
    inputs_[tokens_] = take(device_.allocate(kMostPrompt * 8, "tokens"));
  }

  /// Appends the tokens to the sequence; the token that follows.
  int64_t next(const std::vector<int64_t>& tokens) {
    const auto count = static_cast<int64_t>(tokens.size());
    const std::vector<hpu::Shape> shapes = take(recipe_.inputShapes({{"seq", count}, {"past", past_}}));
    const std::vector<hpu::TensorInfo> outputs = take(executable_.outputs(shapes));
    const hpu::TensorType& type = outputs[logits_].type;
    if (!outputs_[logits_].valid() || outputs_[logits_].size() < type.bytes())
      outputs_[logits_] = take(device_.allocate(type.bytes(), "logits"));
    const int64_t vocabulary = type.shape.back();
    std::vector<float> last(static_cast<size_t>(vocabulary));
    check(stream_.copyToDevice(inputs_[tokens_], tokens.data(), count * 8));
    check(executable_.launch(stream_, inputs_, outputs_, shapes));
    check(stream_.copyToHost(last.data(), outputs_[logits_], vocabulary * 4, (count - 1) * vocabulary * 4));
    check(stream_.synchronize());
    past_ += count;
    return std::max_element(last.begin(), last.end()) - last.begin();
  }

 private:
  /// What is no state: the only other input or output.
  static size_t firstEmpty(const std::vector<hpu::Buffer>& buffers) {
    for (size_t i = 0; i < buffers.size(); ++i)
      if (!buffers[i].valid()) return i;
    throw std::runtime_error("the model has no token ids or no logits beside its caches");
  }

  hpu::Recipe recipe_;
  hpu::Device device_;
  hpu::Stream stream_;
  hpu::Executable executable_;
  std::vector<hpu::Buffer> inputs_, outputs_;
  size_t tokens_ = 0, logits_ = 0;
  int64_t past_ = 0;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 4) throw std::runtime_error("usage: generation MODEL.onnx TOKENS ID [ID ...]");
  std::vector<int64_t> tokens;
  for (int i = 3; i < argc; ++i) tokens.push_back(std::strtoll(argv[i], nullptr, 10));
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  Generator generator(compile(argv[1]));
  const auto ready = Clock::now();
  const long count = std::strtol(argv[2], nullptr, 10);
  for (long i = 0; i < count; ++i) {
    tokens = {generator.next(tokens)};
    std::printf("%lld\n", static_cast<long long>(tokens[0]));
  }
  const std::chrono::duration<double> first = ready - begin, taken = Clock::now() - ready;
  std::fprintf(stderr, "ready in %.2f s, then %.0f tokens/s\n", first.count(),
               static_cast<double>(count) / taken.count());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "generation: %s\n", error.what());
  return 1;
}
