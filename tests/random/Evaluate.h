// SPDX-License-Identifier: Apache-2.0
// What a node computes, and how far a correct implementation may be from it. The one thing to know: the reference runs
// one node at a time, on the reference's own results so far; what earlier nodes may have got wrong is carried as an
// error of each element, and its effect is measured by running the node again on operands moved by that error.
#pragma once

#include <functional>
#include <memory>

#include "hpu/types.h"
#include "tests/random/Model.h"
#include "tests/random/Rng.h"

namespace hpu::randomtest {

/// One node, opened for any number of runs.
class NodeRunner {
 public:
  virtual ~NodeRunner() = default;
  /// Operands as in node.inputs, without those that are left out.
  virtual StatusOr<std::vector<HostTensor>> run(const std::vector<const HostTensor*>& operands) = 0;
};

/// ONNX Runtime or the reference interpreter.
class Reference {
 public:
  virtual ~Reference() = default;
  /// `constants`: which operands the model holds as constants. Errors: the reference's reason to refuse the node.
  virtual StatusOr<std::unique_ptr<NodeRunner>> open(const Node& node, int64_t opset,
                                                     const std::vector<const HostTensor*>& operands,
                                                     const std::vector<bool>& constants) = 0;
};

/// The error that a node itself may add, in units in the last place (2^-23 of the magnitude for f32).
struct Local {
  double ulps = 1;          ///< Of the result.
  double steps = 1;         ///< Of the least number of the type: what numbers on the way lose below the normal range.
  double operandUlps = 0;   ///< Of each element of the operands: what an evaluation in several steps amounts to.
  double scaleUlps = 0;     ///< Of the largest magnitude of each operand: statistics over it.
  double absolute = 0;      ///< Of the number 1, whatever the result: a logarithm of a number near 1.
  double tiny = 0;          ///< Results below this may be anything below this.
  double integerSteps = 0;  ///< Of results that are integers.
  bool sums = false;        ///< A sum in any order: relative to the sum of the magnitudes of its terms.
  std::vector<size_t> negated;  ///< With sums: operands that are subtracted.
  Attributes magnitudes;        ///< With sums: attributes that the sum of magnitudes has instead.
};

struct Evaluated {
  std::vector<HostTensor> tensors;
  std::vector<std::vector<double>> errors;
};

class Evaluator {
 public:
  Evaluator(Reference& reference, Precision precision) : reference_(reference), precision_(precision) {}

  /// The results of a node whose operands are values of the model. Errors: the reference's.
  StatusOr<Evaluated> evaluate(const Model& model, const Node& node, const Local& local, Rng& rng);

  Precision precision() const { return precision_; }
  /// Counts of results for which a known difference made some elements of no consequence, by its name.
  std::map<std::string, int64_t> leftOpen;

 private:
  double ownUlp(ElementType type) const;
  double narrowUlp() const;
  double ulp(ElementType type) const;
  /// So many units in the last place of computations, as a share of the number.
  double roundings(ElementType type, double ulps) const;
  double least(ElementType type) const;
  using Tensors = std::vector<HostTensor>;
  bool leavesRange(double x) const;
  void addMoved(const Node& node, int64_t opset, const std::vector<const Value*>& operands, const Local& local,
                NodeRunner& runner, Rng& rng, Evaluated& result);
  Status settleNans(const Node& node, const std::vector<const HostTensor*>& operands, NodeRunner& runner,
                    Evaluated& result);
  Status settleOverflows(const Node& node, const std::vector<const HostTensor*>& operands, NodeRunner& runner,
                         Evaluated& result);
  Status settleHalves(const Node& node, int64_t opset, const std::vector<const HostTensor*>& operands,
                      const std::vector<bool>& constants, Evaluated& result);
  Status settleResizes(const Node& node, const std::vector<const HostTensor*>& operands, NodeRunner& runner,
                       Evaluated& result);
  Status addSums(const Node& node, int64_t opset, const std::vector<const Value*>& operands,
                 const std::vector<bool>& constants, const Local& local, Evaluated& result);

  Reference& reference_;
  Precision precision_;
};

}  // namespace hpu::randomtest
