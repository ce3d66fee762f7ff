// SPDX-License-Identifier: Apache-2.0
// What MmePlan::create decides: how A, B and C are accessed, which kernels are needed, how much
// scratch.
#include "runtime/driver/sim/functional/MmePlan.h"

#include <algorithm>
#include <climits>

#include "base/Math.h"
#include "base/StatusMacros.h"

namespace hpu::sim {
namespace {

using base::ceilDiv;

using recipe::kPackedN;

/// Rows of C that one kernel call computes at most.
constexpr int64_t kMaxRows = 64;
/// Bytes of a panel that one pass over a block's pixels streams from the second-level cache.
constexpr int64_t kStepBytes = 640 << 10;
/// Strips of several blocks that a worker keeps beside the weights that it streams.
constexpr int64_t kKeptStripBytes = 1 << 20;
/// A part of a depth that is no multiple of the other, of which there are few.
constexpr int64_t kDepthPart = 64, kUsualDepths = 16;
/// Up to this many rows of C a strided B is read in place: packing it would cost as much as using
/// it.
constexpr int64_t kFewRows = 32;
/// Of a cache line: images of a power of two's size would else lie in the same sets of the cache.
constexpr int64_t kLineElements = 16;
/// Taps are packed together when they are at least one of so many positions of the window.
constexpr int64_t kJoinedTaps = 4;
/// Window rows of fewer channels than this become one tap.
constexpr int64_t kFewChannels = 16;

/// Is a dimension of `extent` steps of `stride` the continuation of one of `inner` steps of
/// `innerStride`?
bool continues(int64_t extent, int64_t stride, int64_t inner, int64_t innerStride) {
  return extent == 1 || stride == inner * innerStride;
}

}  // namespace

StatusOr<MmePlan> MmePlan::create(const recipe::MmeDesc& mme, const std::vector<int64_t>& lo,
                                  const std::vector<int64_t>& hi, const BlockLimits& limits) {
  MmePlan plan;
  HPU_ASSIGN(plan.c_, makeContraction(mme, lo, hi));
  const Contraction& c = plan.c_;
  plan.blocking_ = chooseBlocking(c, limits);
  const MmeBlocking& b = plan.blocking_;
  for (const OuterDim& dim : c.outer) plan.outerCount_ *= dim.extent;
  plan.panels_ = ceilDiv(c.columns, kPackedN);
  plan.zBlocks_ = ceilDiv(c.extentZ, b.z);
  plan.yBlocks_ = ceilDiv(c.extentY, b.y);
  plan.xBlocks_ = ceilDiv(c.extentX, b.x);
  plan.panelBlocks_ = ceilDiv(plan.panels_, b.panels);
  plan.planReads();
  plan.planWrites();
  plan.planWeights(limits.preparedWeights);
  plan.planTaps();
  plan.planKernels();
  return plan;
}

int64_t MmePlan::panelColumns(int64_t panel) const {
  return std::min(kPackedN, c_.columns - panel * kPackedN);
}

int64_t MmePlan::work() const {
  int64_t taps = 0;
  for (const Phase& phase : c_.phases) taps = std::max(taps, static_cast<int64_t>(phase.taps.size()));
  const double points = static_cast<double>(outerCount_) * static_cast<double>(c_.extentZ * c_.extentY * c_.extentX),
               columns = static_cast<double>(c_.columns), depth = static_cast<double>(c_.depth * taps);
  // An element of an operand takes the time of some products.
  constexpr double kElement = 8, kMost = 1e18;
  const double elements = points * (depth + columns) + static_cast<double>(bCount_) * depth * columns;
  return static_cast<int64_t>(std::min(points * columns * depth + kElement * elements, kMost));
}

/// Chooses between A in place and a strip, and computes the pitches of either.
void MmePlan::planReads() {
  minDy_ = minDx_ = INT64_MAX;
  maxDy_ = maxDx_ = INT64_MIN;
  bool columnEdges = false;
  for (const Phase& phase : c_.phases) {
    for (const Tap& tap : phase.taps) {
      taps_ = std::max(taps_, tap.packedIndex + 1);
      minDy_ = std::min(minDy_, tap.dy);
      maxDy_ = std::max(maxDy_, tap.dy);
      minDx_ = std::min(minDx_, tap.dx);
      maxDx_ = std::max(maxDx_, tap.dx);
      columnEdges |= tap.dx < 0 || (phase.countX - 1) * c_.strideX + tap.dx >= c_.inX;
    }
  }
  if (taps_ == 0) minDy_ = maxDy_ = minDx_ = maxDx_ = 0;
  const Phase& first = c_.phases[0];
  int64_t windowColumns = maxDx_ - minDx_ + 1;
  const int64_t windowRows = maxDy_ - minDy_ + 1;
  mergeTaps_ = c_.phases.size() == 1 && c_.depth < kFewChannels && windowColumns > 1 &&
               static_cast<int64_t>(first.taps.size()) % windowColumns == 0 && c_.stepX == 1;
  for (size_t i = 0; mergeTaps_ && i < first.taps.size(); ++i) {
    const Tap& tap = first.taps[i];
    const int64_t column = static_cast<int64_t>(i) % windowColumns;
    // A transposed conv of stride 1 runs through its window backwards: not a contiguous K.
    mergeTaps_ = tap.dx == minDx_ + column &&
                 tap.packedIndex == first.taps[i - static_cast<size_t>(column)].packedIndex + column;
  }
  depth_ = mergeTaps_ ? c_.depth * windowColumns : c_.depth;
  splitColumns_ = columnEdges && !mergeTaps_ && splitsColumns();
  if (splitColumns_) {  // What is read are A's own columns, whatever the taps.
    minDx_ = 0;
    maxDx_ = c_.inX - 1 - (c_.extentX - 1) * c_.strideX;
    windowColumns = maxDx_ + 1;
    columnEdges = false;
  }

  const int64_t pitch = c_.aX * c_.strideX;
  bool pitchFits = c_.extentX == 1 || (pitch >= c_.depth && pitch < INT_MAX / 8);
  useStrip_ = c_.abType != ElementType::kF32 || (c_.aK != 1 && c_.depth > 1) || columnEdges || mergeTaps_ || !pitchFits;
  alongZ_ = blocking_.alongZ && !splitColumns_ && (useStrip_ || (c_.aZ >= c_.depth && c_.aZ < INT_MAX / 8));
  if (!useStrip_) {
    pixelPitch_ = pitch;
    rowPitch_ = c_.aY * c_.strideY;
    imagePitch_ = c_.aZ;
  } else {
    stripStepY_ = windowRows == 1 ? c_.strideY : 1;
    stripStepX_ = windowColumns == 1 && !splitColumns_ ? c_.strideX : 1;
    stripColumns_ = (blocking_.x - 1) * (c_.strideX / stripStepX_) + windowColumns;
    stripRows_ = (blocking_.y - 1) * (c_.strideY / stripStepY_) + windowRows;
    pixelPitch_ = c_.depth * (c_.strideX / stripStepX_);
    rowPitch_ = c_.depth * stripColumns_ * (c_.strideY / stripStepY_);
    imagePitch_ = c_.depth * stripColumns_ * stripRows_ + (alongZ_ ? kLineElements : 0);
    // Blocks that share panels come back to the same strips for each of them.
    const int64_t stripBytes = imagePitch_ * blocking_.z * static_cast<int64_t>(sizeof(float));
    if (blocking_.panelsOutside)
      stripSlots_ = std::clamp<int64_t>(std::min(kKeptStripBytes / std::max<int64_t>(stripBytes, 1), pixelBlocks()), 1,
                                        StripCache::kMaxStrips);
    stripOffset_ = scratch_.add(static_cast<uint64_t>(stripBytes * stripSlots_));
  }
  runPitch_ = alongZ_ ? imagePitch_ : pixelPitch_;
  interleave_ = alongZ_ || blocking_.x == 1 ? 1 : ceilDiv(depth_, std::max<int64_t>(pixelPitch_, 1));
}

/// Chooses between C in place and a tile, and whether the pixels of a block are one run.
void MmePlan::planWrites() {
  cPitch_ = alongZ_ ? c_.cZ : c_.cX * c_.stepX;
  const bool single = c_.phases.size() == 1 && c_.phases[0].taps.size() == 1 && !alongZ_ && c_.stepY == 1 &&
                      blocking_.x == c_.extentX && !splitColumns_ && minDy_ >= 0 &&
                      (c_.extentY - 1) * c_.strideY + maxDy_ < c_.inY;
  mergeRows_ = single && continues(c_.extentY, rowPitch_, c_.extentX, pixelPitch_) &&
               continues(c_.extentY, c_.cY, c_.extentX, cPitch_);
  mergeImages_ = mergeRows_ && blocking_.y == c_.extentY &&
                 continues(c_.extentZ, imagePitch_, c_.extentX * c_.extentY, pixelPitch_) &&
                 continues(c_.extentZ, c_.cZ, c_.extentX * c_.extentY, cPitch_);
  const int64_t widest = std::min(c_.columns, kPackedN);
  bool pitchFits = (alongZ_ ? c_.extentZ : c_.extentX) == 1 || (cPitch_ >= widest && cPitch_ < INT_MAX / 8);
  useTile_ = c_.cType != ElementType::kF32 || (c_.cN != 1 && c_.columns > 1) || !pitchFits;
  if (useTile_)
    tileOffset_ =
        scratch_.add(static_cast<uint64_t>(blocking_.z * blocking_.y * blocking_.x * kPackedN) * sizeof(float));
}

/// Chooses where the kernels read B, and what has to be packed when.
void MmePlan::planWeights(bool prepared) {
  for (const OuterDim& dim : c_.outer)
    if (dim.bStride != 0) bCount_ *= dim.extent;
  const int64_t rows = c_.extentZ * c_.extentY * c_.extentX;
  bool inPlace = c_.abType == ElementType::kF32;
  if (c_.packed) {
    bPitch_ = kPackedN;
    inPlace &= c_.columnBase % kPackedN == 0 && (!mergeTaps_ || c_.packedShape.panels() == 1);
  } else {
    bPitch_ = c_.bK;
    inPlace &= (c_.bN == 1 || c_.columns == 1) && rows <= kFewRows && !mergeTaps_ &&
               (c_.depth == 1 || (c_.bK >= std::min(c_.columns, kPackedN) && c_.bK < INT_MAX / 8));
  }
  if (inPlace && !prepared) return;
  bPitch_ = panelPitch(c_.columns);
  int64_t taps = 0;
  bool adjacent = !c_.packed && c_.window > 1;
  for (const Phase& phase : c_.phases) {
    taps += static_cast<int64_t>(phase.taps.size());
    for (const Tap& tap : phase.taps) adjacent &= tap.bOffset == tap.packedIndex;
  }
  // A pass touches all of the window; where most taps meet only the padding, those that do not are picked out.
  joinTaps_ = adjacent && kJoinedTaps * taps >= c_.window;
  const auto panelBytes = static_cast<uint64_t>(taps_ * c_.depth * bPitch_) * sizeof(float);
  // Packing in each block is cheapest while the panel is in the cache, unless many blocks repeat
  // it.
  int64_t repeats = outerCount_ / bCount_ * pixelBlocks();
  weights_ = prepared || repeats > 2 ? Weights::kStaged : Weights::kPerBlock;
  if (weights_ == Weights::kStaged) {
    stageItems_ = bCount_ * panels_;
    sharedBytes_ = static_cast<uint64_t>(stageItems_) * panelBytes;
  } else {
    panelOffset_ = scratch_.add(panelBytes);
  }
}

/// Does a tap lie inside of A at column x of the grid?
bool MmePlan::meets(const Tap& tap, int64_t x) const {
  const int64_t column = x * c_.strideX + tap.dx;
  return column >= 0 && column < c_.inX;
}

/// Is multiplying with the zeros beside the image most of the work? (Wide dilations; the usual
/// padding is cheaper as zeros than as short runs.)
bool MmePlan::splitsColumns() const {
  if (blocking_.x != c_.extentX) return false;
  int64_t all = 0, inside = 0;
  for (const Phase& phase : c_.phases) {
    for (const Tap& tap : phase.taps) {
      all += phase.countX;
      for (int64_t x = 0; x < phase.countX; ++x) inside += meets(tap, x);
    }
  }
  return 10 * inside < 6 * all;
}

/// Byte offsets of the taps in A and B, and the steps of the reduction.
void MmePlan::planTaps() {
  for (const Phase& phase : c_.phases) {
    int64_t begin = 0;
    for (int64_t x = 1; splitColumns_ && x < phase.countX; ++x) {
      bool same = std::all_of(phase.taps.begin(), phase.taps.end(),
                              [&](const Tap& tap) { return meets(tap, x - 1) == meets(tap, x); });
      if (same) continue;
      planColumns(phase, begin, x);
      begin = x;
    }
    planColumns(phase, begin, phase.countX);
  }
  if (stepDepth_ == 0) stepDepth_ = depth_;
}

void MmePlan::planColumns(const Phase& phase, int64_t beginX, int64_t endX) {
  const int64_t aRow = useStrip_ ? c_.depth * stripColumns_ : c_.aY;
  const int64_t aColumn = useStrip_ ? c_.depth : c_.aX;
  const int64_t matrix = c_.depth * bPitch_;  // Elements of one packed tap of one panel.
  const int64_t packedStride = weights_ == Weights::kInPlace ? matrix * c_.packedShape.panels() : matrix;
  const bool strided = weights_ == Weights::kInPlace && !c_.packed;
  PhasePlan plan{phase.py, phase.px, phase.countY, beginX, endX, {}, {}, {}, {}, false};
  for (const Tap& tap : phase.taps) {
    if (mergeTaps_ && tap.dx != minDx_) continue;
    if (splitColumns_ && !meets(tap, beginX)) continue;
    int64_t a = (tap.dy - minDy_) * aRow + (beginX * c_.strideX + tap.dx - minDx_) * aColumn;
    int64_t b = strided ? tap.bOffset : tap.packedIndex * packedStride;
    plan.aOffsets.push_back(static_cast<uint64_t>(a) * sizeof(float));
    plan.bOffsets.push_back(static_cast<uint64_t>(b) * sizeof(float));
    plan.tapRow.push_back(tap.dy);
    plan.edges |= tap.dy < 0 || (phase.countY - 1) * c_.strideY + tap.dy >= c_.inY;
  }
  const auto taps = static_cast<int64_t>(plan.aOffsets.size());
  if (taps == 1 && c_.phases.size() == 1 && !splitColumns_ && depth_ > kDepthPart && depth_ % kUsualDepths != 0) {
    splitDepth(plan);
    phases_.push_back(std::move(plan));
    return;
  }
  const int64_t tapBytes = depth_ * kPackedN * static_cast<int64_t>(sizeof(float));
  // Equal parts: a few whole taps, or a part of one tap's depth in multiples of the cache line.
  if (tapBytes > kStepBytes) {
    stepDepth_ = ceilDiv(ceilDiv(depth_, ceilDiv(tapBytes, kStepBytes)), 16) * 16;
    for (int64_t t = 0; t < std::max<int64_t>(taps, 1); ++t)
      for (int64_t k = 0; k < depth_; k += stepDepth_)
        plan.steps.push_back({k, std::min(stepDepth_, depth_ - k), t, std::min(t + 1, taps)});
  } else {
    int64_t most = std::max<int64_t>(kStepBytes / tapBytes, 1);
    int64_t each = ceilDiv(std::max<int64_t>(taps, 1), ceilDiv(std::max<int64_t>(taps, 1), most));
    for (int64_t t = 0; t < std::max<int64_t>(taps, 1); t += each)
      plan.steps.push_back({0, depth_, t, std::min(t + each, taps)});
  }
  phases_.push_back(std::move(plan));
}

/// Parts of the only tap's depth as taps of their own, and a shorter one behind them: depths that follow a sequence's
/// length would else need a kernel each.
void MmePlan::splitDepth(PhasePlan& plan) {
  const int64_t whole = depth_ / kDepthPart;
  const uint64_t a = plan.aOffsets[0], b = plan.bOffsets[0];
  for (int64_t part = 1; part <= whole; ++part) {
    plan.aOffsets.push_back(a + static_cast<uint64_t>(part * kDepthPart) * sizeof(float));
    plan.bOffsets.push_back(b + static_cast<uint64_t>(part * kDepthPart * bPitch_) * sizeof(float));
    plan.tapRow.push_back(plan.tapRow[0]);
  }
  stepDepth_ = kDepthPart;
  // Steps stream at most kStepBytes of a panel, as others do.
  constexpr int64_t kMost = kStepBytes / (kDepthPart * kPackedN * static_cast<int64_t>(sizeof(float)));
  for (int64_t part = 0; part < whole; part += kMost)
    plan.steps.push_back({0, kDepthPart, part, std::min(part + kMost, whole)});
  plan.steps.push_back({0, depth_ - whole * kDepthPart, whole, whole + 1});
}

void MmePlan::maxBox(int64_t* extents) const {
  std::fill(extents, extents + c_.lo.size(), 1);
  auto set = [&](int dim, int64_t extent) {
    if (dim >= 0) extents[dim] = std::max(extents[dim], extent);
  };
  set(c_.dimZ, blocking_.z);
  set(c_.dimY, std::min(blocking_.y * c_.stepY, c_.outY));
  set(c_.dimX, std::min(blocking_.x * c_.stepX, c_.outX));
  set(c_.dimN, std::min(blocking_.panels * kPackedN, c_.columns));
}

void MmePlan::addKernels(int64_t length, int64_t columns, const Step& step, bool first) {
  const bool tailColumns = columns < std::min(kPackedN, c_.columns), tailDepth = step.depth != stepDepth_;
  const int64_t size = ceilDiv(length, ceilDiv(length, maxRows_));
  for (int64_t part : {size, length - (ceilDiv(length, size) - 1) * size}) {
    for (int64_t q = 0; q < interleave_ && q < part; ++q) {
      int64_t rows = ceilDiv(part - q, interleave_);
      // The first step overwrites C, also when rows at the edge begin with a later one.
      for (bool accumulate : {false, true}) {
        if (accumulate && first) continue;
        Brgemm& slot = kernels_[static_cast<size_t>(((rows * 2 + tailColumns) * 2 + tailDepth) * 2 + accumulate)];
        if (slot) continue;
        BrgemmShape shape;
        shape.rows = rows;
        shape.columns = columns;
        shape.depth = step.depth;
        shape.aStride = std::max<int64_t>(runPitch_ * interleave_, 1);
        shape.bStride = std::max<int64_t>(bPitch_, 1);
        shape.cStride = useTile_ ? kPackedN * interleave_ : std::max<int64_t>(cPitch_ * interleave_, 1);
        shape.accumulate = accumulate;
        slot = Brgemm::get(shape);
      }
    }
  }
}

/// Makes a kernel for every size of run that occurs.
void MmePlan::planKernels() {
  // What is between two rows of one block is at most a run of all of its pixels.
  maxRows_ = std::min(kMaxRows, std::max<int64_t>(blocking_.z * blocking_.y * blocking_.x, 1));
  kernels_.resize(static_cast<size_t>((maxRows_ + 1) * 8));
  auto parts = [](int64_t extent, int64_t block) {
    std::vector<int64_t> sizes{std::min(extent, block)};
    if (extent % block) sizes.push_back(extent % block);
    return sizes;
  };
  for (const PhasePlan& phase : phases_) {
    // Phases that end a point earlier than the grid have shorter last blocks.
    std::vector<int64_t> lengths =
        alongZ_ ? parts(c_.extentZ, blocking_.z) : parts(phase.endX - phase.beginX, blocking_.x);
    auto widen = [&](const std::vector<int64_t>& sizes) {
      std::vector<int64_t> products;
      for (int64_t length : lengths)
        for (int64_t size : sizes) products.push_back(length * size);
      lengths = products;
    };
    if (mergeRows_) widen(parts(phase.countY, blocking_.y));
    if (mergeImages_) widen(parts(c_.extentZ, blocking_.z));
    for (int64_t length : lengths)
      for (int64_t columns : {std::min(kPackedN, c_.columns), panelColumns(panels_ - 1)})
        for (size_t i = 0; i < phase.steps.size(); ++i)
          if (!phase.aOffsets.empty()) addKernels(length, columns, phase.steps[i], i == 0);
  }
}

}  // namespace hpu::sim
