// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/lowering/HostOperands.h"

#include <algorithm>
#include <cmath>

namespace hpu::synapse {

size_t hostInput(const NodeContext& c) {
  size_t i = 0;
  while (i < c.numInputs() && !c.isHostTensor(i)) ++i;
  return i;
}

std::vector<double> hostNumbers(NodeContext& c, size_t input, size_t least) {
  const TensorDescription& tensor = *c.inputTensor(input);
  StatusOr<ElementType> type = elementTypeOf(tensor.hostType ? tensor.hostType : tensor.dataType, c.target());
  if (!type.ok()) return (void)c.failWith(type.status()), std::vector<double>();
  const auto size = static_cast<size_t>(std::max<int64_t>(elementSize(*type), 1));
  size_t count = tensor.hostData ? tensor.hostData->size() / size : 0;
  if (!tensor.maxSizes.empty())  // Minima may follow.
    count = std::min(count, static_cast<size_t>(std::max<int64_t>(numElements(c.inputShape(input)), 0)));
  if (count < least) {
    c.fail(strCat(c.inputName(input), " has host data of ", count, " elements, and ", least, " are needed"));
    return {};
  }
  std::vector<std::byte> bytes(tensor.hostData->begin(),
                               tensor.hostData->begin() + static_cast<ptrdiff_t>(count * size));
  auto converted = convertElements(bytes, *type, ElementType::kF64, static_cast<int64_t>(count));
  if (!converted.ok()) return (void)c.failWith(converted.status()), std::vector<double>();
  std::vector<double> numbers(count);
  std::memcpy(numbers.data(), converted->data(), count * sizeof(double));
  return numbers;
}

std::vector<int64_t> hostSizes(NodeContext& c, size_t input, size_t least) {
  std::vector<int64_t> sizes;
  for (double number : hostNumbers(c, input, least)) {
    if (!(number >= 0 && number < 9e15) || number != std::floor(number))
      return (void)c.fail(strCat(c.inputName(input), ": ", number, " is no size")), sizes;
    sizes.push_back(static_cast<int64_t>(number));
  }
  return sizes;
}

}  // namespace hpu::synapse
