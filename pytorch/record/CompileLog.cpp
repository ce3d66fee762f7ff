// SPDX-License-Identifier: Apache-2.0
#include "pytorch/record/CompileLog.h"

#include <deque>
#include <mutex>

#include "pytorch/record/Programs.h"

namespace hpu_torch {
namespace {

/// What was compiled, and how it differs from the compilation before it that is most like it.
class CompileLog {
 public:
  void add(const std::vector<Node>& nodes, const std::string& why, bool isFree, int64_t ns) {
    std::lock_guard<std::mutex> lock(mutex_);
    CompileRecord record{describe(nodes), difference(nodes), isFree, static_cast<int64_t>(nodes.size()), ns};
    if (!why.empty()) record.why += "; sizes are not shared: " + why;
    records_.push_back(std::move(record));
    if (records_.size() > 256) records_.pop_front();
    graphs_.push_back(nodes);
    if (graphs_.size() > 64) graphs_.pop_front();
  }
  std::vector<CompileRecord> records() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return {records_.begin(), records_.end()};
  }

 private:
  /// The first of the nodes that are not the same: in how many nodes, and what of it.
  std::string difference(const std::vector<Node>& nodes) const {
    size_t best = 0;
    const std::vector<Node>* nearest = nullptr;
    for (const std::vector<Node>& other : graphs_) {
      size_t same = 0;
      while (same < nodes.size() && same < other.size() && isAlike(*nodes[same].signature, *other[same].signature))
        ++same;
      if (same > best || (same == best && nearest && other.size() == nodes.size())) best = same, nearest = &other;
    }
    if (!nearest || best == 0) return "nothing like it was compiled before";
    for (size_t n = 0; n < best; ++n)
      if (const std::string what = differenceOf(*nodes[n].signature, *(*nearest)[n].signature); !what.empty())
        return "op " + std::to_string(n) + ", " + nodes[n].signature->text() + ": " + what;
    if (best < nodes.size() && best < nearest->size())
      return "op " + std::to_string(best) + " is " + nodes[best].signature->text() + ", and was " +
             (*nearest)[best].signature->name;
    if (nodes.size() != nearest->size())
      return std::to_string(nodes.size()) + " ops, and were " + std::to_string(nearest->size());
    return "other tensors share memory, or outlive the graph";
  }
  static bool isAlike(const Signature& a, const Signature& b) { return a.name == b.name; }
  static std::string differenceOf(const Signature& a, const Signature& b) {
    if (&a == &b) return "";
    for (size_t i = 0; i < a.operands.size() && i < b.operands.size(); ++i) {
      const TensorMeta &one = a.operands[i], &other = b.operands[i];
      const std::string which = "operand " + std::to_string(i);
      if (one.type != other.type)
        return which + " is " + std::string(hpu::elementTypeName(one.type)) + ", and was " +
               std::string(hpu::elementTypeName(other.type));
      if (one.sizes.size() != other.sizes.size())
        return which + " has " + std::to_string(one.sizes.size()) + " dimensions, and had " +
               std::to_string(other.sizes.size());
      for (size_t d = 0; d < one.sizes.size(); ++d)
        if (one.sizes[d] != other.sizes[d])
          return "dimension " + std::to_string(d) + " of " + which + " is " + std::to_string(one.sizes[d]) +
                 ", and was " + std::to_string(other.sizes[d]);
      if (one.strides != other.strides) return which + " has other strides";
    }
    for (size_t i = 0; i < a.arguments.size() && i < b.arguments.size(); ++i) {
      const Argument &one = a.arguments[i], &other = b.arguments[i];
      const std::string which = "argument " + std::to_string(i);
      if (one.kind != other.kind || one.operands.size() != other.operands.size() || one.number != other.number)
        return which + " is of another kind";
      if (one.number < 0 && (one.real != other.real || one.integer != other.integer))
        return which + " is " + (one.isReal ? std::to_string(one.real) : std::to_string(one.integer)) + ", and was " +
               (one.isReal ? std::to_string(other.real) : std::to_string(other.integer));
      if (one.integers != other.integers || one.reals != other.reals) return which + " has other numbers";
      if (one.text != other.text || one.type != other.type) return which + " is another one";
    }
    return "";
  }

  mutable std::mutex mutex_;
  std::deque<CompileRecord> records_;
  std::deque<std::vector<Node>> graphs_;
};
CompileLog& compileLog() {
  static CompileLog& log = *new CompileLog;
  return log;
}

}  // namespace

void logCompile(const std::vector<Node>& nodes, const std::string& why, bool isFree, int64_t ns) {
  compileLog().add(nodes, why, isFree, ns);
}
std::vector<CompileRecord> compileRecords() {
  return compileLog().records();
}

}  // namespace hpu_torch
