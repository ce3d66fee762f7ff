// SPDX-License-Identifier: Apache-2.0
// Parameter structures of the TPC nodes, as synNodeCreate takes them (docs/synapse-guids.md lists which node takes
// which). The one thing to know: a newer form of a structure derives from the older one, and the receiver tells them
// apart by paramsSize. From C the same names come as plain structures: ns_ReluKernel::Params is ns_ReluKernel_Params.
#ifndef HPU_PERF_LIB_LAYER_PARAMS_H
#define HPU_PERF_LIB_LAYER_PARAMS_H

#ifndef __cplusplus
#include "perf_lib_layer_params_c.h"
#else
#include "perf_lib_enums.h"

// clang-format off
namespace ns_LongLoop { struct Params { unsigned int count; }; }
namespace ns_L2normKernel { struct Params { float epsilon; }; }
namespace ns_PrintfTestKernel {
struct Params {
    int int_val; unsigned int uint_val; float float_val; short short_val __attribute__((aligned(4)));
    unsigned short ushort_val __attribute__((aligned(4))); char char_val __attribute__((aligned(4)));
    unsigned char uchar_val __attribute__((aligned(4)));
};
}
namespace ns_PrintfVpuDemoKernel {
struct Params { fint_t val_0; int pos_0; fint_t val_1; int pos_1; fint_t val_2; int pos_2; };
}
namespace ns_RsqrtKernel { struct Params { bool useNonLut; }; }
namespace ns_DivModKernel {
struct Params { bool isPyCompatible; };
struct ParamsV2 : public Params { bool isTruncRoundingMode; };
}
namespace ns_ClampKernel { struct Params { fint_t upperBound, lowerBound; }; }
namespace ns_HardSigmoidKernel { struct Params { float alpha, beta; }; }
namespace ns_ReluKernel {
struct Params { fint_t threshold; };
struct ParamsV2 : public Params { fint_t replacementValue; };
}
namespace ns_SeluKernel {
struct Params { float gamma, alpha; };
struct ParamsV2 : public Params { bool isInputFeaturemap; };
}
namespace ns_EluKernel {
struct Params { float alpha; };
struct ParamsV2 : public Params { bool isInputFeaturemap; };
struct ParamsV3 : public ParamsV2 { float scale, input_scale; };
}
namespace ns_LeakyReluKernel { struct Params { double alpha; }; }
namespace ns_BatchNormKernel {
struct Params { fint_t threshold; float momentum, epsilon; };
struct ParamsV2 : public Params { bool isTraining; };
}
namespace ns_BatchNormVarienceKernel { struct Params { fint_t threshold; float momentum, epsilon, N; }; }
namespace ns_BatchNormStage1Kernel {
struct Params { int disable_beta_gamma_update, N; };
struct ParamsV2 : public Params { bool isTraining; };
struct ParamsV3 : public ParamsV2 { BatchNormMode_t mode; };
struct ParamsV4 : public ParamsV3 { BatchNormRoundingMode_t roundingMode; };
}
namespace ns_BatchNormStage2Kernel {
struct Params { float momentum; int disable_runnings_update, N; float epsilon; };
struct ParamsV2 : public Params { bool isTraining; };
struct ParamsV3 : public ParamsV2 { BatchNormMode_t mode; };
struct ParamsV4 : public ParamsV3 { BatchNormRoundingMode_t roundingMode; };
}
namespace ns_InstanceNormKernel { struct Params { fint_t threshold; }; }
namespace ns_InstanceNormTrainingKernel {
struct Params { float momentum, eps; };
struct ParamsRelu : public Params { int enRelu; };
}
namespace ns_LayerNormKernelRelu {
struct Params { fint_t threshold; bool epsValid; fint_t eps; };
struct ParamsNorm : public Params { int NormAxisBmp, ParamAxisBmp; };
}
namespace ns_LayerNormKernel {
struct Params { bool epsValid; float eps; };
struct ParamsNorm : public Params { int NormAxisBmp, ParamAxisBmp; };
struct ParamsPt : public ParamsNorm { unsigned int normalizedShapeDims; };
struct ParamsRmsNorm : public ParamsPt { bool fastMath; };
}
namespace ns_LayerNormStage1Kernel { struct Params { int chunkSize; }; }
namespace ns_LrnKernel { struct Params { float alpha, beta, knorm; int nsize; }; }
namespace ns_LpNormKernel {
struct Params { float p, eps; int dim; };
struct ParamsNorm : public Params { bool epsMax; };
}
namespace ns_LpNormFroStage1Kernel { struct Params { int chunkSize; }; }
namespace ns_Softmax {
struct Params { int dim; };
struct ParamsV2 : public Params { bool isRaggedSoftMax; };
struct ParamsV3 : public Params { DataTypeSize_t dataTypeSize; };
struct ParamsV4 : public ParamsV3 { int validCountAxis; };
struct ParamsV5 : public ParamsV4 { int is_approximation; };
struct ParamsV6 : public ParamsV5 { int triangularMode; };
struct ParamsV7 : public ParamsV6 { SoftmaxMode_t mode; };
}
namespace ns_ConstantKernel {
struct Params { fint_t constant; };
struct Params_v2 { int const_low, const_high; };
}
namespace ns_RandomUniform {
struct Params { float low, high; unsigned int seed; };
struct ParamsV2 { fint_t low, high; unsigned int seed; int dummy; };
struct ParamsV3 { fint_t low, high; unsigned int seed; int reserved[2]; };
}
namespace ns_RandomNormal {
struct Params { float mean, stddev; unsigned int seed; };
struct ParamsV2 : public Params { bool usePhilox; };
}
namespace ns_RandomSeed { struct Params { unsigned int seed; }; }
namespace ns_RandomMultinomial {
struct Params { int outcomes, shape, get_prob; unsigned int seed; };
struct ParamsV2 { int num_samples; bool replacement; };
struct ParamsV3 : public ParamsV2 { int isTfMode; bool useRandomSeed; };
}
namespace ns_RandomExponential { struct Params { float beta; unsigned int seed; }; }
namespace ns_RandomGamma { struct Params { float alpha, beta; unsigned int seed; }; }
namespace ns_RandomNegativeBinomial { struct Params { float k, p; unsigned int seed; }; }
namespace ns_RandomBernoulli {
struct Params { unsigned int seed; };
struct ParamsV2 : public Params { float probability; };
}
namespace ns_XavierFill { struct Params { unsigned int seed; }; }
namespace ns_Pick { struct Params { int axis; }; }
namespace ns_RandomPoisson {
struct Params { float lambda; unsigned int seed; };
struct ParamsV2 : public Params { RandomPoissonFlavor_t flavor; };
}
namespace ns_BitonicSort {
struct Params { int chunkSize, axis; SortDirection_t dir; bool isInputSqueezed; };
struct ParamsV2 : public Params { bool isStable; };
}
namespace ns_SortStep { struct Params { int totalIterations, iterationNumber, axis; bool is_ascend; }; }
namespace ns_FilterAndSqueeze { struct Params { fint_t threshold; }; }
namespace ns_ScalarMerge {
struct Params { int inputChunkSize, topK; SortDirection_t sortDirection; int axis; bool isInputSqueezed; };
}
namespace ns_SortBwd { struct Params { int topK, axis; }; }
namespace ns_SortPreProcess { struct Params { int staticChunkSize, axis; SortDirection_t sortDir; }; }
namespace ns_GenerateBitonicChunks {
struct Params { int staticChunkSize, axis; SortDirection_t sortDir; };
struct ParamsV2 : public Params { bool isTopK, isStable; };
}
namespace ns_LargeBitonicMerge {
struct Params { int staticChunkSize, axis; SortDirection_t sortDir; int blockId, stageId; };
struct ParamsV2 : public Params { bool isStable; };
}
namespace ns_SmallBitonicMerge {
struct Params { int staticChunkSize, blockId, axis; SortDirection_t sortDir; };
struct ParamsV2 : public Params { bool isStable; };
}
namespace ns_TopK {
struct Params { unsigned int kSize, axis, chunkSize; };
struct ParamsV2 : public Params { unsigned int bottomK; };
}
namespace ns_GruKernel { struct Params { int expX, expCt; }; }
namespace ns_LstmKernel { struct Params { int timeStamp, expGatesIntermediate; }; }
namespace ns_BsKernel {
struct Params { unsigned int k, b, vocSize, maxOutputLen, decoderOutputSize; float scaleFix, scaleGem; int zp; };
}
namespace ns_Reduction {
struct Params { unsigned int reductionDimension; };
struct ParamsV2 { unsigned int reductionDimensionMask; bool keepDim; };
}
namespace ns_ReduceLp { struct Params : public ns_Reduction::Params { unsigned int p; }; }
namespace ns_SpatialReduction {
struct Params {
    int pad_w_begin, pad_w_end, pad_h_begin, pad_h_end, kernel_w, kernel_h, stride_w, stride_h, dilation_w,
        dilation_h; EPoolingConvention pooling_convention;
};
}
namespace ns_SpatialReduction3D {
struct Params : public ns_SpatialReduction::Params { int pad_d_begin, pad_d_end, kernel_d, stride_d, dilation_d; };
}
namespace ns_AveragePooling {
struct Params : public ns_SpatialReduction::Params { int includePadding; };
struct ParamsIsValidCount : public Params { bool isValidCount; int dummy; };
}
namespace ns_AveragePoolingWithDivisorOverride {
struct Params : public ns_AveragePooling::Params { int divisorOverride; };
struct ParamsIsValidCount : public Params { bool isValidCount; int dummy; };
}
namespace ns_AveragePooling3D { struct Params : public ns_SpatialReduction3D::Params { int includePadding; }; }
namespace ns_MaxPoolRoiKernel { struct Params { unsigned int num_channels, pooled_shapeX, pooled_shapeY, num_roi; }; }
namespace ns_PadKernel { struct Params { fint_t value; unsigned int pads[10]; }; }
namespace ns_PadKernelEx {
struct Params : public ns_PadKernel::Params { PadMode_t mode; };
struct ParamsWithAlign : public Params { unsigned int output_size_alignment[5]; };
}
namespace ns_LpPooling3D { struct Params : public ns_SpatialReduction3D::Params { int p; }; }
namespace ns_SequenceLength { struct Params { int use_sequence_length, batch_axis, time_axis; }; }
namespace ns_TileKernel {
struct Params { int repeat[4]; };
struct ParamsV2 { int repeat[5]; };
}
namespace ns_SequenceMask { struct Params { bool use_sequence_length; float mask_value; }; }
namespace ns_DropoutKernel {
struct Params { float ratio; unsigned int seed; };
struct ParamsOptionalMaskOut : public Params { bool disableMaskOut; };
struct ParamsOptionalTrain : public ParamsOptionalMaskOut { int isTraining; };
}
namespace ns_RepeatKernel {
struct Params { int repeats, axis; };
struct ParamsV2 : public Params { RepeatMode_t mode; };
}
namespace ns_RepeatKernelGaudiTF { struct Params { int axis; }; }
namespace ns_TakeKernel { struct Params { int axis, mode; }; }
namespace ns_GatherKernel {
struct Params { int axis; };
struct ParamsV2 : public Params { int batchDims; };
}
namespace ns_FlipKernel {
struct Params { int axis; };
struct ParamsV2 { int dims[5]; unsigned int num_dims; };
}
namespace ns_CompressKernel { struct Params { int axis; }; }
namespace ns_RavelKernel { struct Params { int shape[5]; }; }
namespace ns_OneHotKernel {
struct Params { int axis, depth; float on_value, off_value; };
struct ParamsV2 : public Params { int is_out_reshaped; };
}
namespace ns_CorrelationKernel {
struct Params { int kernel_size, max_displacement, stride1, stride2, pad_size, is_multiply; };
}
namespace ns_SpatialCorrelationKernel { struct Params { SpatialCorrelation_t interpolation; }; }
namespace ns_UpsampleKernel { struct Params { EUpsampleType_t mode; int scale; }; }
namespace ns_SparseLengthsSum { struct Params { ESparseLengthsSumType_t mode; }; }
namespace ns_DeformationTransformation {
struct Params { int groupCount, kernelWidth, kernelHeight, strideW, strideH, dilationW, dilationH, padW, padH; };
}
namespace ns_FullyConnected { struct Params { int is_relu; }; }
namespace ns_GridGeneratorKernel { struct Params { EGridGeneratorType_t mode; }; }
namespace ns_SmoothL1Kernel { struct Params { float sigma; }; }
namespace ns_ShrinkKernel { struct Params { float lambda, bias; }; }
namespace ns_OptimizerSGD { struct Params { float wd, mom, damp; bool nesterov; }; }
namespace ns_OptimizerSparseSGD { struct Params { float mom; bool nesterov; }; }
namespace ns_OptimizerAdagrad { struct Params { float wd, lrd, eps; }; }
namespace ns_OptimizerSparseAdagrad { struct Params { float decay, eps; }; }
namespace ns_OptimizerRowWiseAdagrad {
struct Params { float eps; };
struct ParamsV2 : public Params { float decay; };
}
namespace ns_RangeKernel { struct Params { fint_t start, limit, delta; }; }
namespace ns_Nms { struct Params { float nms_threshold; }; }
namespace ns_PostNms {
struct Params { int max_output_size; };
struct ParamsV2 : public Params { int max_size_per_batch; };
}
namespace ns_ComplexNMS {
struct Params {
    ns_FilterAndSqueeze::Params filterAndSqueeze; ns_BitonicSort::Params bitonicSort;
    ns_ScalarMerge::Params mergeSort; ns_GatherKernel::Params gather; ns_Nms::Params nms; ns_PostNms::Params postNms;
};
}
namespace ns_SoftmaxCrossEntropy {
struct Params { ECrossEntropyMode_t mode; int batchSize; };
struct ParamsV2 : public Params { int axis; };
struct ParamsV3 : public Params { bool isTfMode; int reserved; };
struct ParamsV4 : public Params { bool sparse; int reserved[2]; };
struct ParamsV5 : public Params { int is_approximation, padding[3]; };
}
namespace ns_BinaryCrossEntropy {
struct Params { bool isWeightsUsed; ECrossEntropyMode_t mode; };
struct ParamsOptionalSigmoid : public Params { bool binaryCrossEntropyWithoutSigmoid; };
struct ParamsOptionalPosWeight : public ParamsOptionalSigmoid { PosWeightMode_t posMode; };
struct ParamsOptionalNormalize : public ParamsOptionalPosWeight { int isNormalizeWeights; };
}
namespace ns_EyeLikeKernel { struct Params { int k; }; }
namespace ns_MaxUnpoolKernel {
struct Params {
    int pad_w_begin, pad_w_end, pad_h_begin, pad_h_end, kernel_w, kernel_h, stride_w, stride_h, out_width, out_height;
};
}
namespace ns_LogitKernel { struct Params { float epsilon; }; }
namespace ns_CastKernel {
struct Params { CastF32RoundMode_t round_mode; };
struct ParamsV2 : public Params { unsigned int seed; };
struct ParamsV3 : public ParamsV2 { CastSatMode_t mode; };
struct ParamsV4 : public ParamsV3 { bool safeCastCheck; };
}
namespace ns_ScatterKernel {
struct Params { int axis; };
struct ParamsIndices : public Params { ScatterIndicesSizeControl_t isIndicesLarger; };
struct ParamsV2 : public ParamsIndices { int dim; };
struct ParamsReduce : public ParamsV2 { int include_self; };
}
namespace ns_ScatterNDKernel {
struct Params { int origIndicesDims, origIndicesShape[5]; };
struct ParamsV2 : public Params { bool isUnsorted; };
}
namespace ns_GatherElementsKernel {
struct Params { int axis; };
struct ParamsV2 : public Params { bool isSort; };
}
namespace ns_ResizeKernel {
struct Params {
    ResizeInterpolationMode_t mode; float scaleDim1, scaleDim2, scaleDim3;
    ResizeCoordinateTransformationMode_t coordTransMode; ResizeNearestMode_t nearestMode;
    bool excludeOutside, useScales; float cubicCoeffA; int size1, size2, size3;
};
struct ParamsGauss : public Params { int filterWidth; float sigma; };
}
namespace ns_RadixSort { struct Params { int stg, maxBktLen; bool sSignBit, sortDescending; }; }
namespace ns_RoiAlignKernel { struct Params { RoiAlignMode_t mode; int sampling_ratio; float spatial_scale; }; }
namespace ns_IsInfKernel { struct Params { int detect_negative, detect_positive; }; }
namespace ns_QuadTree {
struct Params { int segments; };
struct ParamsIsValidCount : public Params { bool isValidCount; };
struct ParamsAbsoluteCoords : public ParamsIsValidCount { bool enableAbsoluteCoords; float levelScalarFactor; };
}
namespace ns_CropAndResizeKernel {
struct Params { CropAndResizeMode_t mode; float extrapolationValue; };
struct ParamsIsValidCount : public Params { bool isValidCount; };
struct ParamsIsOptionalCropsSize : public ParamsIsValidCount { int isOptionalCropsSize, dummy; };
struct ParamsBorderReplicate : public ParamsIsOptionalCropsSize { bool borderReplicate; };
struct ParamsAbsoluteCoords : public ParamsBorderReplicate { bool enableAbsoluteCoords; float levelScalarFactor; };
}
namespace ns_CropAndResizeBwdKernel {
struct Params { CropAndResizeMode_t mode; };
struct ParamsIsValidCount : public Params { bool isValidCount; };
struct ParamsIsOptionalCropsSize : public ParamsIsValidCount { int isOptionalCropsSize, dummy; };
struct ParamsSplitedOutput : public ParamsIsOptionalCropsSize {
    int outputWidthOffset, outputHeightOffset, outputBatchOffset, outputChannelOffset;
};
struct ParamsBorderReplicate : public ParamsSplitedOutput { bool borderReplicate; };
struct ParamsAbsoluteCoords : public ParamsBorderReplicate { bool enableAbsoluteCoords; float levelScalarFactor; };
}
namespace ns_PyramidRoiAlignKernel {
struct Params {
    int num_levels, down_scale_factor; ns_CropAndResizeKernel::ParamsIsValidCount cropAndResize_params;
    ns_AveragePoolingWithDivisorOverride::ParamsIsValidCount avgPool_params;
};
}
namespace ns_PyramidRoiAlignBwdKernel {
struct Params {
    int num_levels, down_scale_factor; ns_QuadTree::ParamsIsValidCount quadTree_params;
    ns_CropAndResizeBwdKernel::ParamsIsValidCount cropAndResize_params;
    ns_AveragePoolingWithDivisorOverride::ParamsIsValidCount avgPool_params;
};
}
namespace ns_EmbeddingWithSgdKernel { struct Params { EmbeddingBagMode_t mode; ns_OptimizerSGD::Params sgd; }; }
namespace ns_EmbeddingWithAdagradKernel {
struct Params { EmbeddingBagMode_t mode; ns_OptimizerAdagrad::Params adagrad; };
}
namespace ns_EmbeddingBagWithSgdKernel { struct Params { EmbeddingBagMode_t mode; ns_OptimizerSGD::Params sgd; }; }
namespace ns_EmbeddingBagWithAdagradKernel {
struct Params { EmbeddingBagMode_t mode; ns_OptimizerAdagrad::Params adagrad; };
}
namespace ns_CumSumKernel { struct Params { int axis, exclusive, reverse; }; }
namespace ns_CumProdKernel { struct Params { int axis, exclusive, reverse; }; }
namespace ns_BitShiftKernel {
struct Params { ShiftDir_t direction; };
struct ParamsV2 : public Params { ShiftMode_t mode; };
}
namespace ns_MatrixBandPartKernel {
struct Params { int numLower, numUpper; };
struct triParams : public Params { int excludeDiag; };
}
namespace ns_TransposeKernel { struct Params { int axes[4]; }; }
namespace ns_BatchnormGetMomentsKernel { struct Params { float N; }; }
namespace ns_UniqueKernel { struct Params { int returnInverse, returnCounts, dim; }; }
namespace ns_NLLLossKernel {
struct Params { NLLLossMode_t mode; };
struct ParamsOptionalIgnoreIndex : public Params { int ignoreIndexValue; };
}
namespace ns_MatrixDiag { struct Params { int kMin, kMax, rows, cols; float pad; DiagAlign_t align; }; }
namespace ns_MatrixSetDiag { struct Params { int kMin, kMax; DiagAlign_t align; }; }
namespace ns_MSELossKernel { struct Params { MSELossMode_t mode; }; }
namespace ns_RoundKernel {
struct Params { RoundMode_t roundMode; };
struct ParamsV2 : public Params { int num_decimal_round; };
}
namespace ns_AdaptiveAvgPool { struct Params { int outputWidth, outputHeight; }; }
namespace ns_Brightness { struct Params { float brightness_scale; }; }
namespace ns_AffineTransform {
struct Params { int resample, fill; };
struct ShearParams : public Params { float shearX, shearY; int isAngle; float centerX, centerY; };
struct TranslateParams : public Params { float offsetX, offsetY; };
}
namespace ns_Hue { struct Params { float degree; }; }
namespace ns_Crop {
struct Params { int crop_w, crop_h, crop_d; float crop_pos_x, crop_pos_y, crop_pos_z; int pad_val; };
}
namespace ns_CropMirror { struct Params : public ns_Crop::Params { int mirror; }; }
namespace ns_CropMirrorNorm { struct Params : public ns_Crop::Params { int mirror; }; }
namespace ns_Saturation { struct Params { float saturation_level; }; }
namespace ns_Contrast { struct Params { float contrast_scale; }; }
namespace ns_ColorSpaceConversion { struct Params { ColorSpaceMode_t colorSpaceMode; }; }
namespace ns_BbFlip { struct Params { int horizontal, vertical; bool ltrb, isHorizontalTensor, isVerticalTensor; }; }
namespace ns_Flip3D { struct Params { int horizontal, vertical, depthwise; }; }
namespace ns_TfWhere { struct Params { unsigned int tpcCount; }; }
namespace ns_Normalize { struct Params { float scale, shift; int axis; bool batch; }; }
namespace ns_GConv { struct Params { int k; }; }
namespace ns_WtPack { struct Params { int packDegree, stride; }; }
namespace ns_UnsortedSegmentSum { struct Params { int numSegments; }; }
namespace ns_Color { struct Params { float colorFactor; }; }
namespace ns_Solarize { struct Params { float threshold; }; }
namespace ns_ReverseKernel { struct Params { int axis; }; }
namespace ns_Sharpness { struct Params { float factor; }; }
namespace ns_ReduceLpV2 {
struct Params : public ns_Reduction::Params { fint_t p; TypeOfP_t typeOfP; };
struct ParamsV2 : public ns_Reduction::ParamsV2 { fint_t p; TypeOfP_t typeOfP; };
}
namespace ns_Kthvalue { struct Params { unsigned int k_value, axis; bool keep_dims; }; }
namespace ns_GeluKernel {
struct Params { bool approximation; };
struct ParamsV2 : public Params { GeluAccuracyMode_t accuracy_mode; };
}
namespace ns_SigmoidKernel { struct Params { SigmoidFlavor_t flavor; }; }
namespace ns_Softplus {
struct Params { float beta, threshold; };
struct ParamsV2 : public Params { int accuracyMode; };
}
namespace ns_HardTanhKernel { struct Params { fint_t upperBound, lowerBound; }; }
namespace ns_DivRoundKernel { struct Params { DivRoundMode_t mode; }; }
namespace ns_ReciprocalKernel { struct Params { bool useNonLut; }; }
namespace ns_BinaryWithAlphaKernel { struct Params { fint_t alpha; BinaryWithAlphaMode_t mode; }; }
namespace ns_AddcmulKernel { struct Params { float value; }; }
namespace ns_AddmmKernel { struct Params { float alpha, beta; }; }
namespace ns_AddmvKernel { struct Params { float alpha, beta; }; }
namespace ns_AddrKernel { struct Params { float alpha, beta; }; }
namespace ns_Rsub { struct Params { float alpha; }; }
namespace ns_Power { struct Params { float exp_val; }; }
namespace ns_NanToNumKernel { struct Params { double nan, posInf, negInf; }; }
namespace ns_erfinv { struct Params { bool isTfMode; }; }
namespace ns_RmsNorm {
struct Params { unsigned int bwdStage; int numTpc; };
struct ParamsV2 : public Params { RmsNormBwdMode_t bwdMode; };
struct ParamsV3 : public ParamsV2 { bool useStages; };
struct ParamsV4 : public ParamsV3 { bool fastMath; int dummy; };
}
namespace ns_NormMomentsKernel {
struct Params { unsigned int NormAxisBmp; };
struct ParamsV2 : public Params { bool useEstMean; };
}
namespace ns_NativeGroupNorm { struct Params { unsigned int N, G; float epsilon; }; }
namespace ns_Sdpa {
struct Params { float scale; bool is_causal; ns_DropoutKernel::ParamsOptionalMaskOut dropout; bool is_inference; };
struct ParamsV2 : public Params { SdpaSoftmaxMode_t softmax_mode; };
struct ParamsV3 : public ParamsV2 { unsigned int flags; };
}
namespace ns_ScaledMaskedSoftmax {
struct Params { float invScaleAttn; unsigned int groupedBatchSize, isUseMax; ScaledMaskedSoftmaxExpMode_t expMode; };
struct ParamsV2 : public Params { ScaledMaskedTriangularSoftmaxMode_t mode; int allSlicesBase; };
struct ParamsV3 : public ParamsV2 { int isToZeroUpperTriangle; };
}
namespace ns_RoPESt2 {
struct Params { unsigned int offset; };
struct ParamsV2 : public Params { RotaryPosEmbeddingMode_t mode; };
}
namespace ns_RoPE { struct Params { unsigned int base, offset; }; }
namespace ns_DropoutFp8 { struct Params : public ns_CastKernel::Params { float ratio; unsigned int seed; }; }
namespace ns_SoftmaxDropout { struct Params { ns_Softmax::Params softmax; ns_DropoutKernel::Params dropout; }; }
namespace ns_PhiloxRandomUniform {
struct Params { float low, high; unsigned int seed; };
struct ParamsV2 : public Params { unsigned int counterInitial; };
struct ParamsV3 : public ParamsV2 { int low_i, high_i; };
}
namespace ns_TopkNode { struct Params { unsigned int bsw, axis, bottomK; }; }
namespace ns_TopkNodeV2 {
struct Params { unsigned int bsw; };
struct ParamsV2 : public Params { unsigned int axis; };
struct ParamsV3 : public ParamsV2 { bool bottomK; };
struct ParamsV4 : public ParamsV3 { bool isStable, isVcData; KTensorType_t kType; };
struct ParamsV5 : public ParamsV4 { bool avoidHandleNans; };
}
namespace ns_Sort { struct Params { int axis; bool isDescending; RadixSortFlavor_t flavor; }; }
namespace ns_ScatterReduceKernel { struct Params { int dim; bool include_self; ScatterReduceMode_t mode; }; }
namespace ns_ScatterValueKernel { struct Params { int dim; double value; }; }
namespace ns_ScatterNdUpdateKernel { struct Params { ScatterNdUpdateMode_t mode; }; }
namespace ns_IndexCopy { struct Params { int axis; }; }
namespace ns_PutKernel { struct Params { bool accumulate; }; }
namespace ns_SearchSorted { struct Params { int right; }; }
namespace ns_RepeatPt { struct Params { int repeat[5], size; }; }
namespace ns_RollKernel { struct Params { int shifts[8], dims[8]; }; }
namespace ns_CumMaxKernel {
struct Params { int axis; };
struct ParamsV2 : public Params { int numTpc; };
}
namespace ns_CountNonZero { struct Params { int dims; }; }
namespace ns_NonzeroV2 { struct Params { unsigned int pads[10], max_chunks, group_size; }; }
namespace ns_Eye { struct Params { int rows, cols; }; }
namespace ns_MaskedFill {
struct Params { fint_t value; };
struct ParamsV2 : public Params { int value_low, value_high; };
}
namespace ns_LinearBwdKernel { struct Params { bool gradBias; }; }
namespace ns_MatmulBwdKernel { struct Params { bool skip_other_transpose; }; }
namespace ns_EmbeddingDensePtBwdKernel { struct Params { int num_weights, padding_idx; bool scaleGradByFreq; }; }
namespace ns_EmbeddingRenormFwdKernel { struct Params { double max_norm, norm_type; }; }
namespace ns_SmoothL1LossKernel { struct Params { LossMode_t mode; double beta; }; }
namespace ns_HuberLossKernel { struct Params { LossMode_t mode; double delta; }; }
namespace ns_L1LossKernel { struct Params { LossMode_t mode; }; }
namespace ns_KLDivParams { struct Params { KLDivMode_t mode; int log_target; }; }
namespace ns_AveragePooling3DWithDivisorOverride {
struct Params : public ns_AveragePooling3D::Params { int divisorOverride; };
}
namespace ns_AdaptiveAvgPool3D { struct Params { int outputWidth, outputHeight, outputBatch; }; }
namespace ns_GridSample { struct Params { GridSampleInterpolation_t interp; GridSamplePad_t pad; bool alignCorners; }; }
namespace ns_PixelShuffleKernel { struct Params { unsigned int upscale_factor; }; }
namespace ns_Memcpy { struct Params { MemcpyMode_t mode; }; }
namespace ns_Scale { struct Params { float scale; }; }
namespace ns_QuantizationPerTensor {
struct Params { float scale; int zero_point; };
struct ParamsV2 : public Params { int quant_min, quant_max; };
}
namespace ns_QuantizationPerChannel {
struct Params { int axis; };
struct ParamsV2 : public Params { int quant_min, quant_max; };
}
namespace ns_CTCLoss { struct Params { int blankIndex; LossMode_t mode; int zeroInfinity; }; }
// clang-format on

#endif  // __cplusplus
#endif
