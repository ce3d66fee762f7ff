// SPDX-License-Identifier: Apache-2.0
#include "DynamicSample.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <tuple>

#include "recipe/CommandAccess.h"
#include "recipe/Schema.h"
#include "recipe/Variants.h"

namespace hpu::recipe::testing {

namespace {

using Kind = SizeExpr::Kind;

uint64_t alignUp(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

DynamicBuilder::DynamicBuilder(Target target) {
  program.name = "dynamic";
  program.producer = "recipe tests";
  program.target = target;
  dynamic.choices.emplace_back();
}

uint32_t DynamicBuilder::expr(Kind kind, int64_t number, std::vector<uint32_t> args) {
  const SizeExpr made{kind, number, std::move(args)};
  auto found = std::find(dynamic.exprs.begin(), dynamic.exprs.end(), made);
  const auto index = static_cast<uint32_t>(found - dynamic.exprs.begin());
  if (found == dynamic.exprs.end()) dynamic.exprs.push_back(made);
  return index;
}

Num DynamicBuilder::symbol(const std::string& name, int64_t min, int64_t max, int64_t sample) {
  dynamic.symbols.push_back({name, min, max, sample});
  TileChoice& all = dynamic.choices.back();
  all.min.push_back(min);
  all.max.push_back(max);
  return {sample, expr(Kind::kSymbol, static_cast<int64_t>(dynamic.symbols.size()) - 1, {})};
}
Num DynamicBuilder::number(int64_t value) {
  return {value, expr(Kind::kConstant, value, {})};
}
bool DynamicBuilder::isFixed(Num num) const {
  return dynamic.exprs[num.expr].kind == Kind::kConstant;
}
Num DynamicBuilder::add(Num a, Num b) {
  if (isFixed(a) && isFixed(b)) return number(a.value + b.value);
  return {a.value + b.value, expr(Kind::kSum, 0, {a.expr, b.expr})};
}
Num DynamicBuilder::times(Num a, Num b) {
  if (isFixed(a) && isFixed(b)) return number(a.value * b.value);
  return {a.value * b.value, expr(Kind::kProduct, 0, {a.expr, b.expr})};
}
Num DynamicBuilder::product(const Nums& nums) {
  Num result = number(1);
  for (Num num : nums) result = isFixed(result) && result.value == 1 ? num : times(result, num);
  return result;
}

DynamicBuilder::View DynamicBuilder::dense(uint32_t section, const Nums& sizes) {
  View view;
  view.section = section;
  view.sizes = sizes;
  view.strides.assign(sizes.size(), number(1));
  for (size_t d = sizes.size(); d-- > 1;) view.strides[d - 1] = product({view.strides[d], sizes[d]});
  view.offset = number(0);
  return view;
}

namespace {

std::vector<int64_t> values(const Nums& nums) {
  std::vector<int64_t> result;
  for (Num num : nums) result.push_back(num.value);
  return result;
}

}  // namespace

void DynamicBuilder::patch(Patch::Field field, uint32_t index, uint32_t operand, uint32_t dim, Num num) {
  if (!isFixed(num)) dynamic.patches.push_back({field, index, operand, dim, num.expr});
}

DynamicBuilder::View DynamicBuilder::input(const std::string& name, const Nums& sizes) {
  const auto index = static_cast<uint32_t>(program.inputs.size());
  program.inputs.push_back({name, {ElementType::kF32, values(sizes)}});
  for (uint32_t d = 0; d < sizes.size(); ++d) patch(Patch::Field::kInputSize, index, 0, d, sizes[d]);
  program.sections.push_back({SectionKind::kInput, index, static_cast<uint64_t>(program.inputs.back().type.bytes())});
  return dense(static_cast<uint32_t>(program.sections.size()) - 1, sizes);
}

DynamicBuilder::View DynamicBuilder::output(const std::string& name, const Nums& sizes) {
  const auto index = static_cast<uint32_t>(program.outputs.size());
  program.outputs.push_back({name, {ElementType::kF32, values(sizes)}});
  for (uint32_t d = 0; d < sizes.size(); ++d) patch(Patch::Field::kOutputSize, index, 0, d, sizes[d]);
  program.sections.push_back({SectionKind::kOutput, index, static_cast<uint64_t>(program.outputs.back().type.bytes())});
  View view = dense(static_cast<uint32_t>(program.sections.size()) - 1, sizes);
  view.storage = static_cast<uint32_t>(dynamic.storages.size());
  dynamic.storages.push_back({times(product(sizes), 4).expr, kNone, 0, view.section});
  return view;
}

DynamicBuilder::View DynamicBuilder::constant(const std::vector<int64_t>& sizes) {
  if (constants_ == kNone) {
    constants_ = static_cast<uint32_t>(program.sections.size());
    program.sections.push_back({SectionKind::kConst, kNone, 0});
  }
  Nums nums;
  uint64_t bytes = 4;
  for (int64_t size : sizes) {
    nums.push_back(number(size));
    bytes *= static_cast<uint64_t>(size);
  }
  View view = dense(constants_, nums);
  uint64_t& end = program.sections[constants_].bytes;
  view.offset = number(static_cast<int64_t>(end));
  auto data = std::make_shared<std::vector<uint8_t>>(bytes, uint8_t{3});
  program.constants.push_back({constants_, end, data->data(), bytes, data});
  end = alignUp(end + bytes);
  return view;
}

DynamicBuilder::View DynamicBuilder::workspace(const Nums& sizes) {
  if (workspace_ == kNone) {
    workspace_ = static_cast<uint32_t>(program.sections.size());
    program.sections.push_back({SectionKind::kWorkspace, kNone, 0});
  }
  View view = dense(workspace_, sizes);
  view.storage = static_cast<uint32_t>(dynamic.storages.size());
  dynamic.storages.push_back({times(product(sizes), 4).expr, kNone, 0, kNone});
  return view;
}

DynamicBuilder::View DynamicBuilder::part(const View& whole, size_t dim, Num from, Num size) {
  View view = whole;
  view.sizes[dim] = size;
  view.offset = add(view.offset, times(product({from, view.strides[dim]}), 4));
  return view;
}

DynamicBuilder::View DynamicBuilder::transposed(const View& view) {
  View other = view;
  std::reverse(other.sizes.begin(), other.sizes.end());
  std::reverse(other.strides.begin(), other.strides.end());
  std::reverse(other.tileDims.begin(), other.tileDims.end());
  return other;
}

DynamicBuilder::View DynamicBuilder::tiles(const Nums& sizes, uint32_t dim, uint32_t slots) {
  if (sram_ == kNone) {
    sram_ = static_cast<uint32_t>(program.sections.size());
    program.sections.push_back({SectionKind::kSram, kNone, 0});
  }
  View view = dense(sram_, sizes);
  view.tile = static_cast<uint32_t>(dynamic.tiles.size());
  TileStorage& tile = dynamic.tiles.emplace_back();
  tile.unit = kNone;
  tile.elementBytes = 4;
  tile.dim = dim;
  tile.slots = slots;
  for (uint32_t d = 0; d < sizes.size(); ++d) {
    tile.sizes.push_back(sizes[d].expr);
    tile.order.push_back(d);
    view.tileDims.push_back(d);
  }
  return view;
}

uint32_t DynamicBuilder::kernel(const std::string& name, uint32_t inputs, uint32_t rank, uint32_t wholeDims,
                                const Nums& dims) {
  program.kernels.push_back({name, {0.25, 0.25, 1, 0.5}, inputs, 1, rank, wholeDims, 0, {}});
  DynamicKernel& sizes = dynamic.kernels.emplace_back();
  for (Num dim : dims) sizes.dims.push_back(dim.expr);
  sizes.scratchBytes = number(0).expr;
  sizes.cost.push_back({1, 1, 2, 0.5, sizes.dims});
  sizes.reads.resize(inputs);
  return static_cast<uint32_t>(program.kernels.size()) - 1;
}

void DynamicBuilder::readsPointwise(uint32_t kernel, uint32_t input, uint32_t rank) {
  auto& reads = dynamic.kernels[kernel].reads[input];
  for (uint32_t d = 0; d < rank; ++d)
    reads.push_back({static_cast<int32_t>(d), number(1).expr, number(0).expr, number(0).expr});
}

Operand DynamicBuilder::operand(uint32_t op, uint32_t number, const View& view) {
  for (uint32_t d = 0; d < view.sizes.size(); ++d) {
    patch(Patch::Field::kOperandSize, op, number, d, view.sizes[d]);
    if (view.tile == kNone) patch(Patch::Field::kOperandStride, op, number, d, view.strides[d]);
  }
  if (view.storage != kNone)
    dynamic.placements.push_back({op, number, view.storage, view.offset.expr});
  else if (view.tile != kNone)
    dynamic.tiles[view.tile].users.push_back({op, number, view.tileDims});
  else
    patch(Patch::Field::kOperandOffset, op, number, 0, view.offset);
  return {
      view.section, static_cast<uint64_t>(view.offset.value), view.type, values(view.sizes), values(view.strides), {}};
}

void DynamicBuilder::setSpace(uint32_t op, const Nums& sizes) {
  program.ops[op].space = values(sizes);
  for (uint32_t d = 0; d < sizes.size(); ++d) patch(Patch::Field::kSpace, op, 0, d, sizes[d]);
}

uint32_t DynamicBuilder::gemm(const std::string& name, const View& a, const View& b, const View& c) {
  const auto index = static_cast<uint32_t>(program.ops.size());
  Op& op = program.ops.emplace_back();
  op.engine = Engine::kMme;
  op.name = name;
  op.mme.a = operand(index, 0, a);
  op.mme.b = operand(index, 1, b);
  op.mme.c = operand(index, 2, c);
  setSpace(index, c.sizes);
  return index;
}

uint32_t DynamicBuilder::tpc(const std::string& name, uint32_t kernel, const std::vector<View>& inputs,
                             const View& output) {
  const auto index = static_cast<uint32_t>(program.ops.size());
  Op& op = program.ops.emplace_back();
  op.engine = Engine::kTpc;
  op.name = name;
  op.tpc.kernel = kernel;
  for (uint32_t i = 0; i < inputs.size(); ++i) op.tpc.inputs.push_back(operand(index, i, inputs[i]));
  op.tpc.outputs.push_back(operand(index, static_cast<uint32_t>(inputs.size()), output));
  setSpace(index, output.sizes);
  return index;
}

uint32_t DynamicBuilder::copy(const std::string& name, const View& src, const View& dst) {
  const auto index = static_cast<uint32_t>(program.ops.size());
  Op& op = program.ops.emplace_back();
  op.engine = Engine::kDma;
  op.name = name;
  op.dma.src = operand(index, 0, src);
  op.dma.dst = operand(index, 1, dst);
  setSpace(index, dst.sizes);
  return index;
}

void DynamicBuilder::unit(const std::vector<std::vector<uint32_t>>& parts,
                          const std::vector<std::vector<std::vector<uint32_t>>>& slices) {
  DynamicUnit& made = dynamic.units.emplace_back();
  std::vector<uint32_t> ops;
  for (const auto& part : parts) {
    made.parts.push_back({part, 0, 0, 0});
    ops.insert(ops.end(), part.begin(), part.end());
  }
  if (ops.size() > 1 || !slices.empty()) {
    made.bundle = static_cast<uint32_t>(program.bundles.size());
    program.bundles.push_back({"bundle", ops, 1});
  }
  program.hostOrder.insert(program.hostOrder.end(), ops.begin(), ops.end());
  slices_.push_back(slices);
}

void DynamicBuilder::choice(const std::vector<int64_t>& max) {
  TileChoice small = dynamic.choices.back();
  small.max = max;
  dynamic.choices.insert(dynamic.choices.end() - 1, small);
}

void DynamicBuilder::guard(Guard::Relation relation, Num left, Num right, const std::string& text) {
  dynamic.guards.push_back({relation, left.expr, right.expr, text});
}

Program DynamicBuilder::finish() {
  // Units of storages and tiles.
  std::vector<std::pair<uint32_t, uint32_t>> unitOf(program.ops.size());
  for (uint32_t u = 0; u < dynamic.units.size(); ++u)
    for (uint32_t p = 0; p < dynamic.units[u].parts.size(); ++p)
      for (uint32_t op : dynamic.units[u].parts[p].ops) unitOf[op] = {u, p};
  for (const StoragePlacement& placement : dynamic.placements) {
    Storage& storage = dynamic.storages[placement.storage];
    storage.begin = std::min(storage.begin, unitOf[placement.op].first);
    storage.end = std::max(storage.end, unitOf[placement.op].first);
  }
  for (Storage& storage : dynamic.storages) storage.begin = std::min(storage.begin, storage.end);
  uint32_t place = 0;
  for (TileStorage& tile : dynamic.tiles) {
    std::tie(tile.unit, tile.part) = unitOf[tile.users[0].op];
    tile.begin = place++;
    tile.end = place;
  }
  // Slices by choice.
  for (size_t c = 0; c < dynamic.choices.size(); ++c)
    for (size_t u = 0; u < dynamic.units.size(); ++u) {
      std::vector<std::vector<uint32_t>> parts(dynamic.units[u].parts.size());
      if (!slices_[u].empty()) parts = slices_[u][std::min(c, slices_[u].size() - 1)];
      dynamic.choices[c].slices.push_back(parts);
    }
  // Memory at the representatives: everything behind everything else.
  std::vector<uint64_t> starts(dynamic.storages.size(), UINT64_MAX);
  for (const StoragePlacement& placement : dynamic.placements) {
    Operand& operand = *operandAt(program.ops[placement.op], placement.operand);
    if (operand.section != workspace_) continue;
    uint64_t& start = starts[placement.storage];
    uint64_t& end = program.sections[workspace_].bytes;
    if (start == UINT64_MAX) {
      start = end;
      int64_t bytes = 0;
      for (const StoragePlacement& other : dynamic.placements)
        if (other.storage == placement.storage) {
          const Operand& view = *operandAt(program.ops[other.op], other.operand);
          bytes = std::max(bytes, static_cast<int64_t>(view.offset + operandSpanBytes(view)));
        }
      end = alignUp(end + static_cast<uint64_t>(bytes));
    }
  }
  for (const StoragePlacement& placement : dynamic.placements) {
    Operand& operand = *operandAt(program.ops[placement.op], placement.operand);
    if (operand.section == workspace_) operand.offset += starts[placement.storage];
  }
  for (const TileStorage& tile : dynamic.tiles) {
    uint64_t& end = program.sections[sram_].bytes;
    uint64_t bytes = 0;
    for (const TileStorage::User& user : tile.users) {
      Operand& operand = *operandAt(program.ops[user.op], user.operand);
      bytes = std::max(bytes, operandSpanBytes(operand));
      operand.offset = end;
    }
    end = alignUp(end + bytes);
  }
  // Commands one after another.
  program.queues = {{Engine::kMme, {}}, {Engine::kTpc, {}}, {Engine::kDma, {}}};
  program.numSignals = 3;
  std::optional<Wait> last;
  for (uint32_t index : program.hostOrder) {
    const Op& op = program.ops[index];
    const auto queue = static_cast<uint32_t>(op.engine);
    Command command;
    command.op = index;
    command.lo.assign(op.space.size(), 0);
    command.hi = op.space;
    command.bundle = dynamic.units[unitOf[index].first].bundle;
    if (last && last->signal != queue) command.waits = {*last};
    command.signal = queue;
    program.queues[queue].commands.push_back(command);
    last = Wait{queue, static_cast<uint32_t>(program.queues[queue].commands.size())};
  }
  if (!program.kernels.empty()) {
    auto bytes = std::make_shared<std::vector<uint8_t>>(1024, uint8_t{0xc3});
    program.images = {{CpuVariant::kX86_64_v3, std::vector<uint64_t>(program.kernels.size(), 0), bytes->data(),
                       bytes->size(), bytes}};
  }
  program.dynamic = std::make_shared<const Dynamic>(dynamic);
  return program;
}

Program dynamicSample(int64_t pastSample, int64_t seqSample) {
  DynamicBuilder b;
  const Num past = b.symbol("past", 0, 96, pastSample), seq = b.symbol("seq", 1, 128, seqSample);
  const Num width = b.number(64), all = b.add(past, seq);
  b.choice({96, 16});
  using View = DynamicBuilder::View;
  const View x = b.input("x", {seq, width}), cache = b.input("cache", {past, width});
  const View mask = b.input("mask", {all});
  (void)mask;
  const View probs = b.output("probs", {seq, all}), down = b.output("down", {seq, width});
  const View joined = b.output("joined", {all, width}), oldOut = b.output("old", {seq, width});
  const View w = b.constant({64, 64});
  const View keys = b.workspace({all, width}), scores = b.workspace({seq, all});
  const View tile = b.tiles({seq, width}, 0, 2), ring = b.tiles({seq, width}, 0, 3);

  const uint32_t relu = b.kernel("relu", 1, 2, 0, {seq});
  b.readsPointwise(relu, 0, 2);
  const uint32_t softmax = b.kernel("softmax", 1, 2, 2, {seq, all});
  b.readsPointwise(softmax, 0, 1);
  const uint32_t join = b.kernel("join", 2, 2, 0, {past, seq});

  b.copy("keep", cache, b.part(keys, 0, b.number(0), past));
  b.gemm("project", x, w, tile);
  b.tpc("relu", relu, {tile}, b.part(keys, 0, past, seq));
  b.gemm("scores", x, b.transposed(keys), scores);
  b.tpc("softmax", softmax, {scores}, probs);
  b.gemm("old", b.part(probs, 1, b.number(0), past), cache, oldOut);
  b.gemm("up", x, w, ring);
  b.gemm("down", ring, w, down);
  b.tpc("join", join, {cache, x}, joined);

  b.unit({{kKeepOp}});
  b.unit({{kProjectOp, kReluOp2}}, {{{}}, {{4, 1}}});
  b.unit({{kScoresOp}}, {{{}}, {{2, 2}}});
  b.unit({{kSoftmaxOp2}}, {{{}}, {{3, 1}}});
  b.unit({{kOldOp}});
  b.unit({{kUpOp}, {kDownOp}}, {{{2, 1}, {2, 1}}, {{8, 1}, {8, 1}}});
  b.unit({{kJoinOp}});
  b.guard(Guard::Relation::kLessEqual, all, b.number(200), "Attention 'a' has room for 200 keys");
  return b.finish();
}

Program layersProgram(int64_t layers) {
  DynamicBuilder b;
  const Num batch = b.symbol("batch", 1, 64, 2), seq = b.symbol("seq", 1, 4096, 128);
  const Num rows = b.times(batch, seq), width = b.number(256);
  using View = DynamicBuilder::View;
  const uint32_t relu = b.kernel("relu", 1, 2, 0, {rows}), softmax = b.kernel("softmax", 1, 2, 2, {rows});
  const uint32_t add = b.kernel("add", 2, 2, 0, {rows});
  b.readsPointwise(relu, 0, 2);
  b.readsPointwise(softmax, 0, 1);
  for (uint32_t input : {0u, 1u}) b.readsPointwise(add, input, 2);
  View x = b.input("x", {rows, width});
  b.input("batch", {batch});
  b.input("seq", {seq});
  for (int64_t layer = 0; layer < layers; ++layer) {
    const View tile = b.tiles({rows, width}, 0, 2), hidden = b.workspace({rows, width});
    const View weights = b.workspace({rows, width});
    const View sum = layer + 1 == layers ? b.output("y", {rows, width}) : b.workspace({rows, width});
    const uint32_t gemm = b.gemm("gemm", x, b.constant({256, 256}), tile), act = b.tpc("relu", relu, {tile}, hidden);
    b.unit({{gemm, act}}, {{{2, 1}}});
    b.unit({{b.tpc("softmax", softmax, {hidden}, weights)}});
    b.unit({{b.tpc("add", add, {weights, x}, sum)}});
    x = sum;
  }
  return b.finish();
}

Program positionsSample(const std::map<std::string, int64_t>& fixed, int64_t pastSample, int64_t seqSample) {
  DynamicBuilder b;
  auto size = [&](const char* name, int64_t min, int64_t max, int64_t sample) {
    auto known = fixed.find(name);
    return known == fixed.end() ? b.symbol(name, min, max, sample) : b.number(known->second);
  };
  const Num past = size("past", 0, 8, pastSample), seq = size("seq", 1, 16, seqSample), width = b.number(64);
  using View = DynamicBuilder::View;
  View w, table;
  if (fixed.count("past")) b.constant({2, 64});
  if (fixed.empty()) w = b.constant({64, 64});
  table = b.constant({24, 64});
  if (!fixed.empty()) w = b.constant({64, 64});
  const View x = b.input("x", {seq, width}), cache = b.input("cache", {past, width});
  (void)cache;
  const View y = b.output("y", {seq, width}), rows = b.output("rows", {seq, width});
  b.unit({{b.gemm("product", x, w, y)}});
  b.unit({{b.copy("positions", b.part(table, 0, past, seq), rows)}});
  Program program = b.finish();
  for (ConstantBlob& blob : program.constants) {
    auto data = std::make_shared<std::vector<uint8_t>>(blob.bytes, static_cast<uint8_t>(blob.bytes / 512));
    blob.data = data->data();
    blob.owner = data;
  }
  if (fixed.size() == 2) program.dynamic = nullptr;
  return program;
}

Program statesSample() {
  DynamicBuilder b;
  const Num past = b.symbol("past", 0, 8, 3), seq = b.symbol("seq", 1, 16, 5), width = b.number(64);
  const Num all = b.add(past, seq);
  using View = DynamicBuilder::View;
  const View x = b.input("x", {seq, width}), cache = b.input("cache", {past, width});
  (void)cache;
  const View present = b.output("present", {all, width}), y = b.output("y", {all, width});
  b.unit({{b.copy("append", x, b.part(present, 0, past, seq))}});
  b.unit({{b.copy("read", present, y)}});
  Program program = b.finish();
  program.states = {{1, 0, {24, 64}}};
  for (Section& section : program.sections)
    if (const State* state = stateOf(program, section)) section.bytes = stateBytes(program, *state);
  return program;
}

Program dataSizesSample() {
  DynamicBuilder b;
  const Num seq = b.symbol("seq", 1, 16, 5), width = b.number(64), two = b.number(2);
  using View = DynamicBuilder::View;
  const View x = b.input("x", {seq, width}), counts = b.input("counts", {two});
  const View y = b.output("y", {seq, width}), sizes = b.output("data sizes", {two});
  b.unit({{b.copy("rows", x, y)}});
  b.unit({{b.copy("count", counts, sizes)}});
  Program program = b.finish();
  program.inputs[1].type.element = program.outputs[1].type.element = ElementType::kI64;
  program.ops[1].dma.src.type = program.ops[1].dma.dst.type = ElementType::kI64;
  for (Section& section : program.sections)
    if (section.binding == 1) section.bytes = program.outputs[1].type.bytes();
  auto dynamic = std::make_shared<Dynamic>(*program.dynamic);
  dynamic->exprs.push_back({SizeExpr::Kind::kConstant, program.outputs[1].type.bytes(), {}});
  for (const StoragePlacement& placement : dynamic->placements)
    if (placement.op == 1)
      dynamic->storages[placement.storage].bytes = static_cast<uint32_t>(dynamic->exprs.size() - 1);
  program.dynamic = dynamic;
  program.dataSizes = {{0, 0, 1}, {0, 1, 0}};
  return program;
}

Program variantsSample() {
  VariantLinker linker(positionsSample());
  for (const std::map<std::string, int64_t>& sizes :
       {std::map<std::string, int64_t>{{"seq", 16}}, std::map<std::string, int64_t>{{"past", 4}, {"seq", 16}}})
    if (!linker.add(sizes, positionsSample(sizes)).ok()) std::abort();
  return *linker.finish();
}

bool sameDynamics(const Dynamic& a, const Dynamic& b) {
  // Through their encoding, which has every field.
  auto bytes = [](const Dynamic& dynamic) {
    std::vector<uint8_t> out;
    ByteWriter writer(out);
    StoredTables tables;
    tables.dynamic = dynamic;
    for (SectionId id : kDynamicSections) sectionSchema(id, writer, Program{}, tables);
    sectionSchema(SectionId::kInputValues, writer, Program{}, tables);
    return out;
  };
  return bytes(a) == bytes(b);
}

Program valuedSample() {
  Program program = dynamicSample();
  Dynamic dynamic = *program.dynamic;
  const auto input = static_cast<uint32_t>(program.inputs.size());
  program.inputs.push_back({"sizes", {ElementType::kI64, {2}}});
  program.sections.push_back({SectionKind::kInput, input, 16});
  dynamic.values = {{input, 0, 0}, {input, 1, 1}};
  program.dynamic = std::make_shared<const Dynamic>(std::move(dynamic));
  return program;
}

}  // namespace hpu::recipe::testing
