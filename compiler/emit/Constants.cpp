// SPDX-License-Identifier: Apache-2.0
// Writes constants in the order in which the engines read them.
#include "base/StatusMacros.h"
#include "compiler/emit/Emit.h"
#include "compiler/interp/ConstantData.h"
#include "recipe/PackedWeights.h"

using namespace mlir;

namespace hpu::emit {
namespace {

bool isDense(ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides) {
  int64_t expected = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] != 1 && strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

template <typename T>
void copyStrided(const T* src, ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides, T* dst) {
  if (sizes.empty()) {
    *dst = *src;
    return;
  }
  int64_t inner = 1;
  for (int64_t size : sizes.drop_front()) inner *= size;
  for (int64_t i = 0; i < sizes[0]; ++i) {
    if (sizes.size() == 1)
      dst[i] = src[i * strides[0]];
    else
      copyStrided(src + i * strides[0], sizes.drop_front(), strides.drop_front(), dst + i * inner);
  }
}

void copyElements(const uint8_t* src, int64_t elementBytes, ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides,
                  uint8_t* dst) {
  switch (elementBytes) {
    case 1:
      return copyStrided(src, sizes, strides, dst);
    case 2:
      return copyStrided(reinterpret_cast<const uint16_t*>(src), sizes, strides, reinterpret_cast<uint16_t*>(dst));
    case 4:
      return copyStrided(reinterpret_cast<const uint32_t*>(src), sizes, strides, reinterpret_cast<uint32_t*>(dst));
    default:
      return copyStrided(reinterpret_cast<const uint64_t*>(src), sizes, strides, reinterpret_cast<uint64_t*>(dst));
  }
}

/// One packWeights a tap: the leading dims of the view walk over the taps.
Status packTaps(const uint8_t* src, ElementType type, ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides,
                uint8_t* dst) {
  size_t rank = sizes.size();
  recipe::PackedShape tap{1, sizes[rank - 2], sizes[rank - 1]};
  int64_t taps = 1, bytes = elementSize(type);
  for (int64_t size : sizes.drop_back(2)) taps *= size;
  for (int64_t t = 0; t < taps; ++t) {
    int64_t offset = 0, rest = t;
    for (size_t d = rank - 2; d-- > 0;) {
      offset += rest % sizes[d] * strides[d];
      rest /= sizes[d];
    }
    HPU_RETURN_IF_ERROR(recipe::packWeights(tap, type, src + offset * bytes, 0, strides[rank - 2], strides[rank - 1],
                                            dst + t * tap.elements() * bytes));
  }
  return okStatus();
}

}  // namespace

StatusOr<recipe::ConstantBlob> toConstant(sched::ConstantOp op, const std::shared_ptr<const void>& owner) {
  HPU_ASSIGN(interp::Tensor tensor, interp::tensorOf(op.getValue()));
  ArrayRef<int64_t> sizes = op.getSizes(), strides = op.getStrides();
  int64_t bytes = elementSize(tensor.element()), elements = 1;
  for (int64_t size : sizes) elements *= size;
  const uint8_t* src = tensor.data() + op.getStart() * bytes;
  recipe::ConstantBlob blob;
  blob.section = op.getSection();
  blob.offset = op.getOffset();
  if (!op.getPacked() && isDense(sizes, strides)) {
    struct Keep {
      interp::Tensor tensor;
      std::shared_ptr<const void> owner;
    };
    blob.data = src;
    blob.bytes = elements * bytes;
    blob.owner = std::make_shared<Keep>(Keep{tensor, owner});
    return blob;
  }
  if (op.getPacked()) {
    recipe::PackedShape shape{1, sizes[sizes.size() - 2], sizes.back()};
    for (int64_t size : sizes.drop_back(2)) shape.taps *= size;
    elements = shape.elements();
  }
  auto data = std::make_shared<std::vector<uint8_t>>(elements * bytes);
  if (op.getPacked())
    HPU_RETURN_IF_ERROR(packTaps(src, tensor.element(), sizes, strides, data->data()));
  else
    copyElements(src, bytes, sizes, strides, data->data());
  blob.data = data->data();
  blob.bytes = data->size();
  blob.owner = data;
  return blob;
}

}  // namespace hpu::emit
