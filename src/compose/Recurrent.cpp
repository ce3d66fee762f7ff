// SPDX-License-Identifier: Apache-2.0
#include "compose/Recurrent.h"

#include <algorithm>

#include "base/Format.h"

namespace hpu::compose {
namespace {

struct Known {
  const char* name;
  bool alpha, beta;
  double defaultAlpha, defaultBeta;
};
constexpr Known kActivations[] = {
    {"Relu", false, false, 0, 0},     {"Tanh", false, false, 0, 0},          {"Sigmoid", false, false, 0, 0},
    {"Affine", true, true, 1, 0},     {"LeakyRelu", true, false, 0.01, 0},   {"ThresholdedRelu", true, false, 1, 0},
    {"ScaledTanh", true, true, 1, 1}, {"HardSigmoid", true, true, 0.2, 0.5}, {"Elu", true, false, 1, 0},
    {"Softsign", false, false, 0, 0}, {"Softplus", false, false, 0, 0},
};

const Known* find(const std::string& name) {
  for (const Known& known : kActivations)
    if (name == known.name) return &known;
  return nullptr;
}

/// One step of a layer in one direction.
class Step {
 public:
  Step(Emitter& e, const RecurrentSteps& steps, const Recurrence& how, RecurrentState& state)
      : e_(e), in_(steps), how_(how), hidden_(e.dim(steps.r, 0)), h_(state.h), c_(state.c) {}

  Value run(Value x, Value number) {
    const Value oldH = h_, oldC = c_;
    step(x);
    if (!in_.lengths.handle) return h_;
    Value isInside = e_.op("greater", {in_.lengths, number});
    Value y = e_.where(isInside, h_, e_.scalarLike(h_, 0));
    h_ = e_.where(isInside, h_, oldH);
    if (c_.handle) c_ = e_.where(isInside, c_, oldC);
    return y;
  }

 private:
  Value activation(size_t which, Value v) {
    if (how_.clip > 0) v = e_.max(e_.min(v, e_.scalarLike(v, how_.clip)), e_.scalarLike(v, -how_.clip));
    return applied(how_.activations[which], v);
  }

  Value applied(const Activation& a, Value v) {
    if (a.name == "Tanh") return e_.op("tanh", {v});
    if (a.name == "Sigmoid") return e_.op("sigmoid", {v});
    if (a.name == "Relu") return e_.op("relu", {v});
    if (a.name == "Softplus") return e_.op("softplus", {v});
    if (a.name == "Affine") return e_.add(e_.mul(v, a.alpha), a.beta);
    if (a.name == "LeakyRelu") return e_.op("leaky_relu", {v}, {{"alpha", a.alpha}});
    if (a.name == "Elu") return e_.op("elu", {v}, {{"alpha", a.alpha}});
    if (a.name == "ScaledTanh") return e_.mul(e_.op("tanh", {e_.mul(v, a.beta)}), a.alpha);
    if (a.name == "HardSigmoid") return e_.op("hard_sigmoid", {v}, {{"alpha", a.alpha}, {"beta", a.beta}});
    if (a.name == "ThresholdedRelu")
      return e_.where(e_.op("greater", {v, e_.scalarLike(v, a.alpha)}), v, e_.scalarLike(v, 0));
    if (a.name == "Softsign") return e_.div(v, e_.add(e_.op("abs", {v}), 1));
    return e_.unsupported(base::strCat("the activation '", a.name, "'"));
  }

  /// The gates from `first` on, so many of them.
  Value gate(Value v, int64_t first, int64_t count = 1) { return e_.sliceDim(v, -1, first * hidden_, count * hidden_); }

  void step(Value x) {
    if (how_.cell == Cell::kRnn) h_ = activation(0, e_.add(x, e_.matmul(h_, in_.r)));
    if (how_.cell == Cell::kGru) stepGru(x);
    if (how_.cell == Cell::kLstm) stepLstm(x);
  }

  // Each gate by itself, from slices of products on: what is between two products then has one shape, and is one
  // kernel.

  void stepGru(Value x) {
    Value update, reset, inner;
    auto updateAndReset = [&](Value product) {
      update = activation(0, e_.add(gate(x, 0), gate(product, 0)));
      reset = activation(0, e_.add(gate(x, 1), gate(product, 1)));
    };
    if (how_.resetsBehindProduct) {
      Value product = e_.matmul(h_, in_.r);
      updateAndReset(product);
      inner = gate(product, 2);
      if (in_.stateBias.handle) inner = e_.add(inner, in_.stateBias);
      inner = e_.mul(reset, inner);
    } else {
      updateAndReset(e_.matmul(h_, gate(in_.r, 0, 2)));
      inner = e_.matmul(e_.mul(reset, h_), gate(in_.r, 2));
    }
    Value hidden = activation(1, e_.add(gate(x, 2), inner));
    // (1 - z) hidden + z h
    h_ = e_.add(e_.mul(e_.sub(e_.scalarLike(update, 1), update), hidden), e_.mul(update, h_));
  }

  void stepLstm(Value x) {
    Value product = e_.matmul(h_, in_.r);
    auto sum = [&](int64_t which) { return e_.add(gate(x, which), gate(product, which)); };
    // The cell looks in at a gate; in the peephole they have the order of the gates.
    auto opened = [&](int64_t which) {
      Value v = sum(which);
      if (in_.peephole.handle) v = e_.add(v, e_.mul(gate(in_.peephole, which), c_));
      return activation(0, v);
    };
    Value input = opened(0);
    Value forget = how_.couplesGates ? e_.sub(e_.scalarLike(input, 1), input) : opened(2);
    c_ = e_.add(e_.mul(forget, c_), e_.mul(input, activation(1, sum(3))));
    Value output = opened(1);
    h_ = e_.mul(output, applied(how_.activations[2], c_));  // The cell is no sum of products: it is not clipped.
  }

  Emitter& e_;
  const RecurrentSteps& in_;
  const Recurrence& how_;
  const int64_t hidden_;
  Value &h_, &c_;
};

Value transposed(Emitter& e, Value matrix) {
  return e.transpose(matrix, {1, 0});
}

}  // namespace

bool defaultNumbers(const std::string& name, Activation& activation) {
  const Known* known = find(name);
  if (known) activation = {name, known->defaultAlpha, known->defaultBeta};
  return known;
}

std::array<bool, 2> takesNumbers(const std::string& name) {
  const Known* known = find(name);
  return {known && known->alpha, known && known->beta};
}

RecurrentSteps recurrentSteps(Emitter& e, const RecurrentOperands& in, const Recurrence& how, RecurrentState& first) {
  const int64_t steps = e.dim(in.x, 0), batch = e.dim(in.x, 1), inputs = e.dim(in.x, 2);
  const int64_t hidden = e.dim(in.r, 1), gates = e.dim(in.w, 0);
  const ElementType type = e.element(in.x);
  RecurrentSteps made;
  made.peephole = in.peephole;
  Value sum = e.matmul(e.reshape(in.x, {steps * batch, inputs}), transposed(e, in.w));
  made.r = transposed(e, in.r);
  if (in.bias.handle) {
    Value ofInputs = e.sliceDim(in.bias, 0, 0, gates), ofState = e.sliceDim(in.bias, 0, gates, gates);
    if (how.cell == Cell::kGru && how.resetsBehindProduct) {
      // The hidden part's is reset together with its product.
      made.stateBias = e.sliceDim(ofState, -1, 2 * hidden, hidden);
      ofState = e.concat({e.sliceDim(ofState, -1, 0, 2 * hidden), e.full({type, {hidden}}, 0)}, 0);
    }
    sum = e.add(sum, e.add(ofInputs, ofState));
  }
  made.products = e.reshape(sum, {steps, batch, gates});
  auto initial = [&](Value given) { return given.handle ? given : e.full({type, {batch, hidden}}, 0); };
  first.h = initial(in.h);
  if (how.cell == Cell::kLstm) first.c = initial(in.c);
  if (in.lengths.handle) made.lengths = e.reshape(in.lengths, {batch, 1});
  return made;
}

Value recurrentStep(Emitter& e, const RecurrentSteps& steps, const Recurrence& how, Value x, Value number,
                    RecurrentState& state) {
  return Step(e, steps, how, state).run(x, number);
}

RecurrentResult recurrent(Emitter& e, const RecurrentOperands& operands, const Recurrence& how) {
  RecurrentState state;
  const RecurrentSteps all = recurrentSteps(e, operands, how, state);
  const int64_t steps = e.dim(operands.x, 0), batch = e.dim(operands.x, 1), hidden = e.dim(operands.r, 1);
  std::vector<Value> ys(static_cast<size_t>(steps));
  for (int64_t k = 0; k < steps && e.ok(); ++k) {
    const int64_t t = how.isReverse ? steps - 1 - k : k;
    Value x = e.reshape(e.sliceDim(all.products, 0, t, 1), {batch, e.dim(all.products, 2)});
    Value number = all.lengths.handle ? e.scalarLike(all.lengths, static_cast<double>(t)) : Value{};
    Value y = recurrentStep(e, all, how, x, number, state);
    ys[static_cast<size_t>(t)] = e.reshape(y, {1, batch, hidden});
  }
  return {e.concat(ys, 0), state.h, state.c};
}

}  // namespace hpu::compose
