/* SPDX-License-Identifier: Apache-2.0 */
/* Enumerations of the TPC kernels' parameter structures, for C and C++.
 * The one thing to know: names and values are the interface's; nothing here depends on the compiler's version. */
#ifndef HPU_PERF_LIB_ENUMS_H
#define HPU_PERF_LIB_ENUMS_H

#include <stdbool.h>

/* A scalar of the node's element type: .f for floats, .i for integers. */
typedef union {
  float f;
  int i;
} fint_t;

/* clang-format off */

/* ---- Pooling, resampling, images ---- */
enum EPoolingConvention {
  POOLING_CONVENTION_VALID = 0,        /* Windows that fit wholly (floor). */
  POOLING_CONVENTION_FULL = 1,         /* Ceil. */
  POOLING_CONVENTION_SAME = 2,         /* ceil(size / stride); pads follow. */
  POOLING_CONVENTION_FULL_PYTORCH = 3  /* Ceil, without a window that starts in the end padding. */
};
#ifndef __cplusplus
typedef enum EPoolingConvention EPoolingConvention;
#endif
typedef enum { UPSAMPLE_TYPE_BILINEAR = 0, UPSAMPLE_TYPE_NEAREST_NEIGHBOR = 1, UPSAMPLE_TYPE_TRILINEAR = 2 } EUpsampleType_t;
typedef enum {
  RESIZE_INTER_NEAREST = 0, RESIZE_INTER_LINEAR = 1, RESIZE_INTER_CUBIC = 2, RESIZE_INTER_AREA = 3, RESIZE_INTER_GAUSSIAN = 4
} ResizeInterpolationMode_t;
typedef enum { ROUND_DEFAULT = 0, ROUND_PREFER_FLOOR = 1, ROUND_PREFER_CEIL = 2, FLOOR = 3, CEIL = 4 } ResizeNearestMode_t;
typedef enum {
  HALF_PIXEL_MODE = 0, PYTORCH_HALF_PIXEL_MODE = 1, ALIGN_CORNERS_MODE = 2, ASYMMETRIC_MODE = 3, TF_HALF_PIXEL_FOR_NN_MODE = 4
} ResizeCoordinateTransformationMode_t;
typedef enum { SAMPLE_NEAREST = 0, SAMPLE_BILINEAR = 1, SAMPLE_CUBIC = 2 } GridSampleInterpolation_t;
typedef enum { PAD_ZEROS = 0, PAD_BORDER = 1, PAD_REFLECTION = 2 } GridSamplePad_t;
typedef enum { ROI_ALIGN_AVG = 0, ROI_ALIGN_MAX = 1 } RoiAlignMode_t;
typedef enum { CROP_AND_RESIZE_MODE_BILINEAR = 0, CROP_AND_RESIZE_MODE_NEAREST = 1 } CropAndResizeMode_t;
typedef enum { GRID_GENERATOR_TYPE_AFFINE = 0, GRID_GENERATOR_TYPE_WARP = 1 } EGridGeneratorType_t;
typedef enum { SPATIAL_CORRELATION_TYPE_NEAREST_NEIGHBOR = 0, SPATIAL_CORRELATION_TYPE_BILINEAR = 1 } SpatialCorrelation_t;
typedef enum {
  RGB_TO_YCBCR = 0, RGB_TO_BGR, YCBCR_TO_RGB, YCBCR_TO_BGR, BGR_TO_RGB, BGR_TO_YCBCR,
  GRAY_TO_RGB, GRAY_TO_BGR, GRAY_TO_YCBCR, RGB_TO_GRAY, YCBCR_TO_GRAY, BGR_TO_GRAY
} ColorSpaceMode_t;

/* ---- Rounding and casts ---- */
typedef enum {
  CAST_ROUND_HALF_NE = 0, CAST_ROUND_DOWN = 1, CAST_ROUND_UP = 2, CAST_ROUND_SR = 3, CAST_ROUND_ZERO = 4,
  CAST_ROUND_DEFAULT = 5, CAST_ROUND_HALF_AZ = 6, CAST_ROUND_SFTZ = 8
} CastF32RoundMode_t;
typedef enum { CAST_NO_CLIP_NO_SAT = 0, CAST_CLIP = 1, CAST_SAT = 2 } CastSatMode_t;
typedef enum { ROUND_HALF_AWAY_FROM_ZERO = 0, ROUND_HALF_NEAREST_EVEN = 1 } RoundMode_t;
typedef enum { DIV_ROUND_NONE = 0, DIV_ROUND_TRUNC = 1, DIV_ROUND_FLOOR = 2 } DivRoundMode_t;

/* ---- Elementwise ---- */
typedef enum {
  BINARY_WITH_ALPHA_MODE_ADD = 0, BINARY_WITH_ALPHA_MODE_SUB = 1, BINARY_WITH_ALPHA_MODE_RSUB = 2,
  BINARY_WITH_ALPHA_MODE_CMUL = 3, BINARY_WITH_ALPHA_MODE_CDIV = 4
} BinaryWithAlphaMode_t;
typedef enum { LEFT = 0, RIGHT = 1 } ShiftDir_t;
typedef enum { ARITHMETIC = 0, LOGICAL = 1 } ShiftMode_t;
typedef enum { HARD_SHRINK = 0, SOFT_SHRINK = 1 } ShrinkMode_t;
typedef enum { SIGMOID_DEFAULT = 0, NO_SATURATION_SIGMOID = 1 } SigmoidFlavor_t;
typedef enum { GELU_ACCURACY_DEFAULT = 0, GELU_ACCURACY_FAST_FP8_LUT = 1, GELU_ACCURACY_FAST_FP8_CALC = 2 } GeluAccuracyMode_t;
typedef enum { MEMCPY_DEFAULT = 0, MEMCPY_1D = 1, MEMCPY_IRF44 = 2 } MemcpyMode_t;

/* ---- Norms, softmax, attention ---- */
typedef enum { BN_MODE_NON_DETERMINISTIC = 0, BN_MODE_DETERMINISTIC = 1, BN_MODE_DETERMINISTIC_TPC_ID = 2 } BatchNormMode_t;
typedef enum {
  BN_ROUND_MODE_RHNE = 0, BN_ROUND_MODE_RZ = 1, BN_ROUND_MODE_RU = 2, BN_ROUND_MODE_RD = 3, BN_ROUND_MODE_SR = 4,
  BN_ROUND_MODE_RHAZ = 6
} BatchNormRoundingMode_t;
typedef enum { DEFAULT_RMS_NORM_BWD_MODE = 0, STATIC_CASE_WIDTH_PARTITIONING = 1 } RmsNormBwdMode_t;
typedef enum { DATA_8BIT = 0, DATA_16BIT = 1, DATA_32BIT = 2 } DataTypeSize_t;
typedef enum { TYPE_P_IS_INT = 0, TYPE_P_IS_FLOAT = 1 } TypeOfP_t;
typedef enum { DEFAULT_SOFTMAX = 0, SOFTMAX_HF8_1B = 1, SOFTMAX_HF8_1C = 2, SOFTMAX_HF8_2 = 3 } SoftmaxMode_t;
typedef enum { SDPA_DEFAULT_SOFTMAX = 0, SDPA_SOFTMAX_HF8_1B = 1, SDPA_SOFTMAX_HF8_1C = 2 } SdpaSoftmaxMode_t;
typedef enum {
  SDPA_FLAGS_AMAX_S = 1 << 0, SDPA_FLAGS_D_SCALE_Q = 1 << 8, SDPA_FLAGS_D_SCALE_K = 1 << 9,
  SDPA_FLAGS_D_SCALE_V = 1 << 10, SDPA_FLAGS_Q_SCALE_S = 1 << 11, SDPA_FLAGS_Q_SCALE_O = 1 << 12
} SdpaFlags_t;
typedef enum { USE_LUT = 0, NO_LUT = 1, EXPERIMENTAL = 15 } ScaledMaskedSoftmaxExpMode_t;
typedef enum {
  DEFAULT_MODE = 0, SLICED_MODE = 1, HF8_1B_MODE = 2, HF8_1C_MODE = 4, FUSED_MULT_INV_ATTN = 8,
  SQUEEZED_FCD_RETAINED = 16, CL_ALIGNED_PADDED_RETAINED = 32
} ScaledMaskedTriangularSoftmaxMode_t;
typedef enum { ROTARY_POS_EMBEDDING_MODE_BLOCKWISE = 0, ROTARY_POS_EMBEDDING_MODE_PAIRWISE = 1 } RotaryPosEmbeddingMode_t;

/* ---- Losses, random numbers ---- */
typedef enum { CROSS_ENTROPY_MODE_SUM = 0, CROSS_ENTROPY_MODE_MEAN = 1, CROSS_ENTROPY_MODE_NO_REDUCTION = 2 } ECrossEntropyMode_t;
typedef enum { NLL_LOSS_MODE_MEAN = 0, NLL_LOSS_MODE_SUM = 1, NLL_LOSS_MODE_NONE = 2 } NLLLossMode_t;
typedef enum {
  MSE_LOSS_REDUCTION_MODE_MEAN = 0, MSE_LOSS_REDUCTION_MODE_SUM = 1, MSE_LOSS_REDUCTION_MODE_NONE = 2
} MSELossMode_t;
typedef enum { LOSS_REDUCTION_MODE_MEAN = 0, LOSS_REDUCTION_MODE_SUM = 1, LOSS_REDUCTION_MODE_NONE = 2 } LossMode_t;
typedef enum { KLDIV_LOSS_MODE_SUM = 0, KLDIV_LOSS_MODE_MEAN = 1, KLDIV_LOSS_MODE_NONE = 2 } KLDivMode_t;
typedef enum { POS_WEIGHT_DISABLE = 0, POS_WEIGHT_ENABLE = 1 } PosWeightMode_t;
typedef enum { WITHOUT_DIST = 0, WITH_DIST = 1 } RandomPoissonFlavor_t;

/* ---- Indexing, sorting, padding ---- */
typedef enum { PAD_MODE_CONSTANT = 0, PAD_MODE_REFLECT = 1, PAD_MODE_EDGE = 2, PAD_MODE_SYMMETRIC = 3 } PadMode_t;
typedef enum { SORT_ASCENDING = 0, SORT_DESCENDING = 1 } SortDirection_t;
typedef enum {
  KEY_METADATA_IN_KEY_METADATA_OUT = 0, KEY_IN_KEY_METADATA_OUT, KEY_IN_KEY_OUT,
  KEY_METADATA_IN_KEY_METADATA_OUT_VALID_COUNT, KEY_IN_KEY_METADATA_OUT_VALID_COUNT, KEY_IN_KEY_OUT_VALID_COUNT,
  KEY_METADATA_IN_KEY_METADATA_OUT_TOPK, KEY_IN_KEY_METADATA_OUT_TOPK, KEY_IN_KEY_OUT_TOPK,
  KEY_METADATA_IN_KEY_METADATA_OUT_VALID_COUNT_TOPK, KEY_IN_KEY_METADATA_OUT_VALID_COUNT_TOPK, KEY_IN_KEY_OUT_VALID_COUNT_TOPK
} RadixSortFlavor_t;
typedef enum { K_TENSOR_NONE = 0, K_TENSOR_SHAPE = 1 } KTensorType_t;
typedef enum { EMBEDDING_BAG_MODE_SUM = 0, EMBEDDING_BAG_MODE_MEAN = 1 } EmbeddingBagMode_t;
typedef enum { EMBEDDED_SC_ZP = 0, SEPARATE_SC_ZP = 1 } ESparseLengthsSumType_t;
typedef enum {
  SCATTER_REDUCE_SUM = 0, SCATTER_REDUCE_PROD = 1, SCATTER_REDUCE_MEAN = 2, SCATTER_REDUCE_AMAX = 3, SCATTER_REDUCE_AMIN = 4
} ScatterReduceMode_t;
typedef enum { CONTROL_IND_SIZE = 0, NO_CONTROL_IND_SIZE = 1 } ScatterIndicesSizeControl_t;
typedef enum {
  SCATTER_ND_UPDATE_MODE_NON_DETERMINISTIC = 0, /* Equal indices: any of their updates. */
  SCATTER_ND_UPDATE_MODE_DETERMINISTIC = 1      /* Equal indices: the last update. */
} ScatterNdUpdateMode_t;
typedef enum { RIGHT_RIGHT = 0, RIGHT_LEFT = 1, LEFT_RIGHT = 2, LEFT_LEFT = 3 } DiagAlign_t;
typedef enum { VPU_LD_FCD_REPEAT = 0, SCALAR_LD_FCD_REPEAT_NO_PARTIAL_WR = 1 } RepeatMode_t;

/* clang-format on */

#endif
