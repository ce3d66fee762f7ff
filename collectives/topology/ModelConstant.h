// SPDX-License-Identifier: Apache-2.0
// ModelConstant: a number of a model that is no data of the hardware: chosen or fitted, with the interval in which the
// truth is believed to be, and what that rests on. The one thing to know: tools print it beside what they predict.
#pragma once

#include <string>

namespace hpu::collectives {

/// A constant of the model, with what is known of it. Times from the model change with it.
struct ModelConstant {
  std::string name;          ///< As in files: "message_us", "start_us" ...
  double value = 0;          ///< In the name's unit.
  double low = 0, high = 0;  ///< The interval in which the truth is believed to be.
  std::string source;        ///< "docs.habana.ai ...", "fitted to ...", "chosen: nothing is published; ..."
  bool operator==(const ModelConstant&) const = default;
};

}  // namespace hpu::collectives
