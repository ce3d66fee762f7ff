// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/lowering/SectionMemory.h"

#include <algorithm>

#include "compose/Reinterpret.h"

namespace hpu::synapse {

namespace {

/// Booleans are bytes in memory.
ElementType storedAs(ElementType type) {
  return type == ElementType::kBool ? ElementType::kI8 : type;
}

}  // namespace

bool SectionMemory::isWritten(const SectionRange& range, size_t first) const {
  const auto begin = writes_.begin() + static_cast<std::ptrdiff_t>(std::min(first, writes_.size()));
  return std::any_of(begin, writes_.end(), [&](const Write& w) { return w.range.overlaps(range); });
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
  const size_t cover = lastCover(range);
  if (cover + 1 == writes_.size() && writes_[cover].range == range && e.type(writes_[cover].value) == type)
    return writes_[cover].value;
  // What is laid over one another has elements of one type at places of one grid, or is bytes.
  ElementType unit = type.element;
  for (size_t i = cover < writes_.size() ? cover : 0; i < writes_.size(); ++i) {
    const Write& w = writes_[i];
    const auto size = static_cast<uint64_t>(elementSize(unit));
    ElementType written = e.element(w.value);
    if (w.range.overlaps(range) && (storedAs(written) != unit || (w.range.begin - range.begin) % size != 0))
      unit = ElementType::kU8;
  }
  const auto size = static_cast<uint64_t>(elementSize(unit));
  auto flatten = [&](Value v) {
    v = e.cast(v, storedAs(e.element(v)));
    return compose::reinterpret(e, e.reshape(v, {numElements(e.shape(v))}), unit);
  };
  // Units [from, to) of a write's value.
  auto piece = [&](const Write& w, uint64_t from, uint64_t to) {
    return e.sliceDim(flatten(w.value), 0, static_cast<int64_t>((from - w.range.begin) / size),
                      static_cast<int64_t>((to - from) / size));
  };

  const auto count = static_cast<int64_t>((range.end - range.begin) / size);
  Value flat = cover < writes_.size() ? piece(writes_[cover], range.begin, range.end) : flatten(before);
  for (size_t i = cover < writes_.size() ? cover + 1 : 0; i < writes_.size(); ++i) {
    const Write& w = writes_[i];
    if (!w.range.overlaps(range)) continue;
    uint64_t from = std::max(w.range.begin, range.begin), to = std::min(w.range.end, range.end);
    auto low = static_cast<int64_t>((from - range.begin) / size),
         high = static_cast<int64_t>((to - range.begin) / size);
    flat = e.concat({e.sliceDim(flat, 0, 0, low), piece(w, from, to), e.sliceDim(flat, 0, high, count - high)}, 0);
  }
  return e.reshape(compose::reinterpret(e, flat, type.element), type.shape);
}

}  // namespace hpu::synapse
