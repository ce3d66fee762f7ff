// SPDX-License-Identifier: Apache-2.0
// MmePlan: one MME op made ready to run block by block on the host's caches and threads.
// The one thing to know: everything is decided in create; run and stage only compute, write nothing
// but what the caller hands them, and may be called from several threads for different blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hpu/status.h"
#include "runtime/driver/sim/functional/Brgemm.h"
#include "runtime/driver/sim/functional/Contraction.h"
#include "runtime/driver/sim/functional/HostBuffer.h"
#include "runtime/driver/sim/functional/MmeBlocking.h"

namespace hpu::sim {

/// Memory that blocks of a plan work on. `a`, `b`, `c` point at logical element (0, ..., 0).
struct MmeBuffers {
  const std::byte* a = nullptr;
  const std::byte* b = nullptr;
  std::byte* c = nullptr;
  std::byte* shared = nullptr;  ///< sharedBytes(), the same for all workers.
};

/// Which blocks' inputs a worker's strips hold.
struct StripCache {
  static constexpr int64_t kMaxStrips = 8;
  int64_t keys[kMaxStrips] = {-1, -1, -1, -1, -1, -1, -1, -1};
};

class MmePlan {
 public:
  /// A plan for the box [lo, hi) of `mme`'s C.
  static StatusOr<MmePlan> create(const recipe::MmeDesc& mme, const std::vector<int64_t>& lo,
                                  const std::vector<int64_t>& hi, const BlockLimits& limits);

  /// Weights that have to be brought into panels before the blocks run: number of independent
  /// items. With BlockLimits::preparedWeights once for all runs, else in each.
  int64_t stageItems() const { return stageItems_; }
  void stage(int64_t item, const MmeBuffers& buffers) const;
  /// All that the staged bytes of the packed constant `b` follow from: plans with equal keys stage the same bytes.
  std::vector<int64_t> stagedKey(const std::byte* b) const;

  int64_t blocks() const { return outerCount_ * pixelBlocks() * panelBlocks_; }
  /// The box of C that a block computes; lo and hi hold C's rank.
  void blockBox(int64_t block, int64_t* lo, int64_t* hi) const;
  /// The largest extents of a block's box.
  void maxBox(int64_t* extents) const;
  /// Computes a block. `scratch` has scratchBytes() and belongs to one worker, as `strips` does.
  void run(int64_t block, const MmeBuffers& buffers, std::byte* scratch, StripCache& strips) const;

  /// How long all blocks take, in multiplications.
  int64_t work() const;

  uint64_t sharedBytes() const { return sharedBytes_; }
  uint64_t scratchBytes() const { return scratch_.bytes(); }
  const Contraction& contraction() const { return c_; }
  const MmeBlocking& blocking() const { return blocking_; }

 private:
  enum class Weights : uint8_t {
    kInPlace,   ///< The micro-kernel reads B where it lies.
    kPerBlock,  ///< Each block packs its panel into scratch.
    kStaged,    ///< All panels are packed into shared memory first.
  };
  /// A part of the reduction that one pass over a block's pixels adds up.
  struct Step {
    int64_t depth0 = 0, depth = 0;  ///< Of the effective depth.
    int64_t tap0 = 0, tap1 = 0;
  };
  /// Columns [beginX, endX) of a phase, with what the micro-kernel needs: byte offsets and the
  /// taps' rows.
  struct PhasePlan {
    int64_t py = 0, px = 0, countY = 0, beginX = 0, endX = 0;
    std::vector<uint64_t> aOffsets, bOffsets;  ///< By tap.
    std::vector<int64_t> tapRow;               ///< dy by tap, ascending.
    std::vector<Step> steps;
    bool edges = false;  ///< Some rows of the window lie outside of A for some output row.
  };
  /// The coordinates of a block.
  struct Block {
    int64_t outer[recipe::kMaxRank];
    int64_t z0, z1, y0, y1, x0, x1, panel0, panel1;
    int64_t pixelKey;
  };
  struct Run;

  int64_t pixelBlocks() const { return zBlocks_ * yBlocks_ * xBlocks_; }
  int64_t panelColumns(int64_t panel) const;
  Block decode(int64_t block) const;
  void planReads();
  void planWeights(bool prepared);
  void planTaps();
  void planColumns(const Phase& phase, int64_t beginX, int64_t endX);
  void splitDepth(PhasePlan& plan);
  bool meets(const Tap& tap, int64_t x) const;
  bool splitsColumns() const;
  void planWrites();
  void planKernels();
  void addKernels(int64_t length, int64_t columns, const Step& step, bool first);
  const Brgemm& kernel(int64_t rows, bool tailColumns, bool tailDepth, bool accumulate) const;
  void packStrip(const Block& block, const std::byte* a, float* strip) const;
  void packPanel(int64_t bIndex, int64_t panel, const std::byte* b, float* dst) const;
  int64_t weightsOffset(int64_t bIndex) const;
  const float* panelAddress(const Block& block, int64_t panel, const MmeBuffers& buffers, std::byte* scratch) const;
  void runPanel(const Block& block, const PhasePlan& phase, const float* pixels, const float* panel, int64_t panelIndex,
                const MmeBuffers& buffers, float* tile) const;

  Contraction c_;
  MmeBlocking blocking_;
  int64_t outerCount_ = 1, zBlocks_ = 1, yBlocks_ = 1, xBlocks_ = 1, panelBlocks_ = 1, panels_ = 1;

  // How A is read: in place, or from a strip of dense f32 rows with the padding's zeros.
  bool useStrip_ = false;
  int64_t minDy_ = 0, maxDy_ = 0, minDx_ = 0, maxDx_ = 0;
  int64_t stripStepY_ = 1, stripStepX_ = 1;   ///< Input rows and columns that the strip keeps.
  int64_t stripSlots_ = 1;                    ///< Strips that a worker keeps.
  int64_t stripRows_ = 0, stripColumns_ = 0;  ///< Of the largest block.
  int64_t pixelPitch_ = 0, rowPitch_ = 0,
          imagePitch_ = 0;                        ///< Elements per grid point, row, image.
  bool mergeRows_ = false, mergeImages_ = false;  ///< Pixels of a block are one run.
  bool alongZ_ = false;                           ///< A run is one pixel of all images of a block.
  int64_t runPitch_ = 0;                          ///< Elements between the inputs of a run's pixels.
  int64_t interleave_ = 1;  ///< Every so many-th pixel makes a kernel's rows (pitch below the depth).

  // How B is read.
  Weights weights_ = Weights::kInPlace;
  bool mergeTaps_ = false;     ///< A window row is one tap of depth KW * depth.
  bool splitColumns_ = false;  ///< Columns with different taps inside of A are different phases.
  int64_t depth_ = 0;          ///< Effective depth of a tap.
  int64_t taps_ = 0;           ///< Matrices of B that the phases take, by packed index.
  bool joinTaps_ = false;      ///< All taps of B are packed in one pass: they lie next to each other.
  int64_t bPitch_ = 0;         ///< Elements between rows of a panel.
  int64_t bCount_ = 1;         ///< Different B matrices along the outer dimensions.
  int64_t stageItems_ = 0;
  uint64_t sharedBytes_ = 0;

  // How C is written: in place, or through a tile of f32.
  bool useTile_ = false;
  int64_t cPitch_ = 0;  ///< Elements between the pixels of a run.

  std::vector<PhasePlan> phases_;
  std::vector<Brgemm> kernels_;  ///< By rows, tail columns, tail depth, accumulate.
  int64_t maxRows_ = 0;
  int64_t stepDepth_ = 0;  ///< Of all steps but a shorter last one along the depth.
  ScratchLayout scratch_;
  uint64_t stripOffset_ = 0, panelOffset_ = 0, tileOffset_ = 0;
};

}  // namespace hpu::sim
