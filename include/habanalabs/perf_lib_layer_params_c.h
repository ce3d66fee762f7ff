/* SPDX-License-Identifier: Apache-2.0 */
/* Parameter structures of the TPC nodes for C: ns_ReluKernel::Params of C++ is ns_ReluKernel_Params here.
 * The one thing to know: the layouts are those that derivation gives in C++ (x86-64 Linux ABI), hence the explicit
 * padding; a newer form has the older one's members first. Set structures to zero before filling them in. */
#ifndef HPU_PERF_LIB_LAYER_PARAMS_C_H
#define HPU_PERF_LIB_LAYER_PARAMS_C_H

#include "perf_lib_enums.h"

/* clang-format off */
typedef struct { unsigned int count; } ns_LongLoop_Params;
typedef struct { float epsilon; } ns_L2normKernel_Params;
typedef struct {
    int int_val; unsigned int uint_val; float float_val; short short_val __attribute__((aligned(4)));
    unsigned short ushort_val __attribute__((aligned(4))); char char_val __attribute__((aligned(4)));
    unsigned char uchar_val __attribute__((aligned(4)));
} ns_PrintfTestKernel_Params;
typedef struct {
    fint_t val_0; int pos_0; fint_t val_1; int pos_1; fint_t val_2; int pos_2;
} ns_PrintfVpuDemoKernel_Params;
typedef struct { bool useNonLut; } ns_RsqrtKernel_Params;
typedef struct { bool isPyCompatible; } ns_DivModKernel_Params;
typedef struct { bool isPyCompatible, isTruncRoundingMode; } ns_DivModKernel_ParamsV2;
typedef struct { fint_t upperBound, lowerBound; } ns_ClampKernel_Params;
typedef struct { float alpha, beta; } ns_HardSigmoidKernel_Params;
typedef struct { fint_t threshold; } ns_ReluKernel_Params;
typedef struct { fint_t threshold, replacementValue; } ns_ReluKernel_ParamsV2;
typedef struct { float gamma, alpha; } ns_SeluKernel_Params;
typedef struct { float gamma, alpha; bool isInputFeaturemap; } ns_SeluKernel_ParamsV2;
typedef struct { float alpha; } ns_EluKernel_Params;
typedef struct { float alpha; bool isInputFeaturemap; } ns_EluKernel_ParamsV2;
typedef struct { float alpha; bool isInputFeaturemap; float scale, input_scale; } ns_EluKernel_ParamsV3;
typedef struct { double alpha; } ns_LeakyReluKernel_Params;
typedef struct { fint_t threshold; float momentum, epsilon; } ns_BatchNormKernel_Params;
typedef struct { fint_t threshold; float momentum, epsilon; bool isTraining; } ns_BatchNormKernel_ParamsV2;
typedef struct { fint_t threshold; float momentum, epsilon, N; } ns_BatchNormVarienceKernel_Params;
typedef struct { int disable_beta_gamma_update, N; } ns_BatchNormStage1Kernel_Params;
typedef struct { int disable_beta_gamma_update, N; bool isTraining; } ns_BatchNormStage1Kernel_ParamsV2;
typedef struct {
    int disable_beta_gamma_update, N; bool isTraining; BatchNormMode_t mode;
} ns_BatchNormStage1Kernel_ParamsV3;
typedef struct {
    int disable_beta_gamma_update, N; bool isTraining; BatchNormMode_t mode; BatchNormRoundingMode_t roundingMode;
} ns_BatchNormStage1Kernel_ParamsV4;
typedef struct { float momentum; int disable_runnings_update, N; float epsilon; } ns_BatchNormStage2Kernel_Params;
typedef struct {
    float momentum; int disable_runnings_update, N; float epsilon; bool isTraining;
} ns_BatchNormStage2Kernel_ParamsV2;
typedef struct {
    float momentum; int disable_runnings_update, N; float epsilon; bool isTraining; BatchNormMode_t mode;
} ns_BatchNormStage2Kernel_ParamsV3;
typedef struct {
    float momentum; int disable_runnings_update, N; float epsilon; bool isTraining; BatchNormMode_t mode;
    BatchNormRoundingMode_t roundingMode;
} ns_BatchNormStage2Kernel_ParamsV4;
typedef struct { fint_t threshold; } ns_InstanceNormKernel_Params;
typedef struct { float momentum, eps; } ns_InstanceNormTrainingKernel_Params;
typedef struct { float momentum, eps; int enRelu; } ns_InstanceNormTrainingKernel_ParamsRelu;
typedef struct { fint_t threshold; bool epsValid; fint_t eps; } ns_LayerNormKernelRelu_Params;
typedef struct {
    fint_t threshold; bool epsValid; fint_t eps; int NormAxisBmp, ParamAxisBmp;
} ns_LayerNormKernelRelu_ParamsNorm;
typedef struct { bool epsValid; float eps; } ns_LayerNormKernel_Params;
typedef struct { bool epsValid; float eps; int NormAxisBmp, ParamAxisBmp; } ns_LayerNormKernel_ParamsNorm;
typedef struct {
    bool epsValid; float eps; int NormAxisBmp, ParamAxisBmp; unsigned int normalizedShapeDims;
} ns_LayerNormKernel_ParamsPt;
typedef struct {
    bool epsValid; float eps; int NormAxisBmp, ParamAxisBmp; unsigned int normalizedShapeDims; bool fastMath;
} ns_LayerNormKernel_ParamsRmsNorm;
typedef struct { int chunkSize; } ns_LayerNormStage1Kernel_Params;
typedef struct { float alpha, beta, knorm; int nsize; } ns_LrnKernel_Params;
typedef struct { float p, eps; int dim; } ns_LpNormKernel_Params;
typedef struct { float p, eps; int dim; bool epsMax; } ns_LpNormKernel_ParamsNorm;
typedef struct { int chunkSize; } ns_LpNormFroStage1Kernel_Params;
typedef struct { int dim; } ns_Softmax_Params;
typedef struct { int dim; bool isRaggedSoftMax; } ns_Softmax_ParamsV2;
typedef struct { int dim; DataTypeSize_t dataTypeSize; } ns_Softmax_ParamsV3;
typedef struct { int dim; DataTypeSize_t dataTypeSize; int validCountAxis; } ns_Softmax_ParamsV4;
typedef struct { int dim; DataTypeSize_t dataTypeSize; int validCountAxis, is_approximation; } ns_Softmax_ParamsV5;
typedef struct {
    int dim; DataTypeSize_t dataTypeSize; int validCountAxis, is_approximation, triangularMode;
} ns_Softmax_ParamsV6;
typedef struct {
    int dim; DataTypeSize_t dataTypeSize; int validCountAxis, is_approximation, triangularMode; SoftmaxMode_t mode;
} ns_Softmax_ParamsV7;
typedef struct { fint_t constant; } ns_ConstantKernel_Params;
typedef struct { int const_low, const_high; } ns_ConstantKernel_Params_v2;
typedef struct { float low, high; unsigned int seed; } ns_RandomUniform_Params;
typedef struct { fint_t low, high; unsigned int seed; int dummy; } ns_RandomUniform_ParamsV2;
typedef struct { fint_t low, high; unsigned int seed; int reserved[2]; } ns_RandomUniform_ParamsV3;
typedef struct { float mean, stddev; unsigned int seed; } ns_RandomNormal_Params;
typedef struct { float mean, stddev; unsigned int seed; bool usePhilox; } ns_RandomNormal_ParamsV2;
typedef struct { unsigned int seed; } ns_RandomSeed_Params;
typedef struct { int outcomes, shape, get_prob; unsigned int seed; } ns_RandomMultinomial_Params;
typedef struct { int num_samples; bool replacement; } ns_RandomMultinomial_ParamsV2;
typedef struct {
    int num_samples; bool replacement; unsigned char padding0[3]; int isTfMode; bool useRandomSeed;
} ns_RandomMultinomial_ParamsV3;
typedef struct { float beta; unsigned int seed; } ns_RandomExponential_Params;
typedef struct { float alpha, beta; unsigned int seed; } ns_RandomGamma_Params;
typedef struct { float k, p; unsigned int seed; } ns_RandomNegativeBinomial_Params;
typedef struct { unsigned int seed; } ns_RandomBernoulli_Params;
typedef struct { unsigned int seed; float probability; } ns_RandomBernoulli_ParamsV2;
typedef struct { unsigned int seed; } ns_XavierFill_Params;
typedef struct { int axis; } ns_Pick_Params;
typedef struct { float lambda; unsigned int seed; } ns_RandomPoisson_Params;
typedef struct { float lambda; unsigned int seed; RandomPoissonFlavor_t flavor; } ns_RandomPoisson_ParamsV2;
typedef struct { int chunkSize, axis; SortDirection_t dir; bool isInputSqueezed; } ns_BitonicSort_Params;
typedef struct {
    int chunkSize, axis; SortDirection_t dir; bool isInputSqueezed; unsigned char padding0[3]; bool isStable;
} ns_BitonicSort_ParamsV2;
typedef struct { int totalIterations, iterationNumber, axis; bool is_ascend; } ns_SortStep_Params;
typedef struct { fint_t threshold; } ns_FilterAndSqueeze_Params;
typedef struct {
    int inputChunkSize, topK; SortDirection_t sortDirection; int axis; bool isInputSqueezed;
} ns_ScalarMerge_Params;
typedef struct { int topK, axis; } ns_SortBwd_Params;
typedef struct { int staticChunkSize, axis; SortDirection_t sortDir; } ns_SortPreProcess_Params;
typedef struct { int staticChunkSize, axis; SortDirection_t sortDir; } ns_GenerateBitonicChunks_Params;
typedef struct {
    int staticChunkSize, axis; SortDirection_t sortDir; bool isTopK, isStable;
} ns_GenerateBitonicChunks_ParamsV2;
typedef struct {
    int staticChunkSize, axis; SortDirection_t sortDir; int blockId, stageId;
} ns_LargeBitonicMerge_Params;
typedef struct {
    int staticChunkSize, axis; SortDirection_t sortDir; int blockId, stageId; bool isStable;
} ns_LargeBitonicMerge_ParamsV2;
typedef struct { int staticChunkSize, blockId, axis; SortDirection_t sortDir; } ns_SmallBitonicMerge_Params;
typedef struct {
    int staticChunkSize, blockId, axis; SortDirection_t sortDir; bool isStable;
} ns_SmallBitonicMerge_ParamsV2;
typedef struct { unsigned int kSize, axis, chunkSize; } ns_TopK_Params;
typedef struct { unsigned int kSize, axis, chunkSize, bottomK; } ns_TopK_ParamsV2;
typedef struct { int expX, expCt; } ns_GruKernel_Params;
typedef struct { int timeStamp, expGatesIntermediate; } ns_LstmKernel_Params;
typedef struct {
    unsigned int k, b, vocSize, maxOutputLen, decoderOutputSize; float scaleFix, scaleGem; int zp;
} ns_BsKernel_Params;
typedef struct { unsigned int reductionDimension; } ns_Reduction_Params;
typedef struct { unsigned int reductionDimensionMask; bool keepDim; } ns_Reduction_ParamsV2;
typedef struct { unsigned int reductionDimension, p; } ns_ReduceLp_Params;
typedef struct {
    int pad_w_begin, pad_w_end, pad_h_begin, pad_h_end, kernel_w, kernel_h, stride_w, stride_h, dilation_w,
        dilation_h; EPoolingConvention pooling_convention;
} ns_SpatialReduction_Params;
typedef struct {
    int pad_w_begin, pad_w_end, pad_h_begin, pad_h_end, kernel_w, kernel_h, stride_w, stride_h, dilation_w,
        dilation_h; EPoolingConvention pooling_convention; int pad_d_begin, pad_d_end, kernel_d, stride_d, dilation_d;
} ns_SpatialReduction3D_Params;
typedef struct {
    int pad_w_begin, pad_w_end, pad_h_begin, pad_h_end, kernel_w, kernel_h, stride_w, stride_h, dilation_w,
        dilation_h; EPoolingConvention pooling_convention; int includePadding;
} ns_AveragePooling_Params;
typedef struct {
    int pad_w_begin, pad_w_end, pad_h_begin, pad_h_end, kernel_w, kernel_h, stride_w, stride_h, dilation_w,
        dilation_h; EPoolingConvention pooling_convention; int includePadding; bool isValidCount; int dummy;
} ns_AveragePooling_ParamsIsValidCount;
typedef struct {
    int pad_w_begin, pad_w_end, pad_h_begin, pad_h_end, kernel_w, kernel_h, stride_w, stride_h, dilation_w,
        dilation_h; EPoolingConvention pooling_convention; int includePadding, divisorOverride;
} ns_AveragePoolingWithDivisorOverride_Params;
typedef struct {
    int pad_w_begin, pad_w_end, pad_h_begin, pad_h_end, kernel_w, kernel_h, stride_w, stride_h, dilation_w,
        dilation_h; EPoolingConvention pooling_convention; int includePadding, divisorOverride; bool isValidCount;
    int dummy;
} ns_AveragePoolingWithDivisorOverride_ParamsIsValidCount;
typedef struct {
    int pad_w_begin, pad_w_end, pad_h_begin, pad_h_end, kernel_w, kernel_h, stride_w, stride_h, dilation_w,
        dilation_h; EPoolingConvention pooling_convention;
    int pad_d_begin, pad_d_end, kernel_d, stride_d, dilation_d, includePadding;
} ns_AveragePooling3D_Params;
typedef struct { unsigned int num_channels, pooled_shapeX, pooled_shapeY, num_roi; } ns_MaxPoolRoiKernel_Params;
typedef struct { fint_t value; unsigned int pads[10]; } ns_PadKernel_Params;
typedef struct { fint_t value; unsigned int pads[10]; PadMode_t mode; } ns_PadKernelEx_Params;
typedef struct {
    fint_t value; unsigned int pads[10]; PadMode_t mode; unsigned int output_size_alignment[5];
} ns_PadKernelEx_ParamsWithAlign;
typedef struct {
    int pad_w_begin, pad_w_end, pad_h_begin, pad_h_end, kernel_w, kernel_h, stride_w, stride_h, dilation_w,
        dilation_h; EPoolingConvention pooling_convention;
    int pad_d_begin, pad_d_end, kernel_d, stride_d, dilation_d, p;
} ns_LpPooling3D_Params;
typedef struct { int use_sequence_length, batch_axis, time_axis; } ns_SequenceLength_Params;
typedef struct { int repeat[4]; } ns_TileKernel_Params;
typedef struct { int repeat[5]; } ns_TileKernel_ParamsV2;
typedef struct { bool use_sequence_length; float mask_value; } ns_SequenceMask_Params;
typedef struct { float ratio; unsigned int seed; } ns_DropoutKernel_Params;
typedef struct { float ratio; unsigned int seed; bool disableMaskOut; } ns_DropoutKernel_ParamsOptionalMaskOut;
typedef struct {
    float ratio; unsigned int seed; bool disableMaskOut; int isTraining;
} ns_DropoutKernel_ParamsOptionalTrain;
typedef struct { int repeats, axis; } ns_RepeatKernel_Params;
typedef struct { int repeats, axis; RepeatMode_t mode; } ns_RepeatKernel_ParamsV2;
typedef struct { int axis; } ns_RepeatKernelGaudiTF_Params;
typedef struct { int axis, mode; } ns_TakeKernel_Params;
typedef struct { int axis; } ns_GatherKernel_Params;
typedef struct { int axis, batchDims; } ns_GatherKernel_ParamsV2;
typedef struct { int axis; } ns_FlipKernel_Params;
typedef struct { int dims[5]; unsigned int num_dims; } ns_FlipKernel_ParamsV2;
typedef struct { int axis; } ns_CompressKernel_Params;
typedef struct { int shape[5]; } ns_RavelKernel_Params;
typedef struct { int axis, depth; float on_value, off_value; } ns_OneHotKernel_Params;
typedef struct { int axis, depth; float on_value, off_value; int is_out_reshaped; } ns_OneHotKernel_ParamsV2;
typedef struct {
    int kernel_size, max_displacement, stride1, stride2, pad_size, is_multiply;
} ns_CorrelationKernel_Params;
typedef struct { SpatialCorrelation_t interpolation; } ns_SpatialCorrelationKernel_Params;
typedef struct { EUpsampleType_t mode; int scale; } ns_UpsampleKernel_Params;
typedef struct { ESparseLengthsSumType_t mode; } ns_SparseLengthsSum_Params;
typedef struct {
    int groupCount, kernelWidth, kernelHeight, strideW, strideH, dilationW, dilationH, padW, padH;
} ns_DeformationTransformation_Params;
typedef struct { int is_relu; } ns_FullyConnected_Params;
typedef struct { EGridGeneratorType_t mode; } ns_GridGeneratorKernel_Params;
typedef struct { float sigma; } ns_SmoothL1Kernel_Params;
typedef struct { float lambda, bias; } ns_ShrinkKernel_Params;
typedef struct { float wd, mom, damp; bool nesterov; } ns_OptimizerSGD_Params;
typedef struct { float mom; bool nesterov; } ns_OptimizerSparseSGD_Params;
typedef struct { float wd, lrd, eps; } ns_OptimizerAdagrad_Params;
typedef struct { float decay, eps; } ns_OptimizerSparseAdagrad_Params;
typedef struct { float eps; } ns_OptimizerRowWiseAdagrad_Params;
typedef struct { float eps, decay; } ns_OptimizerRowWiseAdagrad_ParamsV2;
typedef struct { fint_t start, limit, delta; } ns_RangeKernel_Params;
typedef struct { float nms_threshold; } ns_Nms_Params;
typedef struct { int max_output_size; } ns_PostNms_Params;
typedef struct { int max_output_size, max_size_per_batch; } ns_PostNms_ParamsV2;
typedef struct {
    ns_FilterAndSqueeze_Params filterAndSqueeze; ns_BitonicSort_Params bitonicSort; ns_ScalarMerge_Params mergeSort;
    ns_GatherKernel_Params gather; ns_Nms_Params nms; ns_PostNms_Params postNms;
} ns_ComplexNMS_Params;
typedef struct { ECrossEntropyMode_t mode; int batchSize; } ns_SoftmaxCrossEntropy_Params;
typedef struct { ECrossEntropyMode_t mode; int batchSize, axis; } ns_SoftmaxCrossEntropy_ParamsV2;
typedef struct {
    ECrossEntropyMode_t mode; int batchSize; bool isTfMode; int reserved;
} ns_SoftmaxCrossEntropy_ParamsV3;
typedef struct {
    ECrossEntropyMode_t mode; int batchSize; bool sparse; int reserved[2];
} ns_SoftmaxCrossEntropy_ParamsV4;
typedef struct {
    ECrossEntropyMode_t mode; int batchSize, is_approximation, padding[3];
} ns_SoftmaxCrossEntropy_ParamsV5;
typedef struct { bool isWeightsUsed; ECrossEntropyMode_t mode; } ns_BinaryCrossEntropy_Params;
typedef struct {
    bool isWeightsUsed; ECrossEntropyMode_t mode; bool binaryCrossEntropyWithoutSigmoid;
} ns_BinaryCrossEntropy_ParamsOptionalSigmoid;
typedef struct {
    bool isWeightsUsed; ECrossEntropyMode_t mode; bool binaryCrossEntropyWithoutSigmoid; PosWeightMode_t posMode;
} ns_BinaryCrossEntropy_ParamsOptionalPosWeight;
typedef struct {
    bool isWeightsUsed; ECrossEntropyMode_t mode; bool binaryCrossEntropyWithoutSigmoid; PosWeightMode_t posMode;
    int isNormalizeWeights;
} ns_BinaryCrossEntropy_ParamsOptionalNormalize;
typedef struct { int k; } ns_EyeLikeKernel_Params;
typedef struct {
    int pad_w_begin, pad_w_end, pad_h_begin, pad_h_end, kernel_w, kernel_h, stride_w, stride_h, out_width, out_height;
} ns_MaxUnpoolKernel_Params;
typedef struct { float epsilon; } ns_LogitKernel_Params;
typedef struct { CastF32RoundMode_t round_mode; } ns_CastKernel_Params;
typedef struct { CastF32RoundMode_t round_mode; unsigned int seed; } ns_CastKernel_ParamsV2;
typedef struct { CastF32RoundMode_t round_mode; unsigned int seed; CastSatMode_t mode; } ns_CastKernel_ParamsV3;
typedef struct {
    CastF32RoundMode_t round_mode; unsigned int seed; CastSatMode_t mode; bool safeCastCheck;
} ns_CastKernel_ParamsV4;
typedef struct { int axis; } ns_ScatterKernel_Params;
typedef struct { int axis; ScatterIndicesSizeControl_t isIndicesLarger; } ns_ScatterKernel_ParamsIndices;
typedef struct { int axis; ScatterIndicesSizeControl_t isIndicesLarger; int dim; } ns_ScatterKernel_ParamsV2;
typedef struct {
    int axis; ScatterIndicesSizeControl_t isIndicesLarger; int dim, include_self;
} ns_ScatterKernel_ParamsReduce;
typedef struct { int origIndicesDims, origIndicesShape[5]; } ns_ScatterNDKernel_Params;
typedef struct { int origIndicesDims, origIndicesShape[5]; bool isUnsorted; } ns_ScatterNDKernel_ParamsV2;
typedef struct { int axis; } ns_GatherElementsKernel_Params;
typedef struct { int axis; bool isSort; } ns_GatherElementsKernel_ParamsV2;
typedef struct {
    ResizeInterpolationMode_t mode; float scaleDim1, scaleDim2, scaleDim3;
    ResizeCoordinateTransformationMode_t coordTransMode; ResizeNearestMode_t nearestMode;
    bool excludeOutside, useScales; float cubicCoeffA; int size1, size2, size3;
} ns_ResizeKernel_Params;
typedef struct {
    ResizeInterpolationMode_t mode; float scaleDim1, scaleDim2, scaleDim3;
    ResizeCoordinateTransformationMode_t coordTransMode; ResizeNearestMode_t nearestMode;
    bool excludeOutside, useScales; float cubicCoeffA; int size1, size2, size3, filterWidth; float sigma;
} ns_ResizeKernel_ParamsGauss;
typedef struct { int stg, maxBktLen; bool sSignBit, sortDescending; } ns_RadixSort_Params;
typedef struct { RoiAlignMode_t mode; int sampling_ratio; float spatial_scale; } ns_RoiAlignKernel_Params;
typedef struct { int detect_negative, detect_positive; } ns_IsInfKernel_Params;
typedef struct { int segments; } ns_QuadTree_Params;
typedef struct { int segments; bool isValidCount; } ns_QuadTree_ParamsIsValidCount;
typedef struct {
    int segments; bool isValidCount, enableAbsoluteCoords; float levelScalarFactor;
} ns_QuadTree_ParamsAbsoluteCoords;
typedef struct { CropAndResizeMode_t mode; float extrapolationValue; } ns_CropAndResizeKernel_Params;
typedef struct {
    CropAndResizeMode_t mode; float extrapolationValue; bool isValidCount;
} ns_CropAndResizeKernel_ParamsIsValidCount;
typedef struct {
    CropAndResizeMode_t mode; float extrapolationValue; bool isValidCount; int isOptionalCropsSize, dummy;
} ns_CropAndResizeKernel_ParamsIsOptionalCropsSize;
typedef struct {
    CropAndResizeMode_t mode; float extrapolationValue; bool isValidCount; int isOptionalCropsSize, dummy;
    bool borderReplicate;
} ns_CropAndResizeKernel_ParamsBorderReplicate;
typedef struct {
    CropAndResizeMode_t mode; float extrapolationValue; bool isValidCount; int isOptionalCropsSize, dummy;
    bool borderReplicate, enableAbsoluteCoords; float levelScalarFactor;
} ns_CropAndResizeKernel_ParamsAbsoluteCoords;
typedef struct { CropAndResizeMode_t mode; } ns_CropAndResizeBwdKernel_Params;
typedef struct { CropAndResizeMode_t mode; bool isValidCount; } ns_CropAndResizeBwdKernel_ParamsIsValidCount;
typedef struct {
    CropAndResizeMode_t mode; bool isValidCount; int isOptionalCropsSize, dummy;
} ns_CropAndResizeBwdKernel_ParamsIsOptionalCropsSize;
typedef struct {
    CropAndResizeMode_t mode; bool isValidCount;
    int isOptionalCropsSize, dummy, outputWidthOffset, outputHeightOffset, outputBatchOffset, outputChannelOffset;
} ns_CropAndResizeBwdKernel_ParamsSplitedOutput;
typedef struct {
    CropAndResizeMode_t mode; bool isValidCount;
    int isOptionalCropsSize, dummy, outputWidthOffset, outputHeightOffset, outputBatchOffset, outputChannelOffset;
    bool borderReplicate;
} ns_CropAndResizeBwdKernel_ParamsBorderReplicate;
typedef struct {
    CropAndResizeMode_t mode; bool isValidCount;
    int isOptionalCropsSize, dummy, outputWidthOffset, outputHeightOffset, outputBatchOffset, outputChannelOffset;
    bool borderReplicate, enableAbsoluteCoords; float levelScalarFactor;
} ns_CropAndResizeBwdKernel_ParamsAbsoluteCoords;
typedef struct {
    int num_levels, down_scale_factor; ns_CropAndResizeKernel_ParamsIsValidCount cropAndResize_params;
    ns_AveragePoolingWithDivisorOverride_ParamsIsValidCount avgPool_params;
} ns_PyramidRoiAlignKernel_Params;
typedef struct {
    int num_levels, down_scale_factor; ns_QuadTree_ParamsIsValidCount quadTree_params;
    ns_CropAndResizeBwdKernel_ParamsIsValidCount cropAndResize_params;
    ns_AveragePoolingWithDivisorOverride_ParamsIsValidCount avgPool_params;
} ns_PyramidRoiAlignBwdKernel_Params;
typedef struct { EmbeddingBagMode_t mode; ns_OptimizerSGD_Params sgd; } ns_EmbeddingWithSgdKernel_Params;
typedef struct { EmbeddingBagMode_t mode; ns_OptimizerAdagrad_Params adagrad; } ns_EmbeddingWithAdagradKernel_Params;
typedef struct { EmbeddingBagMode_t mode; ns_OptimizerSGD_Params sgd; } ns_EmbeddingBagWithSgdKernel_Params;
typedef struct { EmbeddingBagMode_t mode; ns_OptimizerAdagrad_Params adagrad; } ns_EmbeddingBagWithAdagradKernel_Params;
typedef struct { int axis, exclusive, reverse; } ns_CumSumKernel_Params;
typedef struct { int axis, exclusive, reverse; } ns_CumProdKernel_Params;
typedef struct { ShiftDir_t direction; } ns_BitShiftKernel_Params;
typedef struct { ShiftDir_t direction; ShiftMode_t mode; } ns_BitShiftKernel_ParamsV2;
typedef struct { int numLower, numUpper; } ns_MatrixBandPartKernel_Params;
typedef struct { int numLower, numUpper, excludeDiag; } ns_MatrixBandPartKernel_triParams;
typedef struct { int axes[4]; } ns_TransposeKernel_Params;
typedef struct { float N; } ns_BatchnormGetMomentsKernel_Params;
typedef struct { int returnInverse, returnCounts, dim; } ns_UniqueKernel_Params;
typedef struct { NLLLossMode_t mode; } ns_NLLLossKernel_Params;
typedef struct { NLLLossMode_t mode; int ignoreIndexValue; } ns_NLLLossKernel_ParamsOptionalIgnoreIndex;
typedef struct { int kMin, kMax, rows, cols; float pad; DiagAlign_t align; } ns_MatrixDiag_Params;
typedef struct { int kMin, kMax; DiagAlign_t align; } ns_MatrixSetDiag_Params;
typedef struct { MSELossMode_t mode; } ns_MSELossKernel_Params;
typedef struct { RoundMode_t roundMode; } ns_RoundKernel_Params;
typedef struct { RoundMode_t roundMode; int num_decimal_round; } ns_RoundKernel_ParamsV2;
typedef struct { int outputWidth, outputHeight; } ns_AdaptiveAvgPool_Params;
typedef struct { float brightness_scale; } ns_Brightness_Params;
typedef struct { int resample, fill; } ns_AffineTransform_Params;
typedef struct {
    int resample, fill; float shearX, shearY; int isAngle; float centerX, centerY;
} ns_AffineTransform_ShearParams;
typedef struct { int resample, fill; float offsetX, offsetY; } ns_AffineTransform_TranslateParams;
typedef struct { float degree; } ns_Hue_Params;
typedef struct { int crop_w, crop_h, crop_d; float crop_pos_x, crop_pos_y, crop_pos_z; int pad_val; } ns_Crop_Params;
typedef struct {
    int crop_w, crop_h, crop_d; float crop_pos_x, crop_pos_y, crop_pos_z; int pad_val, mirror;
} ns_CropMirror_Params;
typedef struct {
    int crop_w, crop_h, crop_d; float crop_pos_x, crop_pos_y, crop_pos_z; int pad_val, mirror;
} ns_CropMirrorNorm_Params;
typedef struct { float saturation_level; } ns_Saturation_Params;
typedef struct { float contrast_scale; } ns_Contrast_Params;
typedef struct { ColorSpaceMode_t colorSpaceMode; } ns_ColorSpaceConversion_Params;
typedef struct { int horizontal, vertical; bool ltrb, isHorizontalTensor, isVerticalTensor; } ns_BbFlip_Params;
typedef struct { int horizontal, vertical, depthwise; } ns_Flip3D_Params;
typedef struct { unsigned int tpcCount; } ns_TfWhere_Params;
typedef struct { float scale, shift; int axis; bool batch; } ns_Normalize_Params;
typedef struct { int k; } ns_GConv_Params;
typedef struct { int packDegree, stride; } ns_WtPack_Params;
typedef struct { int numSegments; } ns_UnsortedSegmentSum_Params;
typedef struct { float colorFactor; } ns_Color_Params;
typedef struct { float threshold; } ns_Solarize_Params;
typedef struct { int axis; } ns_ReverseKernel_Params;
typedef struct { float factor; } ns_Sharpness_Params;
typedef struct { unsigned int reductionDimension; fint_t p; TypeOfP_t typeOfP; } ns_ReduceLpV2_Params;
typedef struct {
    unsigned int reductionDimensionMask; bool keepDim; unsigned char padding0[3]; fint_t p; TypeOfP_t typeOfP;
} ns_ReduceLpV2_ParamsV2;
typedef struct { unsigned int k_value, axis; bool keep_dims; } ns_Kthvalue_Params;
typedef struct { bool approximation; } ns_GeluKernel_Params;
typedef struct { bool approximation; GeluAccuracyMode_t accuracy_mode; } ns_GeluKernel_ParamsV2;
typedef struct { SigmoidFlavor_t flavor; } ns_SigmoidKernel_Params;
typedef struct { float beta, threshold; } ns_Softplus_Params;
typedef struct { float beta, threshold; int accuracyMode; } ns_Softplus_ParamsV2;
typedef struct { fint_t upperBound, lowerBound; } ns_HardTanhKernel_Params;
typedef struct { DivRoundMode_t mode; } ns_DivRoundKernel_Params;
typedef struct { bool useNonLut; } ns_ReciprocalKernel_Params;
typedef struct { fint_t alpha; BinaryWithAlphaMode_t mode; } ns_BinaryWithAlphaKernel_Params;
typedef struct { float value; } ns_AddcmulKernel_Params;
typedef struct { float alpha, beta; } ns_AddmmKernel_Params;
typedef struct { float alpha, beta; } ns_AddmvKernel_Params;
typedef struct { float alpha, beta; } ns_AddrKernel_Params;
typedef struct { float alpha; } ns_Rsub_Params;
typedef struct { float exp_val; } ns_Power_Params;
typedef struct { double nan, posInf, negInf; } ns_NanToNumKernel_Params;
typedef struct { bool isTfMode; } ns_erfinv_Params;
typedef struct { unsigned int bwdStage; int numTpc; } ns_RmsNorm_Params;
typedef struct { unsigned int bwdStage; int numTpc; RmsNormBwdMode_t bwdMode; } ns_RmsNorm_ParamsV2;
typedef struct { unsigned int bwdStage; int numTpc; RmsNormBwdMode_t bwdMode; bool useStages; } ns_RmsNorm_ParamsV3;
typedef struct {
    unsigned int bwdStage; int numTpc; RmsNormBwdMode_t bwdMode; bool useStages, fastMath; int dummy;
} ns_RmsNorm_ParamsV4;
typedef struct { unsigned int NormAxisBmp; } ns_NormMomentsKernel_Params;
typedef struct { unsigned int NormAxisBmp; bool useEstMean; } ns_NormMomentsKernel_ParamsV2;
typedef struct { unsigned int N, G; float epsilon; } ns_NativeGroupNorm_Params;
typedef struct {
    float scale; bool is_causal; ns_DropoutKernel_ParamsOptionalMaskOut dropout; bool is_inference;
} ns_Sdpa_Params;
typedef struct {
    float scale; bool is_causal; ns_DropoutKernel_ParamsOptionalMaskOut dropout; bool is_inference;
    unsigned char padding0[3]; SdpaSoftmaxMode_t softmax_mode;
} ns_Sdpa_ParamsV2;
typedef struct {
    float scale; bool is_causal; ns_DropoutKernel_ParamsOptionalMaskOut dropout; bool is_inference;
    unsigned char padding0[3]; SdpaSoftmaxMode_t softmax_mode; unsigned int flags;
} ns_Sdpa_ParamsV3;
typedef struct {
    float invScaleAttn; unsigned int groupedBatchSize, isUseMax; ScaledMaskedSoftmaxExpMode_t expMode;
} ns_ScaledMaskedSoftmax_Params;
typedef struct {
    float invScaleAttn; unsigned int groupedBatchSize, isUseMax; ScaledMaskedSoftmaxExpMode_t expMode;
    ScaledMaskedTriangularSoftmaxMode_t mode; int allSlicesBase;
} ns_ScaledMaskedSoftmax_ParamsV2;
typedef struct {
    float invScaleAttn; unsigned int groupedBatchSize, isUseMax; ScaledMaskedSoftmaxExpMode_t expMode;
    ScaledMaskedTriangularSoftmaxMode_t mode; int allSlicesBase, isToZeroUpperTriangle;
} ns_ScaledMaskedSoftmax_ParamsV3;
typedef struct { unsigned int offset; } ns_RoPESt2_Params;
typedef struct { unsigned int offset; RotaryPosEmbeddingMode_t mode; } ns_RoPESt2_ParamsV2;
typedef struct { unsigned int base, offset; } ns_RoPE_Params;
typedef struct { CastF32RoundMode_t round_mode; float ratio; unsigned int seed; } ns_DropoutFp8_Params;
typedef struct { ns_Softmax_Params softmax; ns_DropoutKernel_Params dropout; } ns_SoftmaxDropout_Params;
typedef struct { float low, high; unsigned int seed; } ns_PhiloxRandomUniform_Params;
typedef struct { float low, high; unsigned int seed, counterInitial; } ns_PhiloxRandomUniform_ParamsV2;
typedef struct {
    float low, high; unsigned int seed, counterInitial; int low_i, high_i;
} ns_PhiloxRandomUniform_ParamsV3;
typedef struct { unsigned int bsw, axis, bottomK; } ns_TopkNode_Params;
typedef struct { unsigned int bsw; } ns_TopkNodeV2_Params;
typedef struct { unsigned int bsw, axis; } ns_TopkNodeV2_ParamsV2;
typedef struct { unsigned int bsw, axis; bool bottomK; } ns_TopkNodeV2_ParamsV3;
typedef struct {
    unsigned int bsw, axis; bool bottomK, isStable, isVcData; KTensorType_t kType;
} ns_TopkNodeV2_ParamsV4;
typedef struct {
    unsigned int bsw, axis; bool bottomK, isStable, isVcData; KTensorType_t kType; bool avoidHandleNans;
} ns_TopkNodeV2_ParamsV5;
typedef struct { int axis; bool isDescending; RadixSortFlavor_t flavor; } ns_Sort_Params;
typedef struct { int dim; bool include_self; ScatterReduceMode_t mode; } ns_ScatterReduceKernel_Params;
typedef struct { int dim; double value; } ns_ScatterValueKernel_Params;
typedef struct { ScatterNdUpdateMode_t mode; } ns_ScatterNdUpdateKernel_Params;
typedef struct { int axis; } ns_IndexCopy_Params;
typedef struct { bool accumulate; } ns_PutKernel_Params;
typedef struct { int right; } ns_SearchSorted_Params;
typedef struct { int repeat[5], size; } ns_RepeatPt_Params;
typedef struct { int shifts[8], dims[8]; } ns_RollKernel_Params;
typedef struct { int axis; } ns_CumMaxKernel_Params;
typedef struct { int axis, numTpc; } ns_CumMaxKernel_ParamsV2;
typedef struct { int dims; } ns_CountNonZero_Params;
typedef struct { unsigned int pads[10], max_chunks, group_size; } ns_NonzeroV2_Params;
typedef struct { int rows, cols; } ns_Eye_Params;
typedef struct { fint_t value; } ns_MaskedFill_Params;
typedef struct { fint_t value; int value_low, value_high; } ns_MaskedFill_ParamsV2;
typedef struct { bool gradBias; } ns_LinearBwdKernel_Params;
typedef struct { bool skip_other_transpose; } ns_MatmulBwdKernel_Params;
typedef struct { int num_weights, padding_idx; bool scaleGradByFreq; } ns_EmbeddingDensePtBwdKernel_Params;
typedef struct { double max_norm, norm_type; } ns_EmbeddingRenormFwdKernel_Params;
typedef struct { LossMode_t mode; double beta; } ns_SmoothL1LossKernel_Params;
typedef struct { LossMode_t mode; double delta; } ns_HuberLossKernel_Params;
typedef struct { LossMode_t mode; } ns_L1LossKernel_Params;
typedef struct { KLDivMode_t mode; int log_target; } ns_KLDivParams_Params;
typedef struct {
    int pad_w_begin, pad_w_end, pad_h_begin, pad_h_end, kernel_w, kernel_h, stride_w, stride_h, dilation_w,
        dilation_h; EPoolingConvention pooling_convention;
    int pad_d_begin, pad_d_end, kernel_d, stride_d, dilation_d, includePadding, divisorOverride;
} ns_AveragePooling3DWithDivisorOverride_Params;
typedef struct { int outputWidth, outputHeight, outputBatch; } ns_AdaptiveAvgPool3D_Params;
typedef struct { GridSampleInterpolation_t interp; GridSamplePad_t pad; bool alignCorners; } ns_GridSample_Params;
typedef struct { unsigned int upscale_factor; } ns_PixelShuffleKernel_Params;
typedef struct { MemcpyMode_t mode; } ns_Memcpy_Params;
typedef struct { float scale; } ns_Scale_Params;
typedef struct { float scale; int zero_point; } ns_QuantizationPerTensor_Params;
typedef struct { float scale; int zero_point, quant_min, quant_max; } ns_QuantizationPerTensor_ParamsV2;
typedef struct { int axis; } ns_QuantizationPerChannel_Params;
typedef struct { int axis, quant_min, quant_max; } ns_QuantizationPerChannel_ParamsV2;
typedef struct { int blankIndex; LossMode_t mode; int zeroInfinity; } ns_CTCLoss_Params;
/* clang-format on */

#endif
