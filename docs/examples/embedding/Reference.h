// SPDX-License-Identifier: Apache-2.0
// The same net in plain loops and double precision: what the backend's numbers are compared with.
#pragma once

#include <cstddef>
#include <vector>

namespace reference {

using Numbers = std::vector<double>;

struct Net {
  size_t in, hidden, out;
  Numbers w1, b1, w2, b2;

  /// One step of gradient descent on sum((y - t)^2) / rows; returns that loss before the step.
  double step(const std::vector<float>& x, const std::vector<float>& t, size_t rows, double rate) {
    Numbers h(rows * hidden), dy(rows * out), dh(rows * hidden);
    double loss = 0;
    for (size_t r = 0; r < rows; ++r) {
      for (size_t j = 0; j < hidden; ++j) {
        double sum = b1[j];
        for (size_t i = 0; i < in; ++i) sum += x[r * in + i] * w1[i * hidden + j];
        h[r * hidden + j] = sum > 0 ? sum : 0;
      }
      for (size_t k = 0; k < out; ++k) {
        double sum = b2[k];
        for (size_t j = 0; j < hidden; ++j) sum += h[r * hidden + j] * w2[j * out + k];
        double difference = sum - t[r * out + k];
        loss += difference * difference / static_cast<double>(rows);
        dy[r * out + k] = 2 * difference / static_cast<double>(rows);
      }
      for (size_t j = 0; j < hidden; ++j)
        for (size_t k = 0; k < out; ++k)
          if (h[r * hidden + j] > 0) dh[r * hidden + j] += dy[r * out + k] * w2[j * out + k];
    }
    for (size_t r = 0; r < rows; ++r) {
      for (size_t k = 0; k < out; ++k) {
        b2[k] -= rate * dy[r * out + k];
        for (size_t j = 0; j < hidden; ++j) w2[j * out + k] -= rate * h[r * hidden + j] * dy[r * out + k];
      }
      for (size_t j = 0; j < hidden; ++j) {
        b1[j] -= rate * dh[r * hidden + j];
        for (size_t i = 0; i < in; ++i) w1[i * hidden + j] -= rate * x[r * in + i] * dh[r * hidden + j];
      }
    }
    return loss;
  }
};

}  // namespace reference
