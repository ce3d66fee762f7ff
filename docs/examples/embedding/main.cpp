// SPDX-License-Identifier: Apache-2.0
// Trains a net of two layers on a small backend over the public C++ API: op by op, as a replayed capture, and on two
// devices with an all-reduce; every way's weights are compared with plain loops. docs/embedding.md explains it.
#include <hpu/capture.h>
#include <hpu/collectives.h>

#include <cmath>
#include <cstdio>
#include <future>

#include "Backend.h"
#include "Ops.h"
#include "Reference.h"

using mini::Backend, mini::Tensor, mini::check, mini::take;
namespace coll = hpu::collectives;

namespace {

constexpr int64_t kRows = 32, kIn = 24, kHidden = 48, kOut = 8, kSteps = 3;
constexpr double kRate = 0.05;

std::vector<float> numbers(int64_t count, float scale, int64_t seed) {
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[i] = scale * static_cast<float>((i * 37 + seed * 53) % 101 - 50) / 50;
  return values;
}
std::vector<float> batch(int64_t step) {
  return numbers(kRows * kIn, 1, step);
}
std::vector<float> targets(int64_t step) {
  return numbers(kRows * kOut, 1, step + 7);
}

struct Net {
  Tensor w1, b1, w2, b2;
  explicit Net(Backend& backend)
      : w1(mini::upload(backend, {kIn, kHidden}, numbers(kIn * kHidden, 0.2f, 1))),
        b1(mini::upload(backend, {kHidden}, numbers(kHidden, 0.1f, 2))),
        w2(mini::upload(backend, {kHidden, kOut}, numbers(kHidden * kOut, 0.2f, 3))),
        b2(mini::upload(backend, {kOut}, numbers(kOut, 0.1f, 4))) {}
};

reference::Net referenceNet() {
  auto wide = [](const std::vector<float>& v) { return reference::Numbers(v.begin(), v.end()); };
  return {kIn,
          kHidden,
          kOut,
          wide(numbers(kIn * kHidden, 0.2f, 1)),
          wide(numbers(kHidden, 0.1f, 2)),
          wide(numbers(kHidden * kOut, 0.2f, 3)),
          wide(numbers(kOut, 0.1f, 4))};
}

struct Gradients {
  Tensor w1, b1, w2, b2;
};

Gradients gradients(const Net& net, const Tensor& x, const Tensor& t) {
  namespace ops = mini::ops;
  Tensor h = ops::relu(ops::add(ops::matmul(x, net.w1), net.b1));
  Tensor y = ops::add(ops::matmul(h, net.w2), net.b2);
  Tensor dy = ops::lossGrad(y, t, static_cast<double>(x.shape[0]));
  Tensor dh = ops::reluGrad(ops::matmul(dy, net.w2, false, true), h);
  return {ops::matmul(x, dh, true), ops::sumRows(dh), ops::matmul(h, dy, true), ops::sumRows(dy)};
}

void update(const Net& net, const Gradients& g) {
  mini::ops::subtractScaled(net.w1, g.w1, kRate);
  mini::ops::subtractScaled(net.b1, g.b1, kRate);
  mini::ops::subtractScaled(net.w2, g.w2, kRate);
  mini::ops::subtractScaled(net.b2, g.b2, kRate);
}

/// Stops the program when a weight is not what plain loops give.
void compare(const char* what, const Net& net) {
  reference::Net expected = referenceNet();
  double first = 0, last = 0;
  for (int64_t step = 0; step < kSteps; ++step) {
    last = expected.step(batch(step), targets(step), kRows, kRate);
    if (step == 0) first = last;
  }
  double worst = 0;
  auto differ = [&](const Tensor& tensor, const reference::Numbers& numbers) {
    std::vector<float> values = mini::download(tensor);
    for (size_t i = 0; i < values.size(); ++i) worst = std::fmax(worst, std::fabs(values[i] - numbers[i]));
  };
  differ(net.w1, expected.w1), differ(net.b1, expected.b1), differ(net.w2, expected.w2), differ(net.b2, expected.b2);
  std::printf("%-22s loss %.4f -> %.4f, weights differ from plain loops by %.1e at most\n", what, first, last, worst);
  if (!(worst < 1e-5)) throw std::runtime_error(std::string(what) + ": wrong weights");
}

void trainEagerly(Backend& backend) {
  Net net(backend);
  for (int64_t step = 0; step < kSteps; ++step) {
    Tensor x = mini::upload(backend, {kRows, kIn}, batch(step));
    Tensor t = mini::upload(backend, {kRows, kOut}, targets(step));
    update(net, gradients(net, x, t));
  }
  compare("op by op:", net);
}

void trainByReplay(Backend& backend) {
  Net net(backend);
  Tensor x = mini::empty(backend, {kRows, kIn}), t = mini::empty(backend, {kRows, kOut});
  std::vector<std::vector<float>> xs, ts;
  for (int64_t i = 0; i < kSteps; ++i) xs.push_back(batch(i)), ts.push_back(targets(i));
  auto step = [&](int64_t i) {
    mini::copyIn(x, xs[i].data());
    mini::copyIn(t, ts[i].data());
    update(net, gradients(net, x, t));
  };
  step(0);  // A capture cannot compile: the first step does, and is a step of the training.
  check(backend.compute.synchronize());

  hpu::CaptureSession session = take(hpu::CaptureSession::begin(backend.compute));
  step(1);  // Recorded, not done; what it allocates is the graph's.
  hpu::CapturedGraph graph = take(session.end());
  hpu::GraphInstance replay = take(graph.instantiate());
  for (int64_t i = 1; i < kSteps; ++i) {
    if (i > 1) {
      check(replay.rebindSource(xs[i - 1].data(), xs[i].data(), x.bytes()));
      check(replay.rebindSource(ts[i - 1].data(), ts[i].data(), t.bytes()));
    }
    check(replay.replay(backend.compute));
  }
  compare("replayed:", net);
}

void trainOnTwoDevices(Backend& a, Backend& b) {
  Backend* backends[] = {&a, &b};
  Net nets[] = {Net(a), Net(b)};
  std::vector<coll::Communicator> ranks = take(coll::Communicator::createAll({a.device, b.device}));
  for (int64_t step = 0; step < kSteps; ++step) {
    std::vector<float> xs = batch(step), ts = targets(step);
    Gradients shares[2];
    for (int rank = 0; rank < 2; ++rank) {  // Each device has half of the batch.
      auto half = [&](const std::vector<float>& v) {
        auto begin = v.begin() + static_cast<int64_t>(v.size()) / 2 * rank;
        return std::vector<float>(begin, begin + static_cast<int64_t>(v.size()) / 2);
      };
      Tensor x = mini::upload(*backends[rank], {kRows / 2, kIn}, half(xs));
      Tensor t = mini::upload(*backends[rank], {kRows / 2, kOut}, half(ts));
      shares[rank] = gradients(nets[rank], x, t);
    }
    for (Tensor Gradients::* part : {&Gradients::w1, &Gradients::b1, &Gradients::w2, &Gradients::b2})
      for (int rank = 0; rank < 2; ++rank) {  // Only enqueues, so one thread can call for all ranks.
        const Tensor& g = shares[rank].*part;
        check(ranks[rank].allReduce(g.buffer().address(), g.buffer().address(), g.count(), hpu::ElementType::kF32,
                                    coll::ReduceOp::kAverage, backends[rank]->compute));
      }
    for (int rank = 0; rank < 2; ++rank) update(nets[rank], shares[rank]);
  }
  compare("two devices, rank 0:", nets[0]);
  compare("two devices, rank 1:", nets[1]);
}

void expect(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(std::string("not as expected: ") + what);
}

void errors(Backend& backend) {
  // A wrong call: thrown at once, and nothing is enqueued.
  Tensor a = mini::upload(backend, {2, 3}, std::vector<float>(6)),
         b = mini::upload(backend, {4, 5}, std::vector<float>(20));
  try {
    mini::ops::matmul(a, b);
    expect(false, "a product of 2x3 and 4x5");
  } catch (const mini::Error& error) {
    std::printf("a wrong call:          %s\n", error.what());
  }

  // Work that fails later: its stream says so, and skips what depends on it, until somebody takes the failure.
  check(backend.compute.callHost([] { return hpu::dataLoss("the loader found a broken record"); }, "loader"));
  std::promise<hpu::Status> told;
  check(backend.compute.onDone([&](const hpu::Status& status) { told.set_value(status); }));
  hpu::Status heard = told.get_future().get();
  expect(heard.code() == hpu::StatusCode::kDataLoss, "the callback hears of the failure");
  try {
    mini::download(mini::ops::relu(a));
    expect(false, "work behind a failure");
  } catch (const mini::Error& error) {
    std::printf("work that failed:      %s\n", error.what());
    expect(error.status.work() && error.status.work()->operation == heard.work()->operation, "it says where");
  }
  expect(mini::download(mini::ops::relu(a)) == std::vector<float>(6), "taken: the stream works again");
}

}  // namespace

int main() try {
  hpu::EagerCache cache;
  Backend first(cache), second(cache);
  trainEagerly(first);
  trainByReplay(first);
  trainOnTwoDevices(first, second);
  errors(first);
  hpu::EagerStatistics ops = cache.statistics();
  hpu::MemoryPoolInfo memory = first.pool.info();
  expect(memory.usedBytes == 0, "all tensors are gone");
  std::printf(
      "%lld operations were compiled, %lld found compiled; %lld tensors, %lld of them in memory of the one before\n",
      static_cast<long long>(ops.misses), static_cast<long long>(ops.hits), static_cast<long long>(memory.allocations),
      static_cast<long long>(memory.reusedInOrder));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
