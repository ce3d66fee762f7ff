// SPDX-License-Identifier: Apache-2.0
// Parameters of nodes for C programs: the structures of synapse_common_types.hpp, member by member.
// The one thing to know: a test asserts that sizes and offsets equal those of the C++ ones; a structure that
// is derived there repeats its base's members here. C has no constructors, so a program sets every member
// that it means (strides, dilations and group counts of a convolution are 1 by default in C++).
#ifndef HABANALABS_SYNAPSE_C_PARAMS_H
#define HABANALABS_SYNAPSE_C_PARAMS_H

typedef struct synActivationParams {
  bool reluEnable;
  bool resAfterPWL;
  uint16_t structPadding;
  uint32_t numChannels;
  uint64_t pwlNegCoeff;
  uint64_t pwlPosCoeff;
} synActivationParams;

typedef struct synConvolutionParams {
  unsigned kW;
  unsigned kH;
  unsigned dW; /* Strides. */
  unsigned dH;
  int padL;
  int padR;
  int padT;
  int padB;
  unsigned dilW;
  unsigned dilH;
  struct synActivationParams activation;
  unsigned nGroups;
  uint32_t structPadding1;
} synConvolutionParams;

typedef struct synConvolutionParamsV2 {
  unsigned kW;
  unsigned kH;
  unsigned dW;
  unsigned dH;
  int padL;
  int padR;
  int padT;
  int padB;
  unsigned dilW;
  unsigned dilH;
  struct synActivationParams activation;
  unsigned nGroups;
  uint32_t structPadding1;
  synConvolutionPaddingType paddingType;
  unsigned reserved[9];
} synConvolutionParamsV2;

typedef struct synDeformableConvParams {
  unsigned kW;
  unsigned kH;
  unsigned dW;
  unsigned dH;
  int padL;
  int padR;
  int padT;
  int padB;
  unsigned dilW;
  unsigned dilH;
  struct synActivationParams activation;
  unsigned nGroups;
  uint32_t structPadding1;
  unsigned nDeformableGroups;
  uint32_t _structPadding2;
} synDeformableConvParams;

typedef struct synDeformableConvParamsV2 {
  unsigned kW;
  unsigned kH;
  unsigned dW;
  unsigned dH;
  int padL;
  int padR;
  int padT;
  int padB;
  unsigned dilW;
  unsigned dilH;
  struct synActivationParams activation;
  unsigned nGroups;
  uint32_t structPadding1;
  unsigned nDeformableGroups;
  uint32_t _structPadding2;
  synConvolutionPaddingType paddingType;
  unsigned reserved[9];
} synDeformableConvParamsV2;

typedef struct synConvolution3DParams {
  unsigned kernel[CONV_KERNEL_SIZE]; /* Width, height, depth; as the next three by synConvParamIndex. */
  unsigned stride[CONV_STRIDE_SIZE];
  int padding[CONV_PAD_SIZE];
  unsigned dilation[CONV_DIL_SIZE];
  uint32_t structPadding1;
  struct synActivationParams activation;
  unsigned nGroups;
  uint32_t structPadding2;
} synConvolution3DParams;

typedef struct synConvolution3DParamsV2 {
  unsigned kernel[CONV_KERNEL_SIZE];
  unsigned stride[CONV_STRIDE_SIZE];
  int padding[CONV_PAD_SIZE];
  unsigned dilation[CONV_DIL_SIZE];
  uint32_t structPadding1;
  struct synActivationParams activation;
  unsigned nGroups;
  uint32_t structPadding2;
  synConvolutionPaddingType paddingType;
  unsigned reserved[9];
} synConvolution3DParamsV2;

typedef struct synRotateParams {
  float m_angle;
  uint32_t m_inputCenterX;
  uint32_t m_inputCenterY;
  uint32_t m_outputCenterX;
  uint32_t m_outputCenterY;
  uint8_t m_background;
  bool m_isDumpDescriptors;
  uint16_t m_structPad;
  void* m_descFilePrefix[4]; /* A std::string in C++, which nothing reads; zero here. */
} synRotateParams;

typedef struct synWaitParams {
  unsigned waitCycles;
} synWaitParams;

typedef struct synGEMMParams {
  bool transpose_a;
  bool transpose_b;
} synGEMMParams;

typedef struct synFCParams {
  struct synActivationParams activation;
} synFCParams;

typedef struct synTransposeParams {
  TransposePermutationDim permutation[MAX_DIMENSIONS_NUM];
  unsigned tensorDim;
} synTransposeParams;

typedef struct synTransposeParamsNDims {
  unsigned tensorDim;
  uint32_t permutation[HABANA_DIM_MAX];
} synTransposeParamsNDims;

typedef struct synInferMaxParams {
  bool shouldInferMax[HABANA_DIM_MAX];
} synInferMaxParams;

typedef struct synDepthSpaceParams {
  unsigned blockSize;
  unsigned mode;
} synDepthSpaceParams;

typedef struct synQuantizationParams {
  double m_zp;
  double m_scale;
  unsigned m_expBias;
  synDataType m_qDataType;
  uint32_t m_structPad;
} synQuantizationParams;

typedef struct synPerChannelQuantizationParams {
  double* m_pcZps;
  double* m_pcScales;
  unsigned* m_pcExpBias;
  unsigned m_numChannels;
  synDataType m_qDataType;
} synPerChannelQuantizationParams;

typedef struct DynamicRange {
  double min;
  double max;
  bool isSet;
} DynamicRange;

/* Of the deprecated synTensorCreate. */
struct synTensorDescriptor {
  unsigned m_batchPos;
  synDataType m_dataType;
  unsigned m_dims;
  unsigned m_sizes[SYN_MAX_TENSOR_DIM];
  synQuantizationParams m_quantizationParams[6];
  void* m_ptr;
  bool m_isWeights;
  bool m_isQuantized;
  const char* m_name;
  unsigned m_strides[SYN_MAX_TENSOR_DIM];
  bool m_isOutput;
  bool m_enablePerChannelQuant;
  synPerChannelQuantizationParams m_perChannelQuantizationParams[6];
  bool m_isInput;
  bool m_isStatic;
  unsigned m_minSizes[SYN_MAX_TENSOR_DIM];
  synTensorType m_tensorType;
  DynamicRange m_dynamicRange;
  bool m_isSparsityWeights;
};

typedef struct synBeamParams {
  unsigned bsw;
  unsigned axis;
  bool bottomK;
  uint8_t structPad1;
  uint16_t structPad2;
} synBeamParams;

typedef struct synEinsumParams {
  char equation[MAX_EINSUM_EQUATION_LENGTH + 1];
} synEinsumParams;

typedef struct synStridedOpParams {
  uint64_t baseOffset; /* In elements, as the strides. */
  uint64_t strides[HABANA_DIM_MAX];
} synStridedOpParams;

typedef struct synSliceAxisParamsV2 {
  unsigned axis;
  unsigned _structPadding;
  uint64_t begin;
  uint64_t end;
} synSliceAxisParamsV2;

typedef struct synSliceParamsV2 {
  unsigned axes[HABANA_DIM_MAX];
  unsigned _structPadding;
  TSize starts[HABANA_DIM_MAX];
  TSize ends[HABANA_DIM_MAX];
  TSize steps[HABANA_DIM_MAX];
} synSliceParamsV2;

typedef struct synPhysicalConcatSplitSubnodeParams {
  unsigned concatSplitDim;
  unsigned nodeNumberInConcatSplit;
  bool isSplit;
  uint8_t structPad1;
  uint16_t structPad2;
} synPhysicalConcatSplitSubnodeParams;

typedef struct synStaticReshapeSifParams {
  TSize inputMaxSizes[HABANA_DIM_MAX];
  TSize outputMaxSizes[HABANA_DIM_MAX];
  char inputStaticDims[HABANA_DIM_MAX];
  char outputStaticDims[HABANA_DIM_MAX];
  uint16_t structPad2;
  unsigned dimsNum;
} synStaticReshapeSifParams;

#endif
