// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/OnnxOutline.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace hpu::importer {
namespace {

/// Nested subgraphs beyond this are no real model.
constexpr int kMostDepth = 64;

struct Field {
  uint32_t number = 0;
  uint32_t wire = 0;
  uint64_t value = 0;  ///< Of a varint.
  std::string_view bytes;
};

/// The fields of one message, one after another.
class Message {
 public:
  explicit Message(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  /// False at the end and at what is malformed; `bad` tells which.
  bool next(Field& field) {
    if (at_ == end_) return false;
    uint64_t tag = 0;
    if (!varint(tag)) return false;
    field.number = static_cast<uint32_t>(tag >> 3);
    field.wire = static_cast<uint32_t>(tag & 7);
    field.bytes = {};
    switch (field.wire) {
      case 0:
        return varint(field.value);
      case 1:
        return skip(8);
      case 5:
        return skip(4);
      case 2: {
        uint64_t size = 0;
        if (!varint(size)) return false;
        const char* begin = at_;
        if (!skip(size)) return false;
        field.bytes = {begin, static_cast<size_t>(size)};
        return true;
      }
      default:
        bad_ = true;
        return false;
    }
  }
  bool bad() const { return bad_; }

 private:
  bool varint(uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && at_ != end_; shift += 7) {
      auto byte = static_cast<uint8_t>(*at_++);
      value |= uint64_t{byte & 0x7fu} << shift;
      if (!(byte & 0x80)) return true;
    }
    bad_ = true;
    return false;
  }
  bool skip(uint64_t bytes) {
    if (bytes > static_cast<uint64_t>(end_ - at_)) {
      bad_ = true;
      return false;
    }
    at_ += bytes;
    return true;
  }

  const char* at_;
  const char* end_;
  bool bad_ = false;
};

/// Numbers of fields are those of onnx.proto.
class Walker {
 public:
  OnnxOutline run(std::string_view model) {
    Message message(model);
    Field field;
    while (message.next(field)) {
      if (field.number == 7) graph(field.bytes, 0);        // ModelProto.graph
      if (field.number == 25) nodesOf(field.bytes, 7, 0);  // ModelProto.functions: FunctionProto.node
    }
    outline_.complete = !message.bad() && !bad_;
    outline_.externalFiles.assign(files_.begin(), files_.end());
    for (OutlineInput& input : inputs_) {
      if (initializers_.count(input.name)) continue;
      outline_.freeInputs |= !input.isTensor || !input.hasShape;
      for (const OutlineDim& dim : input.dims) outline_.freeInputs |= dim.size == 0;
      outline_.inputs.push_back(std::move(input));
    }
    return outline_;
  }

 private:
  template <typename Visit>
  void each(std::string_view bytes, const Visit& visit) {
    Message message(bytes);
    Field field;
    while (message.next(field)) visit(field);
    bad_ |= message.bad();
  }

  void graph(std::string_view bytes, int depth) {
    if (depth > kMostDepth) return;
    each(bytes, [&](const Field& field) {
      if (field.number == 1) node(field.bytes, depth);
      if (field.number == 5) tensor(field.bytes, depth == 0);
      if (field.number == 15) sparse(field.bytes);
      if (field.number == 11 && depth == 0) input(field.bytes);
    });
  }
  void nodesOf(std::string_view bytes, uint32_t number, int depth) {
    each(bytes, [&](const Field& field) {
      if (field.number == number) node(field.bytes, depth);
    });
  }
  void node(std::string_view bytes, int depth) {
    each(bytes, [&](const Field& field) {
      if (field.number == 5) attribute(field.bytes, depth);
    });
  }
  void attribute(std::string_view bytes, int depth) {
    each(bytes, [&](const Field& field) {
      if (field.number == 5 || field.number == 10) tensor(field.bytes, false);
      if (field.number == 6 || field.number == 11) graph(field.bytes, depth + 1);
      if (field.number == 22 || field.number == 23) sparse(field.bytes);
    });
  }
  void sparse(std::string_view bytes) {
    each(bytes, [&](const Field& field) {
      if (field.number == 1 || field.number == 2) tensor(field.bytes, false);
    });
  }
  void tensor(std::string_view bytes, bool initializer) {
    each(bytes, [&](const Field& field) {
      if (field.number == 8 && initializer) initializers_.insert(std::string(field.bytes));
      if (field.number != 13) return;
      std::string_view key, value;
      each(field.bytes, [&](const Field& entry) {
        if (entry.number == 1) key = entry.bytes;
        if (entry.number == 2) value = entry.bytes;
      });
      if (key == "location") files_.insert(std::string(value));
    });
  }

  void input(std::string_view bytes) {
    OutlineInput found;
    each(bytes, [&](const Field& field) {
      if (field.number == 1) found.name = std::string(field.bytes);
      if (field.number != 2) return;
      each(field.bytes, [&](const Field& type) {
        if (type.number != 1) return;  // TypeProto.tensor_type
        found.isTensor = true;
        each(type.bytes, [&](const Field& part) {
          if (part.number == 1) found.dataType = static_cast<int32_t>(part.value);
          if (part.number != 2) return;  // shape
          found.hasShape = true;
          each(part.bytes, [&](const Field& dim) {
            if (dim.number != 1) return;
            OutlineDim& size = found.dims.emplace_back();
            each(dim.bytes, [&](const Field& part) {
              if (part.number == 1) size.size = std::max<int64_t>(static_cast<int64_t>(part.value), 0);
              if (part.number == 2) size.symbol = std::string(part.bytes);
            });
          });
        });
      });
    });
    inputs_.push_back(std::move(found));
  }

  OnnxOutline outline_;
  std::set<std::string> files_, initializers_;
  std::vector<OutlineInput> inputs_;
  bool bad_ = false;
};

}  // namespace

OnnxOutline outlineOnnx(const uint8_t* data, size_t bytes) {
  return Walker().run({reinterpret_cast<const char*>(data), bytes});
}

}  // namespace hpu::importer
