// SPDX-License-Identifier: Apache-2.0
// The host's code of kernels that select boxes (hpu.select_boxes): an object by itself, as OrderCode.cpp.
// The one thing to know: each box is compared with the chosen ones alone, which lie in scratch memory; those that do
// not fit are read again.
#include "compiler/kernels/BoxesCode.h"

#include "hpu/kernel.h"

namespace {

using namespace hpu::kernels::boxes;

/// So many chosen boxes are in scratch memory, as five rows of numbers.
constexpr int64_t kRoom = kScratchBytes / 20;
constexpr int64_t kBlock = 16;

float floatOf(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

float halfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16, exponent = half >> 10 & 31, mantissa = half & 0x3ff;
  if (exponent == 31) return floatOf(sign | 0x7f800000 | mantissa << 13);
  if (exponent != 0) return floatOf(sign | (exponent + 112) << 23 | mantissa << 13);
  const float value = static_cast<float>(mantissa) * floatOf(0x33800000);  // 2^-24.
  return sign ? -value : value;
}

struct View {
  const char* data = nullptr;
  Kind kind = Kind::kNone;
  int64_t strides[3] = {};
  float at(int64_t offset) const {
    if (kind == Kind::kFloat32) return reinterpret_cast<const float*>(data)[offset];
    const uint16_t bits = reinterpret_cast<const uint16_t*>(data)[offset];
    return kind == Kind::kBfloat ? floatOf(static_cast<uint32_t>(bits) << 16) : halfToFloat(bits);
  }
};

View viewOf(const HpuKernelArgs* args, Number place) {
  const int64_t* part = args->dims + place;
  View view;
  view.kind = static_cast<Kind>(part[kKind]);
  if (part[kOperand] >= 0) view.data = static_cast<const char*>(args->buffers[part[kOperand]]);
  for (int k = 0; k < 3; ++k) view.strides[k] = part[kStride0 + k];
  return view;
}

/// Ends along x and y, and the area; NaN of what has one.
struct Box {
  float lowX, lowY, highX, highY, area;
};

Box boxOf(const View& boxes, int64_t offset, bool centred) {
  float edge[4];
  bool isNan = false;
  for (int k = 0; k < 4; ++k) {
    edge[k] = boxes.at(offset + k * boxes.strides[2]);
    isNan |= edge[k] != edge[k];
  }
  Box box;
  if (centred) {
    const float halfX = edge[2] * 0.5F, halfY = edge[3] * 0.5F;
    box.lowX = edge[0] - halfX, box.highX = edge[0] + halfX;
    box.lowY = edge[1] - halfY, box.highY = edge[1] + halfY;
  } else {
    box.lowX = edge[1] < edge[3] ? edge[1] : edge[3], box.highX = edge[1] < edge[3] ? edge[3] : edge[1];
    box.lowY = edge[0] < edge[2] ? edge[0] : edge[2], box.highY = edge[0] < edge[2] ? edge[2] : edge[0];
  }
  box.area = isNan ? __builtin_nanf("") : (box.highX - box.lowX) * (box.highY - box.lowY);
  return box;
}

/// Whether they share more than `limit` of what both cover; as a number, so that loops over boxes need no branches.
inline int overlaps(float lowX, float lowY, float highX, float highY, float area, const Box& box, float limit) {
  float width = (highX < box.highX ? highX : box.highX) - (lowX > box.lowX ? lowX : box.lowX);
  float height = (highY < box.highY ? highY : box.highY) - (lowY > box.lowY ? lowY : box.lowY);
  width = width > 0 ? width : 0;
  height = height > 0 ? height : 0;
  const float both = width * height;
  return static_cast<int>(both > 0) & static_cast<int>(both / (area + box.area - both) > limit);
}

}  // namespace

extern "C" void hpu_select_boxes(const HpuKernelArgs* args) {
  const int64_t count = args->dims[kCount];
  const bool centred = args->dims[kCentred] != 0;
  const View boxes = viewOf(args, kBoxes), scores = viewOf(args, kScores), order = viewOf(args, kOrder);
  const View threshold = viewOf(args, kThreshold), result = viewOf(args, kResult);
  const int64_t most = *reinterpret_cast<const int64_t*>(viewOf(args, kMost).data);
  const float limit = viewOf(args, kOverlap).at(0);
  const bool hasThreshold = threshold.kind != Kind::kNone;
  const float least = hasThreshold ? threshold.at(0) : 0;
  auto* const room = static_cast<float*>(args->scratch);
  float *const lowX = room, *const lowY = room + kRoom, *const highX = room + 2 * kRoom,
               *const highY = room + 3 * kRoom, *const area = room + 4 * kRoom;
  for (int64_t batch = args->lo[0]; batch < args->hi[0]; ++batch)
    for (int64_t kind = args->lo[1]; kind < args->hi[1]; ++kind) {
      const int64_t boxesAt = batch * boxes.strides[0];
      const int64_t scoresAt = batch * scores.strides[0] + kind * scores.strides[1];
      const auto* const own =
          reinterpret_cast<const int64_t*>(order.data) + batch * order.strides[0] + kind * order.strides[1];
      auto* const out = reinterpret_cast<int64_t*>(const_cast<char*>(result.data)) + batch * result.strides[0] +
                        kind * result.strides[1];
      int64_t chosen = 0;
      for (int64_t i = 0; i < count && chosen < most; ++i) {
        int64_t index = own[i * order.strides[2]];
        index = index < 0 ? 0 : index < count ? index : count - 1;
        if (hasThreshold && !(scores.at(scoresAt + index * scores.strides[2]) > least)) continue;
        const Box box = boxOf(boxes, boxesAt + index * boxes.strides[1], centred);
        int any = 0;
        const int64_t kept = chosen < kRoom ? chosen : kRoom;
        for (int64_t first = 0; first < kept && !any; first += kBlock) {
          if (first + kBlock <= kept) {
            for (int64_t k = first; k < first + kBlock; ++k)
              any |= overlaps(lowX[k], lowY[k], highX[k], highY[k], area[k], box, limit);
          } else {
            for (int64_t k = first; k < kept; ++k)
              any |= overlaps(lowX[k], lowY[k], highX[k], highY[k], area[k], box, limit);
          }
        }
        for (int64_t k = kRoom; k < chosen && !any; ++k) {
          const Box other = boxOf(boxes, boxesAt + out[k * result.strides[2]] * boxes.strides[1], centred);
          any = overlaps(other.lowX, other.lowY, other.highX, other.highY, other.area, box, limit);
        }
        if (any) continue;
        if (chosen < kRoom) {
          lowX[chosen] = box.lowX, lowY[chosen] = box.lowY;
          highX[chosen] = box.highX, highY[chosen] = box.highY;
          area[chosen] = box.area;
        }
        out[chosen++ * result.strides[2]] = index;
      }
      for (int64_t k = chosen; k < count; ++k) out[k * result.strides[2]] = -1;
    }
}
