// SPDX-License-Identifier: Apache-2.0
// The families of the table; one file each.
#pragma once

#include <vector>

#include "pytorch/record/Table.h"

namespace hpu_torch {

const std::vector<Row>& elementwiseOps();
const std::vector<Row>& unaryOps();
const std::vector<Row>& binaryOps();
const std::vector<Row>& sortOps();
const std::vector<Row>& scatterOps();
const std::vector<Row>& resampleOps();
const std::vector<Row>& distanceOps();
const std::vector<Row>& gridOps();
const std::vector<Row>& bagOps();
const std::vector<Row>& activationOps();
const std::vector<Row>& reductionOps();
const std::vector<Row>& matrixOps();
const std::vector<Row>& lossOps();
const std::vector<Row>& normalizationOps();
const std::vector<Row>& convolutionOps();
const std::vector<Row>& poolingOps();
const std::vector<Row>& indexOps();
const std::vector<Row>& creationOps();
const std::vector<Row>& fp8Ops();
const std::vector<Row>& scalerOps();

/// What rows refuse.
const std::vector<Limit>& opLimits();

inline std::vector<const std::vector<Row>*> opFamilies() {
  return {&elementwiseOps(), &binaryOps(), &sortOps(),     &scatterOps(),       &resampleOps(),
          &distanceOps(),    &gridOps(),   &bagOps(),      &unaryOps(),         &activationOps(),
          &reductionOps(),   &matrixOps(), &lossOps(),     &normalizationOps(), &convolutionOps(),
          &poolingOps(),     &indexOps(),  &creationOps(), &fp8Ops(),           &scalerOps()};
}

}  // namespace hpu_torch
