// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/lowering/SectionMemory.h"

#include <algorithm>

#include "base/Format.h"

namespace hpu::synapse {

using base::strCat;

bool SectionMemory::isWritten(const SectionRange& range) const {
  return std::any_of(writes_.begin(), writes_.end(), [&](const Write& w) { return w.range.overlaps(range); });
}

size_t SectionMemory::lastCover(const SectionRange& range) const {
  for (size_t i = writes_.size(); i-- > 0;) {
    const SectionRange& w = writes_[i].range;
    if (w.section == range.section && w.begin <= range.begin && w.end >= range.end) return i;
  }
  return writes_.size();
}

bool SectionMemory::isCovered(const SectionRange& range) const {
  return lastCover(range) < writes_.size();
}

Value SectionMemory::read(Emitter& e, const SectionRange& range, const TensorType& type, Value before) const {
  auto elements = static_cast<uint64_t>(elementSize(type.element));
  // Elements [from, to) of a write's value, as a flat tensor of the reader's element type.
  auto piece = [&](const Write& w, uint64_t from, uint64_t to) -> Value {
    TensorType written = e.type(w.value);
    Value value = w.value;
    if (written.element == ElementType::kBool) value = e.cast(value, ElementType::kI8);
    if (e.element(value) != type.element || (from - w.range.begin) % elements || (to - from) % elements ||
        (from - range.begin) % elements)
      return e.unsupported(strCat("reads bytes ", from, " to ", to, " of a section as ", elementTypeName(type.element),
                                  ", which an earlier node wrote as ", elementTypeName(written.element)));
    value = e.reshape(value, {numElements(written.shape)});
    return e.sliceDim(value, 0, static_cast<int64_t>((from - w.range.begin) / elements),
                      static_cast<int64_t>((to - from) / elements));
  };

  size_t first = lastCover(range);
  int64_t count = numElements(type.shape);
  Value flat;
  if (first < writes_.size()) {
    if (writes_[first].range == range && e.type(writes_[first].value) == type && first + 1 == writes_.size())
      return writes_[first].value;
    flat = piece(writes_[first], range.begin, range.end);
    ++first;
  } else {
    flat = e.reshape(before, {count});
    first = 0;
  }
  for (size_t i = first; i < writes_.size(); ++i) {
    const Write& w = writes_[i];
    if (!w.range.overlaps(range)) continue;
    uint64_t from = std::max(w.range.begin, range.begin), to = std::min(w.range.end, range.end);
    auto low = static_cast<int64_t>((from - range.begin) / elements),
         high = static_cast<int64_t>((to - range.begin) / elements);
    flat = e.concat({e.sliceDim(flat, 0, 0, low), piece(w, from, to), e.sliceDim(flat, 0, high, count - high)}, 0);
  }
  return e.reshape(flat, type.shape);
}

}  // namespace hpu::synapse
