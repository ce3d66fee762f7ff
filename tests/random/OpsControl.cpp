// SPDX-License-Identifier: Apache-2.0
// Control flow, sequences and functions. What a loop, a branch or a sequence computes is made as plain nodes first, so
// that references and errors are those of plain nodes; then these get a disguise.
#include <algorithm>
#include <cstring>

#include "tests/random/Builder.h"
#include "tests/random/Elements.h"

namespace hpu::randomtest {
namespace {

const Local kExact{.ulps = 0};
const ElementType kI64 = ElementType::kI64;

HostTensor whole(ElementType type, int64_t value) {
  HostTensor tensor;
  tensor.type = {type, {}};
  tensor.bytes.resize(static_cast<size_t>(tensor.type.bytes()));
  setNumber(tensor, 0, static_cast<double>(value));
  return tensor;
}

bool emitOne(Builder& b, std::string& name, const std::string& op, const std::vector<std::string>& inputs,
             const Local& local, const Attributes& attributes = {}) {
  if (!b.emit(op, inputs, local, attributes)) return false;
  name = b.last()[0];
  return true;
}

/// The nodes from `first` on, without those of constants, which stay where they are.
std::vector<Node> takeFrom(Builder& b, size_t first) {
  std::vector<Node> taken, kept;
  for (size_t i = first; i < b.model.nodes.size(); ++i)
    (b.model.nodes[i].op == "Constant" ? kept : taken).push_back(b.model.nodes[i]);
  b.model.nodes.resize(first);
  b.model.nodes.insert(b.model.nodes.end(), kept.begin(), kept.end());
  return taken;
}

/// What nodes read and do not make.
std::vector<std::string> readOutside(const std::vector<Node>& nodes) {
  std::set<std::string> made{""};
  std::vector<std::string> read;
  for (const Node& node : nodes) {
    for (const std::string& name : node.inputs)
      if (!made.count(name) && std::find(read.begin(), read.end(), name) == read.end()) read.push_back(name);
    made.insert(node.outputs.begin(), node.outputs.end());
  }
  return read;
}

void rename(std::vector<Node>& nodes, const std::map<std::string, std::string>& names) {
  for (Node& node : nodes)
    for (auto* list : {&node.inputs, &node.outputs})
      for (std::string& name : *list)
        if (auto found = names.find(name); found != names.end()) name = found->second;
}

/// Adds `written` in place of the plain nodes, with what both read, and the results `outputs`. `inBodies`: what only
/// the bodies of what is written read.
void disguise(Builder& b, const std::string& op, std::vector<Node> plain, std::vector<Node> written,
              const std::vector<std::string>& outputs, const std::vector<std::string>& inBodies = {},
              std::map<std::string, BodyPtr> functions = {}) {
  Node node{op, readOutside(plain), outputs, {}};
  std::vector<std::string> more = readOutside(written);
  more.insert(more.end(), inBodies.begin(), inBodies.end());
  for (const std::string& name : more)
    if (std::find(node.inputs.begin(), node.inputs.end(), name) == node.inputs.end()) node.inputs.push_back(name);
  node.disguise = std::make_shared<Disguise>(Disguise{std::move(plain), std::move(written), std::move(functions)});
  b.model.nodes.push_back(std::move(node));
}

// ---- Loops ----------------------------------------------------------------------------------------------------------

/// One op of an iteration: it keeps the shape and the type of the state.
struct Step {
  std::string op, other;  ///< The second operand; "": none.
  bool isSwapped = false;
};

Local accuracyOf(const std::string& op) {
  if (op == "Sigmoid") return {.ulps = 5, .tiny = 4e-39};
  if (op == "Tanh") return {.ulps = 5};
  if (op == "MatMul") return {.ulps = 1, .sums = true};
  return {.ulps = op == "Add" || op == "Sub" || op == "Mul" ? 1.0 : 0.0};
}

std::vector<Step> drawSteps(Builder& b, const std::string& state, bool hasRow, const std::string& row) {
  const ElementType type = b.element(state);
  const bool floats = isFloat(type);
  std::vector<Step> steps;
  if (hasRow)
    steps.push_back({b.rng.pick(std::vector<std::string>{"Add", "Mul", "Max", "Sub"}), row, b.rng.chance(0.3)});
  for (int64_t more = b.rng.between(1, 3); more > 0; --more) {
    std::vector<std::string> ops = {"Add", "Sub", "Mul", "Max", "Min", "Neg", "Identity"};
    if (floats) ops.insert(ops.end(), {"Tanh", "Sigmoid", "Relu", "Abs"});
    if (floats && b.rank(state) == 2) ops.insert(ops.end(), {"MatMul", "MatMul"});
    Step step{b.rng.pick(ops), "", b.rng.chance(0.2)};
    if (step.op == "MatMul") {
      const int64_t width = b.shape(state)[1];
      if (width > 32) continue;
      step.other = b.weight(type, {width, width});
      step.isSwapped = false;
    } else if (accuracyOf(step.op).ulps > 0 || step.op == "Max" || step.op == "Min") {
      if (step.op != "Tanh" && step.op != "Sigmoid") {
        Shape shape = b.shape(state);
        for (int64_t& size : shape)
          if (b.rng.chance(0.2)) size = 1;
        step.other = b.rng.chance(0.2) ? b.scalar(type, 0.5) : b.operand(type, shape, Numbers::kPlain);
        // In the body the state has another name than what it begins with.
        if (step.other == state) step.other = b.input(b.draw(type, shape, Numbers::kPlain));
      }
    }
    steps.push_back(step);
  }
  return steps;
}

/// One iteration on `state`, whose name it moves on; false when a node of it was not made.
bool iterate(Builder& b, const std::vector<Step>& steps, std::string& state, const std::string& row,
             const std::string& rowNow) {
  for (const Step& step : steps) {
    std::vector<std::string> inputs = {state};
    if (!step.other.empty()) inputs.push_back(step.other == row ? rowNow : step.other);
    if (step.isSwapped && inputs.size() == 2) std::swap(inputs[0], inputs[1]);
    if (!emitOne(b, state, step.op, inputs, accuracyOf(step.op))) return false;
  }
  return true;
}

/// The tensors one above the other along a new first dim.
bool stack(Builder& b, std::string& name, const std::vector<std::string>& rows) {
  std::vector<std::string> parts;
  for (std::string row : rows) {
    const bool isMade = b.opset() >= 13 ? emitOne(b, row, "Unsqueeze", {row, b.ints({0})}, kExact)
                                        : emitOne(b, row, "Unsqueeze", {row}, kExact, {{"axes", Ints{0}}});
    if (!isMade) return false;
    parts.push_back(row);
  }
  return emitOne(b, name, "Concat", parts, kExact, {{"axis", int64_t{0}}});
}

/// Loop and Scan: a state that goes through a few ops, and rows of it.
bool loop(Builder& b, const std::string& op) {
  const bool isScan = op == "Scan";
  std::string first = b.operand({kFloats + Types{ElementType::kI32, kI64}, 0, 3, Numbers::kPlain, 600});
  const TensorType type = b.tensor(first).type;
  const int64_t trips = b.rng.between(1, 4);
  // What is scanned: rows of one operand.
  std::string rows, row;
  if (isScan) {
    Shape shape = type.shape;
    shape.insert(shape.begin(), trips);
    rows = b.operand(type.element, shape, Numbers::kPlain);
    row = "row of " + rows;
  }
  const bool collects = b.rng.chance(0.5), isBackward = isScan && b.rng.chance(0.3);
  const std::vector<Step> steps = drawSteps(b, first, isScan, row);
  if (steps.empty()) return false;
  // How the number of iterations is said: a constant, an operand, a condition on the iteration's number, or both.
  enum { kConstant, kOperand, kCondition, kBoth };
  const int64_t said = b.rng.pick(Ints{kConstant, kConstant, kOperand, kCondition, kBoth});
  const bool byCondition = !isScan && (said == kCondition || said == kBoth) && !collects;
  const size_t mark = b.model.nodes.size();
  std::string state = first;
  std::vector<std::string> states, made;
  std::vector<Node> body;
  for (int64_t k = 0; k < trips; ++k) {
    std::string now;
    if (isScan) {
      const std::string at = b.scalar(kI64, static_cast<double>(isBackward ? trips - 1 - k : k));
      if (!emitOne(b, now, "Gather", {rows, at}, kExact, {{"axis", int64_t{0}}}))
        return true;  // The nodes so far stay.
    }
    const size_t before = b.model.nodes.size();
    const std::string was = state;
    if (!iterate(b, steps, state, row, now)) return true;
    states.push_back(state);
    if (k > 0) continue;
    body.assign(b.model.nodes.begin() + static_cast<int64_t>(before), b.model.nodes.end());
    std::erase_if(body, [](const Node& node) { return node.op == "Constant"; });
    rename(body, {{was, first + "_s"}, {now, first + "_r"}});
  }
  std::vector<std::string> outputs = {state};
  std::string all;
  if (collects && !stack(b, all, states)) return true;
  const std::vector<Node> plain = takeFrom(b, mark);
  // The body has names of its own.
  std::map<std::string, std::string> own;
  for (const Node& node : body)
    for (const std::string& name : node.outputs) own[name] = name + "_b";
  const std::string result = own.at(states[0]), in = first + "_s";
  rename(body, own);
  auto graph = std::make_shared<Body>();
  graph->nodes = body;
  const TensorType scalarI64{kI64, {}}, scalarBool{ElementType::kBool, {}};
  Node written{op, {}, {state}, {}};
  std::vector<std::string> inBody;
  if (isScan) {
    graph->inputs = {in, first + "_r"};
    written.inputs = {first, rows};
    written.attributes = {{"num_scan_inputs", int64_t{1}}};
    if (isBackward) written.attributes.push_back({"scan_input_directions", Ints{1}});
    graph->types[first + "_r"] = type;
  } else {
    const std::string number = state + "_i", before = state + "_c", after = state + "_d";
    graph->inputs = {number, before, in};
    graph->outputs = {after};
    graph->types = {{number, scalarI64}, {before, scalarBool}, {after, scalarBool}};
    const int64_t most = byCondition ? trips + b.rng.below(3) : trips;
    std::string count;
    if (said == kOperand) {
      // No more than a known number.
      if (!emitOne(b, count, "Min", {b.input(whole(kI64, most)), b.constant(whole(kI64, 6))}, kExact)) return false;
    } else if (!byCondition || said == kBoth) {
      count = b.constant(whole(kI64, most));
    }
    const std::string start = b.rng.chance(0.5) || count.empty() ? b.constant(whole(ElementType::kBool, 1)) : "";
    written.inputs = {count, start, first};
    if (byCondition) {
      const std::string last = b.constant(whole(kI64, trips - 1));
      graph->nodes.push_back({"Less", {number, last}, {after}, {}});
      inBody.push_back(last);
    } else {
      graph->nodes.push_back({"Identity", {before}, {after}, {}});
    }
  }
  graph->types[in] = type;
  graph->outputs.push_back(result);
  graph->types[result] = type;
  if (collects) {
    const std::string kept = result + "_row";
    graph->nodes.push_back({"Identity", {result}, {kept}, {}});
    graph->outputs.push_back(kept);
    graph->types[kept] = type;
    written.outputs.push_back(all);
    outputs.push_back(all);
  }
  written.attributes.push_back({"body", BodyPtr(graph)});
  disguise(b, op, plain, {written}, outputs, inBody);
  return true;
}

// ---- Sequences ------------------------------------------------------------------------------------------------------

/// Parts of a Concat, or a piece of one tensor, by way of a sequence.
bool sequence(Builder& b, const std::string& op) {
  if (b.opset() < 11 || (op == "SequenceMap" && b.opset() < 17)) return false;
  const size_t mark = b.model.nodes.size();
  std::string x = b.operand({kNumbers, 1, 5, Numbers::kAny, 2000}), y;
  const int64_t axis = b.axis(b.rank(x));
  const auto at = static_cast<size_t>(axis < 0 ? axis + b.rank(x) : axis);
  const bool splits = op == "SplitToSequence" || (op == "SequenceAt" && b.rng.chance(0.5));
  if (splits) {
    const int64_t size = b.shape(x)[at], part = b.rng.between(1, size), pieces = (size + part - 1) / part;
    const int64_t which = b.rng.below(pieces), from = which * part, to = std::min(size, from + part);
    if (!emitOne(b, y, "Slice", {x, b.ints({from}), b.ints({to}), b.ints({axis})}, kExact)) return false;
    const std::string place = b.constant(whole(kI64, b.rng.chance(0.3) ? which - pieces : which));
    const std::string size1 = b.constant(whole(kI64, part));
    const std::vector<Node> plain = takeFrom(b, mark);
    disguise(
        b, op, plain,
        {{"SplitToSequence", {x, size1}, {y + "_q"}, {{"axis", axis}}}, {"SequenceAt", {y + "_q", place}, {y}, {}}},
        {y});
    return true;
  }
  std::vector<std::string> parts = {x};
  for (int64_t more = b.rng.between(0, 3); more > 0; --more) {
    Shape shape = b.shape(x);
    if (op != "ConcatFromSequence" || b.rng.chance(0.5)) shape[at] = b.rng.between(1, 4);
    parts.push_back(b.operand(b.element(x), shape));
  }
  std::vector<Node> written;
  const std::string q = parts.back() + "_q" + std::to_string(b.model.nodes.size());
  std::vector<std::string> pieces = parts;
  if (op == "SequenceMap") {
    const ElementType type = b.element(x);
    const std::string each =
        isFloat(type) ? b.rng.pick(std::vector<std::string>{"Tanh", "Neg", "Relu", "Sigmoid"}) : "Neg";
    for (std::string& piece : pieces)
      if (!emitOne(b, piece, each, {piece}, accuracyOf(each))) return true;
    auto body = std::make_shared<Body>();
    const TensorType any = b.tensor(x).type;
    body->inputs = {q + "_e"};
    body->outputs = {q + "_f"};
    for (const std::string& name : {q + "_e", q + "_f"}) body->types[name] = any;
    for (const std::string& piece : parts)
      if (b.shape(piece) != any.shape) return true;
    body->nodes = {{each, {q + "_e"}, {q + "_f"}, {}}};
    written = {{"SequenceConstruct", parts, {q + "_0"}, {}},
               {"SequenceMap", {q + "_0"}, {q}, {{"body", BodyPtr(body)}}}};
  } else if (op == "SequenceInsert" || op == "SequenceEmpty") {
    written.push_back({"SequenceEmpty", {}, {q + "_0"}, {{"dtype", int64_t{onnxType(b.element(x))}}}});
    for (size_t i = 0; i < parts.size(); ++i)
      written.push_back({"SequenceInsert",
                         {q + "_" + std::to_string(i), parts[i]},
                         {i + 1 == parts.size() ? q : q + "_" + std::to_string(i + 1)},
                         {}});
  } else if (op == "SequenceErase") {
    std::vector<std::string> more = parts;
    const auto extra = b.rng.below(static_cast<int64_t>(parts.size()) + 1);
    more.insert(more.begin() + extra, b.operand(b.element(x), b.shape(x)));
    written = {{"SequenceConstruct", more, {q + "_0"}, {}},
               {"SequenceErase", {q + "_0", b.constant(whole(kI64, extra))}, {q}, {}}};
  } else {
    written = {{"SequenceConstruct", parts, {q}, {}}};
  }
  if (op == "SequenceAt") {
    const int64_t which = b.rng.below(static_cast<int64_t>(parts.size()));
    if (!emitOne(b, y, "Identity", {parts[static_cast<size_t>(which)]}, kExact)) return true;
    written.push_back({"SequenceAt", {q, b.constant(whole(kI64, which))}, {y}, {}});
  } else if (op == "SequenceLength") {
    // The reference has a constant of it.
    std::string length = b.constant(whole(kI64, static_cast<int64_t>(parts.size())));
    if (!emitOne(b, y, "Identity", {length}, kExact)) return true;
    written.push_back({"SequenceLength", {q}, {y}, {}});
  } else {
    const bool stacks = b.rng.chance(0.3) && std::all_of(pieces.begin(), pieces.end(), [&](const std::string& piece) {
                          return b.shape(piece) == b.shape(x);
                        });
    if (stacks ? !stack(b, y, pieces) : !emitOne(b, y, "Concat", pieces, kExact, {{"axis", axis}})) return true;
    Attributes attributes = {{"axis", stacks ? 0 : axis}};
    if (stacks) attributes.push_back({"new_axis", int64_t{1}});
    written.push_back({"ConcatFromSequence", {q}, {y}, attributes});
  }
  disguise(b, op, takeFrom(b, mark), written, {y});
  return true;
}

bool optional(Builder& b, const std::string& op) {
  if (b.opset() < 15) return false;
  const size_t mark = b.model.nodes.size();
  std::string x = b.operand({kNumbers}), y;
  if (op == "OptionalHasElement") {
    std::string yes = b.constant(whole(ElementType::kBool, 1));
    if (!emitOne(b, y, "Identity", {yes}, kExact)) return false;
  } else if (!emitOne(b, y, "Identity", {x}, kExact)) {
    return false;
  }
  const std::string held = y + "_o", last = op == "Optional" ? "OptionalGetElement" : op;
  disguise(b, op, takeFrom(b, mark), {{"Optional", {x}, {held}, {}}, {last, {held}, {y}, {}}}, {y});
  return true;
}

// ---- Branches and functions -----------------------------------------------------------------------------------------

/// A condition with this value, as models have them.
std::string condition(Builder& b, bool value) {
  switch (b.rng.below(4)) {
    case 0:
      return b.constant(whole(ElementType::kBool, value));
    case 1: {
      const std::string number = b.input(whole(ElementType::kF32, value ? 3 : -3));
      std::string flag;
      if (emitOne(b, flag, "Greater", {number, b.scalar(ElementType::kF32, 0)}, kExact)) return flag;
      [[fallthrough]];
    }
    default:
      return b.input(whole(ElementType::kBool, value));
  }
}

/// Some of the nodes so far in a branch of an If, or in a function.
bool wrap(Builder& b, const std::string& op) {
  const auto count = static_cast<int64_t>(b.model.nodes.size());
  if (count == 0) return false;
  const bool isIf = op == "If";
  const int64_t length = b.rng.between(1, std::min<int64_t>(count, 4)), first = b.rng.between(0, count - length);
  auto begin = b.model.nodes.begin() + first;
  std::vector<Node> range(begin, begin + length), after(begin + length, b.model.nodes.end()), plain, inside;
  std::vector<Node> constants;
  std::vector<std::string> inBodies;
  std::map<std::string, BodyPtr> functions;
  for (const Node& node : range) {
    if (node.op == "Constant") {
      constants.push_back(node);
      continue;
    }
    if (node.disguise) {
      // A function's body cannot see what is around the call, a body in it could.
      if (!isIf) return false;
      plain.insert(plain.end(), node.disguise->plain.begin(), node.disguise->plain.end());
      inside.insert(inside.end(), node.disguise->written.begin(), node.disguise->written.end());
      functions.insert(node.disguise->functions.begin(), node.disguise->functions.end());
      inBodies.insert(inBodies.end(), node.inputs.begin(), node.inputs.end());
    } else {
      plain.push_back(node);
      inside.push_back(node);
    }
  }
  if (plain.empty()) return false;
  std::set<std::string> readLater, readInside;
  for (const Node& node : after) readLater.insert(node.inputs.begin(), node.inputs.end());
  for (const Node& node : plain) readInside.insert(node.inputs.begin(), node.inputs.end());
  std::vector<std::string> outputs;
  for (const Node& node : range)
    for (const std::string& name : node.outputs)
      if (node.op != "Constant" && !name.empty() && (readLater.count(name) || !readInside.count(name)))
        outputs.push_back(name);
  auto isDrawn = [&](const std::string& name) { return std::count(kAll.begin(), kAll.end(), b.element(name)) > 0; };
  if (outputs.empty() || (isIf && !std::all_of(outputs.begin(), outputs.end(), isDrawn))) return false;
  b.model.nodes.resize(static_cast<size_t>(first));
  b.model.nodes.insert(b.model.nodes.end(), constants.begin(), constants.end());
  const std::string tag = outputs[0];
  std::vector<Node> written;
  if (isIf) {
    const bool isThen = b.rng.chance(0.5);
    const std::string flag = condition(b, isThen);
    auto taken = std::make_shared<Body>(), other = std::make_shared<Body>();
    std::map<std::string, std::string> own;
    for (const std::string& name : outputs) {
      own[name] = name + "_t";
      taken->outputs.push_back(name + "_t");
      other->outputs.push_back(name + "_e");
      taken->types[name + "_t"] = other->types[name + "_e"] = b.tensor(name).type;
      other->nodes.push_back({"Constant", {}, {name + "_e"}, {{"value", b.draw(b.element(name), b.shape(name))}}});
    }
    rename(inside, own);
    taken->nodes = inside;
    Node node{"If", {flag}, outputs, {}};
    node.attributes = {{"then_branch", BodyPtr(isThen ? taken : other)},
                       {"else_branch", BodyPtr(isThen ? other : taken)}};
    written = {node};
  } else {
    auto body = std::make_shared<Body>();
    body->inputs = readOutside(plain);
    body->outputs = outputs;
    body->nodes = inside;
    const std::string name = "local.f_" + tag;
    functions = {{name, body}};
    written = {{name, body->inputs, outputs, {}}};
  }
  // What the range makes itself is inside.
  std::set<std::string> made;
  for (const Node& node : range)
    if (node.op != "Constant") made.insert(node.outputs.begin(), node.outputs.end());
  std::erase_if(inBodies, [&](const std::string& name) { return name.empty() || made.count(name); });
  disguise(b, op, plain, written, outputs, inBodies, functions);
  b.model.nodes.insert(b.model.nodes.end(), after.begin(), after.end());
  return true;
}

}  // namespace

const std::vector<Generator>& controlGenerators() {
  static const std::vector<Generator> list = {{"If", wrap},
                                              {"Loop", loop},
                                              {"Scan", loop},
                                              {"ConcatFromSequence", sequence},
                                              {"SequenceAt", sequence},
                                              {"SequenceConstruct", sequence},
                                              {"SequenceEmpty", sequence},
                                              {"SequenceErase", sequence},
                                              {"SequenceInsert", sequence},
                                              {"SequenceLength", sequence},
                                              {"SequenceMap", sequence},
                                              {"SplitToSequence", sequence},
                                              {"Optional", optional},
                                              {"OptionalGetElement", optional},
                                              {"OptionalHasElement", optional},
                                              {"pattern:function", wrap}};
  return list;
}

}  // namespace hpu::randomtest
