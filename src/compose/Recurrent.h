// SPDX-License-Identifier: Apache-2.0
// Recurrent layers: RNN, GRU and LSTM over all steps of a sequence.
// The one thing to know: the products with the inputs are one product for all steps; only those with the state are one
// behind the other. Steps are ops of their own, so a formula grows with their number.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "compose/Emitter.h"

namespace hpu::compose {

/// One of ONNX's activations; numbers that a function does not have are not looked at.
struct Activation {
  std::string name;
  double alpha = 0, beta = 0;
};
/// ONNX's defaults of a function's numbers. False: there is none of that name.
bool defaultNumbers(const std::string& name, Activation& activation);
/// Whether the function has an alpha and a beta.
std::array<bool, 2> takesNumbers(const std::string& name);

enum class Cell { kRnn, kGru, kLstm };
struct Recurrence {
  Cell cell = Cell::kLstm;
  std::vector<Activation> activations;  ///< f of an RNN; f, g of a GRU; f, g, h of an LSTM.
  bool isReverse = false;
  double clip = 0;                   ///< Of what activations take, if more than 0.
  bool couplesGates = false;         ///< LSTM: the forget gate is 1 - the input gate.
  bool resetsBehindProduct = false;  ///< GRU: the reset gate multiplies the product with the state, not the state.
};
/// G is 1, 3 (update, reset, hidden) or 4 (input, output, forget, cell) times H. Nulls are zeros.
struct RecurrentOperands {
  Value x;         ///< [steps, batch, inputs]
  Value w, r;      ///< [G, inputs], [G, H]
  Value bias;      ///< [2 G]: of the products with the inputs, then of those with the state.
  Value lengths;   ///< [batch], i32: steps of each sequence; null: all.
  Value h, c;      ///< [batch, H]
  Value peephole;  ///< LSTM: [3 H], of the input, output and forget gate.
};
struct RecurrentResult {
  Value y;     ///< [steps, batch, H], zeros behind a sequence's end.
  Value h, c;  ///< [batch, H], at a sequence's end; c of an LSTM.
};
RecurrentResult recurrent(Emitter& e, const RecurrentOperands& operands, const Recurrence& how);

/// The same in pieces, for who loops over the steps: what all steps have in common, and one of them.
struct RecurrentSteps {
  Value products;   ///< [steps, batch, G]: of the inputs, with what of the bias is just added.
  Value r;          ///< [H, G]
  Value stateBias;  ///< [H], of a GRU's hidden part; null: none.
  Value lengths;    ///< [batch, 1]; null: none.
  Value peephole;
};
struct RecurrentState {
  Value h, c;  ///< [batch, H]
};
RecurrentSteps recurrentSteps(Emitter& e, const RecurrentOperands& operands, const Recurrence& how,
                              RecurrentState& first);
/// `x`: [batch, G], of products. `number`: of the step in its sequence, of the type of lengths, rank 0; null where
/// there are none. Changes the state; returns y of the step, [batch, H].
Value recurrentStep(Emitter& e, const RecurrentSteps& steps, const Recurrence& how, Value x, Value number,
                    RecurrentState& state);

}  // namespace hpu::compose
