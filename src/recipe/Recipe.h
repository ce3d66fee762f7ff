// SPDX-License-Identifier: Apache-2.0
// The recipe's in-memory model: plain structs, the only contract between compiler and runtime.
// The one thing to know: after RecipeReader (or verifyProgram) every id, offset, size and box in it is
// in range, so the runtime uses them without further checks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hpu/target.h"
#include "hpu/types.h"

namespace hpu::recipe {

struct Dynamic;  // Dynamic.h.
struct Program;

/// The format that this library writes. A reader accepts the same major when the file's least reader
/// version is not beyond its own minor (docs/recipe-format.md).
inline constexpr uint16_t kFormatMajor = 1;
inline constexpr uint16_t kFormatMinor = 5;

inline constexpr int kMaxRank = 8;
inline constexpr uint32_t kNone = 0xffffffffu;
/// Every section starts at a multiple of this and so does every buffer in it (a TPC access is 256 bytes).
inline constexpr uint64_t kAlignment = 256;

// ---- Memory ---------------------------------------------------------------------------------------

enum class SectionKind : uint8_t {
  kInput = 0,      ///< Bound at launch; `binding` is the index into Program::inputs.
  kOutput = 1,     ///< Bound at launch; `binding` is the index into Program::outputs.
  kConst = 2,      ///< Uploaded at load from Program::constants; read-only afterwards.
  kWorkspace = 3,  ///< HBM scratch, undefined at the start of a launch.
  kSram = 4,       ///< On-chip memory (on Gaudi 3 a managed window of the cache).
  kPersistent = 5  ///< HBM that keeps its contents between launches, zero at load.
};

/// An input or output has at most one section, an output exactly one. Ops may touch the bytes of the bound
/// tensor only, even where `bytes` is larger.
struct Section {
  SectionKind kind = SectionKind::kWorkspace;
  uint32_t binding = kNone;
  uint64_t bytes = 0;
};

/// Bytes of one kConst section: `data` points into what `owner` keeps. Ops read
/// only bytes that a blob fills.
struct ConstantBlob {
  uint32_t section = kNone;
  uint64_t offset = 0;  ///< In the section.
  const uint8_t* data = nullptr;
  uint64_t bytes = 0;
  std::shared_ptr<const void> owner;  ///< Keeps `data` alive.
};

/// An SRAM intermediate of a bundle: only `slots` tiles of it exist at a time. Slice i of the bundle uses
/// the slotBytes at offset + (i % slots) * slotBytes, and dimension `dim` is counted from the slice's own
/// lo[dim]. slots == 0: an ordinary operand.
struct Ring {
  uint32_t slots = 0;
  uint32_t dim = 0;
  uint64_t slotBytes = 0;
  bool operator==(const Ring&) const = default;
};

/// A strided view of memory in the logical dims of the op that uses it. Sizes are >= 1 (an op without points
/// is not emitted; only I/O tensors may be empty, and what an op with points reads: an input of a kernel, and a and b
/// of a gemm with K = 0, which gives zeros). The offset is a multiple of the element size, and no two points of an
/// output are one element.
struct Operand {
  uint32_t section = kNone;
  uint64_t offset = 0;  ///< Bytes from the section's start to logical element (0, ..., 0).
  ElementType type = ElementType::kInvalid;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  ///< Elements, >= 0; 0 repeats (broadcast).
  Ring ring;
};

// ---- Ops: whole descriptors -----------------------------------------------------------------------

enum class MmeKind : uint8_t { kGemm = 0, kConv2d = 1, kConvTranspose2d = 2 };

/// How the B operand of an MME op lies in memory.
enum class BPacking : uint8_t {
  kStrided = 0,  ///< As its strides say.
  /// A constant in the blocked layout of PackedWeights.h; strides are ignored. Of a gemm, taps are the
  /// product of B's batch sizes, each C's or 1 (shared by all batches).
  kBlocked = 1,
};

/// Gemm: A sizes [batch..., M, K], B [batch..., K, N], C [batch..., M, N] (broadcast batches: stride 0);
/// any of them may have any strides (that is how transposes are folded).
/// Conv2d: A = input [N, C, H, W], B = weights [OC, C/groups, KH, KW], C = output [N, OC, OH, OW].
/// ConvTranspose2d: B = weights [C, OC/groups, KH, KW] (as ONNX); output padding is a negative padEnd.
/// A gemm's window fields are the neutral ones below. A and B have one type that the target's MME multiplies; C is f32,
/// bf16 or f16. Products are accumulated in f32 and rounded once, to nearest even, into C's type.
struct MmeDesc {
  MmeKind kind = MmeKind::kGemm;
  BPacking packing = BPacking::kStrided;
  Operand a, b, c;
  int64_t strides[2] = {1, 1};
  int64_t dilations[2] = {1, 1};
  int64_t padBegin[2] = {0, 0};
  int64_t padEnd[2] = {0, 0};
  int64_t groups = 1;
  /// So many neighbouring pixels of a row (a gemm: rows) are one row of the array, with as many times the columns and
  /// zeros where one does not look (MmePacking.h). It changes the time on the device, never a result.
  int64_t packingFactor = 1;
};

/// Issue slots of a TPC kernel for one point of its index space, times 256-byte vectors: what the
/// performance model prices (a TPC instruction has a load, a scalar, a vector and a store slot).
struct TpcCost {
  double loads = 0, stores = 0;  ///< 256-byte vector loads/stores per index-space point.
  double vectorOps = 0;          ///< Vector-slot instructions per index-space point.
  double scalarOps = 0;
  bool operator==(const TpcCost&) const = default;
};

/// A kernel over an index space; `kernel` is an index into Program::kernels.
struct TpcDesc {
  uint32_t kernel = kNone;
  std::vector<Operand> inputs, outputs;
};

/// An N-dimensional strided copy, or a fill when `fill` is set (then `src` is unused): dst[p] = src[p].
struct DmaDesc {
  bool fill = false;
  uint64_t fillPattern = 0;  ///< One element, little-endian.
  Operand src, dst;          ///< Same sizes and element type.
};

/// One device operation with all its operands; commands run slices of it.
struct Op {
  Engine engine = Engine::kTpc;
  std::string name;                  ///< "conv1+bn1+relu"
  std::vector<uint32_t> provenance;  ///< Indices into Program::sourceNodes.
  std::vector<int64_t> space;        ///< Extents of the index space: the output's logical sizes.
  MmeDesc mme;                       ///< Valid when engine == kMme ...
  TpcDesc tpc;                       ///< ... kTpc ...
  DmaDesc dma;                       ///< ... kDma.
  /// Ops with the same number, other than 0, are the same in all that is above, in their commands' boxes and in what
  /// their kernel costs. Not part of a file: it is given to ops of what plan::Instances makes.
  uint64_t content = 0;
};

struct Kernel {
  std::string name;
  TpcCost cost;
  uint32_t numInputs = 0, numOutputs = 0;
  uint32_t rank = 0;  ///< Of the index space.
  /// Bit d: dimension d must be whole in every slice and call (a softmax's row, say). The verifier and
  /// the executor keep to it.
  uint32_t wholeDims = 0;
  uint64_t scratchBytes = 0;  ///< Of one call (the TPC's local memory: at most 80 KB on real ones).
  /// Sizes that its code takes from the launch (HpuKernelArgs::dims), of every call. Not part of a file: it is set in
  /// what plan::instantiate makes.
  std::vector<int64_t> dims;
};

enum class CpuVariant : uint8_t { kX86_64_v3 = 3, kX86_64_v4 = 4 };

/// All kernels of the recipe for one CPU level: a flat, position-independent, relocation-free image.
struct KernelImage {
  CpuVariant cpu = CpuVariant::kX86_64_v3;
  std::vector<uint64_t> entries;  ///< Byte offset of each kernel's entry, by kernel index.
  const uint8_t* data = nullptr;
  uint64_t bytes = 0;
  std::shared_ptr<const void> owner;
};

// ---- Commands: what the engines' queues hold --------------------------------------------------------

struct Wait {
  uint32_t signal = 0;  ///< Wait until the signal's count is at least `value`.
  uint32_t value = 0;
};

/// One slice of one op. A queue runs its commands in order; signals count up and start at 0.
struct Command {
  uint32_t op = kNone;
  uint32_t bundle = kNone;
  uint32_t slice = 0;           ///< Which slice of the bundle: selects ring slots.
  std::vector<int64_t> lo, hi;  ///< Box in the op's index space.
  std::vector<Wait> waits;
  uint32_t signal = kNone;  ///< Counted up by one when done.
};

struct Queue {
  Engine engine = Engine::kTpc;
  std::vector<Command> commands;
};

/// Ops pipelined through SRAM. `ops` in dataflow order: MME first or last, TPC producers/consumers around.
/// `hostOrder` of the program lists ops in a sequentially correct order, a bundle's together and in this
/// order.
struct Bundle {
  std::string name;
  std::vector<uint32_t> ops;
  uint32_t slices = 1;
};

/// An input and an output that are one tensor in HBM, which launches change in place: they are bound to the same
/// address. Ops use the output's section, which has its contents from before the launch; none uses the input's.
/// Elements lie as in a dense tensor of the sizes `capacity`, whatever the sizes of a launch are.
struct State {
  uint32_t input = kNone, output = kNone;
  std::vector<int64_t> capacity;  ///< By dimension: at least the sizes of the input and of the output.
  bool operator==(const State&) const = default;
};

/// How many elements of a dimension of an output there are depends on data: as many as an element of the *sizes* says,
/// at most its size. The sizes are the last output, a vector of i64, that the program computes with the others. The
/// elements that there are come first along the dimension; the output lies dense with the sizes of its type.
struct DataSize {
  uint32_t output = kNone, dim = 0;
  uint32_t element = 0;  ///< Of the sizes.
  bool operator==(const DataSize&) const = default;
};

/// What an input is where a launch gives nothing: dense, row-major.
struct InputDefault {
  uint32_t input = kNone;
  const uint8_t* data = nullptr;
  uint64_t bytes = 0;
  std::shared_ptr<const void> owner;  ///< Keeps `data` alive.
};

// ---- The whole --------------------------------------------------------------------------------------

struct SourceNode {
  std::string name;  ///< ONNX node name, or an op's name in a hand-made graph.
  std::string op;    ///< ONNX op type or hpu mnemonic.
};

struct Estimates {
  double deviceTimeUs = 0, lowerBoundUs = 0;
  uint64_t largestLiveSetBytes = 0, sramPeakBytes = 0;
};

/// A program for some of the sizes of a program of free dimensions, its *holder* (src/recipe/Variants.h). It is
/// compiled for these alone, and launches of these sizes run it in the holder's place. Sections have the numbers, kinds
/// and bindings of the holder's, and constants are the holder's: they are stored, and on the device, once.
struct Variant {
  std::vector<int64_t> sizes;  ///< By symbol of the holder; kDynamic: any, `program` has the symbol itself.
  std::shared_ptr<const Program> program;
};
inline constexpr uint32_t kMaxVariants = 64;

/// Where something of a part lies in the sections of its holder: from `offset` on in the first iteration, `step` bytes
/// further in each that follows. Values that iterations hand on have two places and take turns (`turns`).
struct PartPlace {
  uint32_t section = kNone;  ///< The holder's. kNone: nowhere (SRAM, which each part has for itself, or no such value).
  uint64_t offset = 0;
  int64_t step = 0;  ///< Negative: backwards.
  /// The part of the holder whose iterations decide between the two places, an even number of them for the above and an
  /// odd one for the next two: of the part itself its current iteration, counted from 0, of one before it how many it
  /// has run in all. kNone: there is one place.
  uint32_t turns = kNone;
  uint32_t oddSection = kNone;
  uint64_t oddOffset = 0;
  bool operator==(const PartPlace&) const = default;
};

/// A step of a program of parts: a program that runs as often as it says. So loops and branches run on the device.
struct Part {
  std::shared_ptr<const Program> program;  ///< May have parts itself.
  std::vector<PartPlace> sections;         ///< By section of `program`.
  uint64_t trips = 1;                      ///< It runs at most so often.
  /// An i64 that is read once, before the first iteration: no more iterations than that. Optional.
  PartPlace count;
  /// A bool of one byte that is read before each iteration: no more of them when it is 0. Optional.
  PartPlace condition;
  bool conditionInverted = false;  ///< ... when it is not 0: the other branch.
};
/// Of a program, those of its parts included.
inline constexpr uint32_t kMaxParts = 4096;
inline constexpr uint32_t kMaxPartDepth = 8;
inline constexpr uint32_t kMaxPartSections = 4096;
inline constexpr uint64_t kMaxPartTrips = uint64_t{1} << 31;
/// Of one launch, those of parts of parts included.
inline constexpr uint64_t kMaxPartIterations = uint64_t{1} << 40;

struct Program {
  std::string name;
  std::string producer;  ///< "OpenHPU 0.1.0"
  Target target = Target::kGaudi2;
  std::vector<TensorInfo> inputs, outputs;
  std::vector<State> states;        ///< An input or output is in one at most.
  std::vector<DataSize> dataSizes;  ///< By output and dimension. Variants have those of their holder.
  std::vector<InputDefault>
      defaults;  ///< By input; of fixed sizes, and no states. Variants have those of their holder.
  std::vector<Section> sections;
  std::vector<ConstantBlob> constants;
  std::vector<Kernel> kernels;
  std::vector<KernelImage> images;
  std::vector<Op> ops;
  std::vector<Bundle> bundles;
  std::vector<uint32_t> hostOrder;  ///< Every op once, in an order in which they can run one after another.
  std::vector<Queue> queues;
  uint32_t numSignals = 0;
  std::vector<SourceNode> sourceNodes;
  Estimates estimates;
  std::string ir;  ///< Optional MLIR text, for debugging.
  /// As the file has it (src/recipe/Signature.h); empty: not signed. It is of the program as it was read or signed.
  std::vector<uint8_t> signature;
  /// How everything above follows from the sizes of a launch (Dynamic.h); all of it is then that of the
  /// representatives. Null: the program is for these sizes alone.
  std::shared_ptr<const Dynamic> dynamic;
  /// Of a program of free dimensions; those that fix more sizes first. The first that has the sizes of a launch runs.
  std::vector<Variant> variants;
  /// They run one after another. A program that has any, their *holder*, has no kernels, ops, bundles and queues of its
  /// own (src/recipe/Parts.h). Its workspace holds what parts hand on and their own workspaces; constants are the
  /// holder's: each is stored, and on the device, once.
  std::vector<Part> parts;
};

/// The state that a section is bound to; null: none.
const State* stateOf(const Program& program, const Section& section);
/// Bytes of a state's memory; its program must be verified.
uint64_t stateBytes(const Program& program, const State& state);

/// It has no elements: nothing of it is read.
bool isEmpty(const Operand& operand);
/// Bytes that the operand spans from its first to one past its last element, ring slots included.
uint64_t operandSpanBytes(const Operand& operand);

}  // namespace hpu::recipe
