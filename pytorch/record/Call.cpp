// SPDX-License-Identifier: Apache-2.0
#include "pytorch/record/Call.h"

#include <algorithm>

#include "base/Format.h"
#include "pytorch/record/TargetScope.h"

namespace hpu_torch {

using hpu::base::strCat;
using Kind = Argument::Kind;

std::string Signature::text() const {
  std::string text = name + "(";
  for (size_t i = 0; i < operands.size(); ++i) {
    text += (i ? ", " : "") + std::string(hpu::elementTypeName(operands[i].type)) + "[";
    for (size_t d = 0; d < operands[i].sizes.size(); ++d) text += strCat(d ? ", " : "", operands[i].sizes[d]);
    text += "]";
  }
  return text + ")" + (where.empty() ? "" : ", called at " + where);
}

namespace {
thread_local hpu::Target t_target = hpu::Target::kGaudi2;
}  // namespace

TargetScope::TargetScope(hpu::Target target) : before_(t_target) {
  t_target = target;
}
TargetScope::~TargetScope() {
  t_target = before_;
}
hpu::Target TargetScope::current() {
  return t_target;
}

Call::Call(hpu::Graph& graph, const Signature& signature, Source source, std::string name)
    : Emitter(graph, name.empty() ? signature.name : std::move(name)),
      signature_(signature),
      source_(std::move(source)),
      outs_(signature.results.size()) {}

const Argument& Call::argument(size_t i) {
  static const Argument& none = *new Argument;
  if (i < size()) return signature_.arguments[i];
  fail(strCat("it has no argument ", i));
  return none;
}

Value Call::in(size_t i) {
  const Argument& a = argument(i);
  if (!ok()) return {};
  if (a.kind == Kind::kTensor) return source_.read(a.operands[0]);
  if (a.kind == Kind::kNumber && a.number >= 0) return source_.number(a.number);
  if (a.kind == Kind::kNumber) {
    if (a.isReal) return scalar(a.real, ElementType::kF32);
    return constant({ElementType::kI64, {}}, &a.integer, sizeof a.integer);
  }
  if (a.kind == Kind::kReal) return scalar(a.real, ElementType::kF32);
  return fail(strCat("argument ", i, " is no tensor"));
}

std::vector<Value> Call::list(size_t i) {
  std::vector<Value> values;
  const Argument& a = argument(i);
  if (a.kind != Kind::kTensors) fail(strCat("argument ", i, " is no list of tensors"));
  for (int operand : a.operands) values.push_back(operand < 0 || !ok() ? Value{} : source_.read(operand));
  return values;
}

bool Call::hasMember(size_t i, size_t member) const {
  return i < size() && member < signature_.arguments[i].operands.size() &&
         signature_.arguments[i].operands[member] >= 0;
}

const TensorMeta& Call::meta(size_t i) {
  static const TensorMeta& none = *new TensorMeta;
  const Argument& a = argument(i);
  if (a.kind == Kind::kTensor) return signature_.operands[static_cast<size_t>(a.operands[0])];
  fail(strCat("argument ", i, " is no tensor"));
  return none;
}

int64_t Call::integer(size_t i) {
  const Argument& a = argument(i);
  if (a.kind == Kind::kNumber && a.isReal) return static_cast<int64_t>(a.real);
  return a.integer;
}
double Call::real(size_t i) {
  const Argument& a = argument(i);
  bool isInteger = a.kind == Kind::kInt || a.kind == Kind::kBool || (a.kind == Kind::kNumber && !a.isReal);
  return isInteger ? static_cast<double>(a.integer) : a.real;
}
Ints Call::ints(size_t i, size_t count) {
  Ints list = argument(i).integers;
  if (count > 0 && list.size() == 1) list.resize(count, list[0]);
  return list;
}
std::string_view Call::text(size_t i) {
  return argument(i).text;
}
int64_t Call::dimension(size_t i, int64_t rank) {
  int64_t d = integer(i);
  return d < 0 ? d + std::max<int64_t>(rank, 1) : d;
}
Ints Call::dimensions(size_t i, int64_t rank) {
  Ints dims = has(i) ? argument(i).integers : Ints();
  if (has(i) && argument(i).kind == Kind::kInt) dims = {argument(i).integer};
  if (dims.empty())
    for (int64_t d = 0; d < rank; ++d) dims.push_back(d);
  for (int64_t& d : dims) d += d < 0 ? rank : 0;
  std::sort(dims.begin(), dims.end());
  if (rank == 0) dims.clear();
  return dims;
}
bool Call::isFixed(size_t i, double value) const {
  if (i >= size()) return false;
  const Argument& a = signature_.arguments[i];
  return a.kind == Kind::kNumber && a.number < 0 && (a.isReal ? a.real : static_cast<double>(a.integer)) == value;
}

ElementType Call::outType(size_t k) const {
  return k < signature_.results.size() ? signature_.results[k].meta.type : ElementType::kInvalid;
}

Value Call::fitted(Value v, const TensorMeta& meta) {
  if (!v.handle || meta.type == ElementType::kInvalid) return v;
  // Floats become narrow integers as on the CPU: the low bits of a wider integer. (hpu.cast gives the nearest.)
  if (hpu::compose::isFloat(element(v)) && hpu::compose::isInteger(meta.type) && hpu::elementSize(meta.type) < 4)
    v = cast(v, ElementType::kI32);
  v = cast(v, meta.type);
  return shape(v) == meta.sizes ? v : expand(v, meta.sizes);
}

void Call::out(size_t k, Value v, ElementType otherwise) {
  if (k >= outs_.size()) return (void)fail(strCat("it has no result ", k));
  if (otherwise != ElementType::kInvalid && outType(k) == ElementType::kInvalid) v = cast(v, otherwise);
  outs_[k] = fitted(v, signature_.results[k].meta);
}

void Call::write(size_t i, Value v) {
  const Argument& a = argument(i);
  if (a.kind != Kind::kTensor) return (void)fail(strCat("argument ", i, " is no tensor"));
  writes_.emplace_back(a.operands[0], fitted(v, signature_.operands[static_cast<size_t>(a.operands[0])]));
}

void Call::writeMember(size_t i, size_t member, Value v) {
  const int operand = argument(i).operands.at(member);
  writes_.emplace_back(operand, fitted(v, signature_.operands[static_cast<size_t>(operand)]));
}

}  // namespace hpu_torch
