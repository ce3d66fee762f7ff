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

/// One layer in one direction.
class Layer {
 public:
  Layer(Emitter& e, const RecurrentOperands& operands, const Recurrence& how)
      : e_(e),
        in_(operands),
        how_(how),
        type_(e.element(operands.x)),
        steps_(e.dim(operands.x, 0)),
        batch_(e.dim(operands.x, 1)),
        hidden_(e.dim(operands.r, 1)),
        gates_(e.dim(operands.w, 0)) {}

  RecurrentResult run() {
    prepare();
    std::vector<Value> ys(static_cast<size_t>(steps_));
    for (int64_t k = 0; k < steps_ && e_.ok(); ++k) {
      const int64_t t = how_.isReverse ? steps_ - 1 - k : k;
      const Value oldH = h_, oldC = c_;
      step(e_.reshape(e_.sliceDim(products_, 0, t, 1), {batch_, gates_}));
      Value y = h_;
      if (in_.lengths.handle) {
        Value isInside = e_.op("greater", {lengths_, e_.scalarLike(lengths_, static_cast<double>(t))});
        y = e_.where(isInside, h_, e_.scalarLike(h_, 0));
        h_ = e_.where(isInside, h_, oldH);
        if (c_.handle) c_ = e_.where(isInside, c_, oldC);
      }
      ys[static_cast<size_t>(t)] = e_.reshape(y, {1, batch_, hidden_});
    }
    return {e_.concat(ys, 0), h_, c_};
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
  Value transposed(Value matrix) { return e_.transpose(matrix, {1, 0}); }

  void prepare() {
    const int64_t inputs = e_.dim(in_.x, 2);
    Value flat = e_.reshape(in_.x, {steps_ * batch_, inputs});
    Value sum = e_.matmul(flat, transposed(in_.w));
    r_ = transposed(in_.r);
    if (in_.bias.handle) {
      Value ofInputs = e_.sliceDim(in_.bias, 0, 0, gates_), ofState = e_.sliceDim(in_.bias, 0, gates_, gates_);
      if (how_.cell == Cell::kGru && how_.resetsBehindProduct) {
        // The hidden part's is reset together with its product.
        stateBias_ = gate(ofState, 2);
        ofState = e_.concat({gate(ofState, 0, 2), e_.full({type_, {hidden_}}, 0)}, 0);
      }
      sum = e_.add(sum, e_.add(ofInputs, ofState));
    }
    products_ = e_.reshape(sum, {steps_, batch_, gates_});
    auto initial = [&](Value given) { return given.handle ? given : e_.full({type_, {batch_, hidden_}}, 0); };
    h_ = initial(in_.h);
    if (how_.cell == Cell::kLstm) c_ = initial(in_.c);
    if (in_.lengths.handle) lengths_ = e_.reshape(in_.lengths, {batch_, 1});
  }

  void step(Value x) {
    if (how_.cell == Cell::kRnn) h_ = activation(0, e_.add(x, e_.matmul(h_, r_)));
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
      Value product = e_.matmul(h_, r_);
      updateAndReset(product);
      inner = gate(product, 2);
      if (stateBias_.handle) inner = e_.add(inner, stateBias_);
      inner = e_.mul(reset, inner);
    } else {
      updateAndReset(e_.matmul(h_, gate(r_, 0, 2)));
      inner = e_.matmul(e_.mul(reset, h_), gate(r_, 2));
    }
    Value hidden = activation(1, e_.add(gate(x, 2), inner));
    // (1 - z) hidden + z h
    h_ = e_.add(e_.mul(e_.sub(e_.scalarLike(update, 1), update), hidden), e_.mul(update, h_));
  }

  void stepLstm(Value x) {
    Value product = e_.matmul(h_, r_);
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
  const RecurrentOperands& in_;
  const Recurrence& how_;
  const ElementType type_;
  const int64_t steps_, batch_, hidden_, gates_;
  Value products_;   ///< [steps, batch, G], with what of the bias is just added.
  Value r_;          ///< [H, G]
  Value stateBias_;  ///< Of a GRU's hidden part; null: none.
  Value lengths_;    ///< [batch, 1]
  Value h_, c_;
};

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

RecurrentResult recurrent(Emitter& e, const RecurrentOperands& operands, const Recurrence& how) {
  return Layer(e, operands, how).run();
}

}  // namespace hpu::compose
