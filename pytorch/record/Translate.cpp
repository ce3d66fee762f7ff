// SPDX-License-Identifier: Apache-2.0
#include "pytorch/record/Translate.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "compose/StridedViews.h"
#include "pytorch/record/Call.h"
#include "pytorch/record/Scope.h"

namespace hpu_torch {

using hpu::base::strCat;
using hpu::compose::Emitter;
using hpu::compose::View;

namespace {

/// The elements between the first and the last one of a tensor, both included; 0 for an empty one.
int64_t extentOf(const TensorMeta& meta) {
  int64_t last = 0;
  for (size_t d = 0; d < meta.sizes.size(); ++d) {
    if (meta.sizes[d] == 0) return 0;
    last += (meta.sizes[d] - 1) * meta.strides[d];
  }
  return last + 1;
}

/// Dims from the largest stride to the smallest, if the tensor has each of its elements once and without gaps.
bool denseOrder(const TensorMeta& meta, Ints& order) {
  order.resize(meta.sizes.size());
  std::iota(order.begin(), order.end(), 0);
  auto at = [](const auto& list, int64_t d) { return list[static_cast<size_t>(d)]; };
  // Dims of one element stay where they are: their strides say nothing.
  Ints longer, places;
  for (int64_t d : order)
    if (at(meta.sizes, d) != 1) longer.push_back(d);
  places = longer;
  std::stable_sort(longer.begin(), longer.end(),
                   [&](int64_t a, int64_t b) { return at(meta.strides, a) > at(meta.strides, b); });
  for (size_t i = 0; i < longer.size(); ++i) order[static_cast<size_t>(places[i])] = longer[i];
  int64_t expected = 1;
  for (size_t i = order.size(); i-- > 0;) {
    if (at(meta.sizes, order[i]) == 1) continue;
    if (at(meta.strides, order[i]) != expected) return false;
    expected *= at(meta.sizes, order[i]);
  }
  return true;
}

Ints inverseOf(const Ints& perm) {
  Ints result(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) result[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return result;
}
Shape permuted(const Shape& shape, const Ints& perm) {
  Shape result;
  for (int64_t d : perm) result.push_back(shape[static_cast<size_t>(d)]);
  return result;
}

/// A piece of a storage while the graph is made.
struct Piece {
  int storage = 0;
  int64_t begin = 0, end = 0;  ///< Elements.
  ElementType type = ElementType::kInvalid;
  bool isWritten = false;
  Value value;       ///< The last one, of the sizes of `view`; null before the first access.
  TensorMeta view;   ///< How `value` lies in the piece; rank 1 and dense for plain elements.
  int64_t base = 0;  ///< Where the view begins.
};

class Translation {
 public:
  Translation(const std::vector<Node>& nodes, const std::vector<Storage>& storages)
      : nodes_(nodes), storages_(storages) {}

  hpu::StatusOr<Translated> run() {
    makePieces();
    for (size_t n = 0; n < nodes_.size(); ++n) HPU_RETURN_IF_ERROR(node(n));
    Emitter e(result_.graph, "outputs");
    for (Piece& piece : pieces_) {
      if (!piece.isWritten || !storages_[static_cast<size_t>(piece.storage)].isAlive) continue;
      Value v = physical(e, piece);
      HPU_RETURN_IF_ERROR(e.status());
      HPU_RETURN_IF_ERROR(result_.graph.output(strCat("out", result_.outputs.size()), v));
      result_.outputs.push_back(bindingOf(piece));
    }
    return std::move(result_);
  }

 private:
  void makePieces() {
    struct Range {
      int storage;
      int64_t begin, end;
      ElementType type;
    };
    std::vector<Range> ranges;
    auto add = [&](const TensorMeta& meta, const Place& place) {
      const int64_t extent = extentOf(meta);
      if (place.storage < 0 || extent == 0) return;
      int64_t begin = place.offset, end = place.offset + extent;
      // A view with gaps is of the whole tensor, whose sizes say more than where the view begins and ends.
      const int64_t all = hpu::numElements(storages_[static_cast<size_t>(place.storage)].sizes);
      if (extent > hpu::numElements(meta.sizes) && !storages_[static_cast<size_t>(place.storage)].sizes.empty() &&
          end <= all) {
        begin = 0;
        end = all;
      }
      ranges.push_back({place.storage, begin, end, meta.type});
    };
    for (const Node& node : nodes_) {
      for (size_t i = 0; i < node.operands.size(); ++i) add(node.signature->operands[i], node.operands[i]);
      for (size_t i = 0; i < node.results.size(); ++i) add(node.signature->results[i].meta, node.results[i]);
    }
    std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
      return a.storage != b.storage ? a.storage < b.storage : a.begin < b.begin;
    });
    for (const Range& range : ranges) {
      if (!pieces_.empty() && pieces_.back().storage == range.storage && range.begin < pieces_.back().end) {
        pieces_.back().end = std::max(pieces_.back().end, range.end);
        continue;
      }
      Piece piece;
      piece.storage = range.storage;
      piece.begin = range.begin;
      piece.end = range.end;
      piece.type = range.type;
      index_[{range.storage, range.begin}] = pieces_.size();
      pieces_.push_back(piece);
    }
  }
  Piece& pieceAt(const Place& place) {
    return pieces_[std::prev(index_.upper_bound({place.storage, place.offset}))->second];
  }

  Binding bindingOf(const Piece& piece) const {
    Binding binding;
    binding.storage = piece.storage;
    binding.byteOffset = piece.begin * hpu::elementSize(piece.type);
    binding.type = piece.type;
    return binding;
  }

  Value input(Emitter& e, const hpu::TensorType& type, const Binding& binding) {
    auto value = result_.graph.input(strCat("in", result_.inputs.size()), type);
    if (!value.ok()) return e.failWith(value.status());
    result_.inputs.push_back(binding);
    return *value;
  }

  bool covers(const Piece& piece, const TensorMeta& meta, int64_t base) const {
    return base == 0 && hpu::numElements(meta.sizes) == piece.end - piece.begin;
  }

  /// The sizes of the tensor that a piece is all of; null where they are not known.
  const Shape* madeAs(const Piece& piece) const {
    const Shape& sizes = storages_[static_cast<size_t>(piece.storage)].sizes;
    const bool isAll = piece.begin == 0 && !sizes.empty() && hpu::numElements(sizes) == piece.end;
    return isAll ? &sizes : nullptr;
  }

  /// The piece's value in the order of memory.
  Value physical(Emitter& e, Piece& piece) {
    Ints order;
    denseOrder(piece.view, order);
    return e.transpose(piece.value, order);
  }
  /// As elements, of rank 1.
  void flatten(Emitter& e, Piece& piece) {
    const int64_t count = piece.end - piece.begin;
    if (!piece.value.handle) {
      const Shape* made = madeAs(piece);
      piece.value = e.reshape(input(e, {piece.type, made ? *made : Shape{count}}, bindingOf(piece)), {count});
    } else {
      piece.value = e.reshape(physical(e, piece), {count});
    }
    piece.view = {piece.type, {count}, {1}};
  }

  Value read(Emitter& e, const TensorMeta& meta, const Place& place) {
    if (extentOf(meta) == 0) return e.constant({meta.type, meta.sizes}, "", 0);
    Piece& piece = pieceAt(place);
    const int64_t base = place.offset - piece.begin;
    Ints order;
    const bool isWhole = covers(piece, meta, base) && denseOrder(meta, order);
    // Sizes that the view has joined are still seen in what its memory was made for.
    const Shape* made = madeAs(piece);
    if (!piece.value.handle && isWhole && (!made || made->size() <= meta.sizes.size())) {
      Value v = input(e, {piece.type, permuted(meta.sizes, order)}, bindingOf(piece));
      piece.value = e.transpose(v, inverseOf(order));
      piece.view = meta;
    }
    if (piece.value.handle && isWhole && piece.view == meta) return piece.value;
    flatten(e, piece);
    if (isWhole) return e.transpose(e.reshape(piece.value, permuted(meta.sizes, order)), inverseOf(order));
    return hpu::compose::readView(e, piece.value, View{meta.sizes, meta.strides, base});
  }

  void write(Emitter& e, const TensorMeta& meta, const Place& place, Value v) {
    if (extentOf(meta) == 0 || !v.handle) return;
    Piece& piece = pieceAt(place);
    const int64_t base = place.offset - piece.begin;
    piece.isWritten = true;
    Ints order;
    if (covers(piece, meta, base) && denseOrder(meta, order)) {
      piece.value = v;
      piece.view = meta;
      return;
    }
    flatten(e, piece);
    piece.value = hpu::compose::writeView(e, piece.value, v, View{meta.sizes, meta.strides, base});
  }

  hpu::Status node(size_t n) {
    const Node& node = nodes_[n];
    const Signature& signature = *node.signature;
    std::map<int, Value> numbers;
    Call* self = nullptr;
    Call::Source source;
    source.read = [&](int operand) {
      const auto i = static_cast<size_t>(operand);
      return read(*self, signature.operands[i], node.operands[i]);
    };
    source.number = [&](int number) {
      Value& value = numbers[number];
      Binding binding;
      binding.node = static_cast<int>(n);
      binding.number = number;
      binding.type = signature.isRealNumber[static_cast<size_t>(number)] ? ElementType::kF32 : ElementType::kI64;
      if (!value.handle) value = input(*self, {binding.type, {}}, binding);
      return value;
    };
    Call call(result_.graph, signature, source, node.scope ? scopeName(node.scope) + "/" + signature.name : "");
    self = &call;
    signature.row->function(call);
    for (size_t k = 0; k < call.outs().size(); ++k)
      if (signature.results[k].isDefined) write(call, signature.results[k].meta, node.results[k], call.outs()[k]);
    for (auto [operand, value] : call.writes())
      write(call, signature.operands[static_cast<size_t>(operand)], node.operands[static_cast<size_t>(operand)], value);
    if (call.ok()) return hpu::okStatus();
    return hpu::Status(call.status().code(), signature.text() + ": " + std::string(call.status().message()));
  }

  const std::vector<Node>& nodes_;
  const std::vector<Storage>& storages_;
  std::vector<Piece> pieces_;
  std::map<std::pair<int, int64_t>, size_t> index_;
  Translated result_;
};

}  // namespace

std::vector<int64_t> denseStrides(const hpu::Shape& sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= std::max<int64_t>(sizes[d], 1);
  }
  return strides;
}

hpu::StatusOr<Translated> translate(const std::vector<Node>& nodes, const std::vector<Storage>& storages) {
  return Translation(nodes, storages).run();
}

hpu::Status infer(Signature& signature) {
  hpu::Graph graph("inference");
  Call* self = nullptr;
  int inputs = 0;
  std::map<int, Value> values, numbers;
  auto input = [&](Value& value, const hpu::TensorType& type) {
    if (value.handle) return value;
    auto made = graph.input(strCat("in", inputs++), type);
    if (!made.ok()) return self->failWith(made.status());
    return value = *made;
  };
  Call::Source source;
  source.read = [&](int operand) {
    const TensorMeta& meta = signature.operands[static_cast<size_t>(operand)];
    return input(values[operand], {meta.type, meta.sizes});
  };
  source.number = [&](int number) {
    return input(numbers[number],
                 {signature.isRealNumber[static_cast<size_t>(number)] ? ElementType::kF32 : ElementType::kI64, {}});
  };
  Call call(graph, signature, source);
  self = &call;
  signature.row->function(call);
  HPU_RETURN_IF_ERROR(call.status());
  for (size_t k = 0; k < signature.results.size(); ++k) {
    ResultMeta& result = signature.results[k];
    const Value v = call.outs()[k];
    if (result.meta.type == ElementType::kInvalid) {
      result.isDefined = v.handle != nullptr;
      if (!result.isDefined) continue;
      result.meta = {call.element(v), call.shape(v), denseStrides(call.shape(v))};
    } else if (result.isDefined) {
      if (!v.handle) return hpu::unimplemented(strCat("result ", k, " is not computed"));
      if (call.shape(v) != result.meta.sizes)
        return hpu::unimplemented(strCat("result ", k, " has the sizes ", hpu::shapeToString(call.shape(v)),
                                         ", PyTorch's has ", hpu::shapeToString(result.meta.sizes)));
    }
  }
  return hpu::okStatus();
}

}  // namespace hpu_torch
