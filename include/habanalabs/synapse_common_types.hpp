// SPDX-License-Identifier: Apache-2.0
// Parameters of nodes for C++ programs (C++11 and later), with defaults and constructors.
// The one thing to know: included by synapse_common_types.h; their layouts are those of synapse_c_params.h.
#ifndef HABANALABS_SYNAPSE_COMMON_TYPES_HPP
#define HABANALABS_SYNAPSE_COMMON_TYPES_HPP

#include "synapse_common_types.h"

#include <algorithm>
#include <cstring>
#include <string>

static const size_t TENSOR_DEFAULT_MIN_SIZE = 0;

struct synActivationParams {
  bool reluEnable = false;
  bool resAfterPWL = false;
  uint16_t structPadding = 0;
  uint32_t numChannels = 1;
  uint64_t pwlNegCoeff = 0;
  uint64_t pwlPosCoeff = 0;
};

struct synConvolutionParams {
  unsigned kW = 1;
  unsigned kH = 1;
  unsigned dW = 1;  // Strides.
  unsigned dH = 1;
  int padL = 0;
  int padR = 0;
  int padT = 0;
  int padB = 0;
  unsigned dilW = 1;
  unsigned dilH = 1;
  struct synActivationParams activation;
  unsigned nGroups = 1;
  uint32_t structPadding1 = 0;

  synConvolutionParams() = default;
  synConvolutionParams(unsigned kernelW, unsigned kernelH, unsigned strideW, unsigned strideH, unsigned left,
                       unsigned right, unsigned top, unsigned bottom, unsigned dilationW, unsigned dilationH)
      : kW(kernelW),
        kH(kernelH),
        dW(strideW),
        dH(strideH),
        padL(static_cast<int>(left)),
        padR(static_cast<int>(right)),
        padT(static_cast<int>(top)),
        padB(static_cast<int>(bottom)),
        dilW(dilationW),
        dilH(dilationH) {}

  int getPadL() const { return padL; }
  int getPadR() const { return padR; }
  int getPadT() const { return padT; }
  int getPadB() const { return padB; }
  void setPadL(int value) { padL = value; }
  void setPadR(int value) { padR = value; }
  void setPadT(int value) { padT = value; }
  void setPadB(int value) { padB = value; }
};

struct synConvolutionParamsV2 : synConvolutionParams {
  synConvolutionPaddingType paddingType = PADDING_EXPLICIT;
  unsigned reserved[9] = {};

  synConvolutionParamsV2() = default;
  synConvolutionParamsV2(const synConvolutionParams& base) : synConvolutionParams(base) {}
  synConvolutionParamsV2(unsigned kernelW, unsigned kernelH, unsigned strideW, unsigned strideH, unsigned left,
                         unsigned right, unsigned top, unsigned bottom, unsigned dilationW, unsigned dilationH,
                         synConvolutionPaddingType padding)
      : synConvolutionParams(kernelW, kernelH, strideW, strideH, left, right, top, bottom, dilationW, dilationH),
        paddingType(padding) {}
};

struct synDeformableConvParams : public synConvolutionParams {
  unsigned nDeformableGroups = 1;
  uint32_t _structPadding2 = 0;

  synDeformableConvParams() = default;
  synDeformableConvParams(unsigned kernelW, unsigned kernelH, unsigned strideW, unsigned strideH, unsigned left,
                          unsigned right, unsigned top, unsigned bottom, unsigned dilationW, unsigned dilationH,
                          unsigned deformableGroups)
      : synConvolutionParams(kernelW, kernelH, strideW, strideH, left, right, top, bottom, dilationW, dilationH),
        nDeformableGroups(deformableGroups) {}
};

struct synDeformableConvParamsV2 : public synDeformableConvParams {
  synConvolutionPaddingType paddingType = PADDING_EXPLICIT;
  unsigned reserved[9] = {};

  synDeformableConvParamsV2() = default;
  synDeformableConvParamsV2(const synDeformableConvParams& base) : synDeformableConvParams(base) {}
  synDeformableConvParamsV2(unsigned kernelW, unsigned kernelH, unsigned strideW, unsigned strideH, unsigned left,
                            unsigned right, unsigned top, unsigned bottom, unsigned dilationW, unsigned dilationH,
                            unsigned deformableGroups, synConvolutionPaddingType padding)
      : synDeformableConvParams(kernelW, kernelH, strideW, strideH, left, right, top, bottom, dilationW, dilationH,
                                deformableGroups),
        paddingType(padding) {}
};

struct synConvolution3DParams {
  unsigned kernel[CONV_KERNEL_SIZE] = {1, 1, 1};
  unsigned stride[CONV_STRIDE_SIZE] = {1, 1, 1};
  int padding[CONV_PAD_SIZE] = {};
  unsigned dilation[CONV_DIL_SIZE] = {1, 1, 1};
  uint32_t structPadding1 = 0;
  struct synActivationParams activation;
  unsigned nGroups = 1;
  uint32_t structPadding2 = 0;

  synConvolution3DParams() = default;
  synConvolution3DParams(unsigned kernelW, unsigned kernelH, unsigned kernelD, unsigned strideW, unsigned strideH,
                         unsigned strideD, int left, int right, int top, int bottom, int front, int back,
                         unsigned dilationW, unsigned dilationH, unsigned dilationD)
      : kernel{kernelW, kernelH, kernelD},
        stride{strideW, strideH, strideD},
        padding{left, right, top, bottom, front, back},
        dilation{dilationW, dilationH, dilationD} {}
  // Of depth 1.
  synConvolution3DParams(const synConvolutionParams& flat)
      : kernel{flat.kW, flat.kH, 1},
        stride{flat.dW, flat.dH, 1},
        padding{flat.padL, flat.padR, flat.padT, flat.padB, 0, 0},
        dilation{flat.dilW, flat.dilH, 1},
        activation(flat.activation),
        nGroups(flat.nGroups) {}
};

struct synConvolution3DParamsV2 : synConvolution3DParams {
  synConvolutionPaddingType paddingType = PADDING_EXPLICIT;
  unsigned reserved[9] = {};

  synConvolution3DParamsV2() = default;
  synConvolution3DParamsV2(const synConvolution3DParams& base) : synConvolution3DParams(base) {}
  synConvolution3DParamsV2(const synConvolutionParams& flat, synConvolutionPaddingType padding)
      : synConvolution3DParams(flat), paddingType(padding) {}
  synConvolution3DParamsV2(const synConvolutionParamsV2& flat)
      : synConvolution3DParams(flat), paddingType(flat.paddingType) {}
  synConvolution3DParamsV2(unsigned kernelW, unsigned kernelH, unsigned kernelD, unsigned strideW, unsigned strideH,
                           unsigned strideD, int left, int right, int top, int bottom, int front, int back,
                           unsigned dilationW, unsigned dilationH, unsigned dilationD,
                           synConvolutionPaddingType paddingKind)
      : synConvolution3DParams(kernelW, kernelH, kernelD, strideW, strideH, strideD, left, right, top, bottom, front,
                               back, dilationW, dilationH, dilationD),
        paddingType(paddingKind) {}
};

struct synRotateParams {
  float m_angle = 0;
  uint32_t m_inputCenterX = 0;
  uint32_t m_inputCenterY = 0;
  uint32_t m_outputCenterX = 0;
  uint32_t m_outputCenterY = 0;
  uint8_t m_background = 0;
  bool m_isDumpDescriptors = false;
  uint16_t m_structPad = 0;
  std::string m_descFilePrefix;

  synRotateParams() = default;
  synRotateParams(float angle, uint32_t inputCenterX, uint32_t inputCenterY, uint32_t outputCenterX,
                  uint32_t outputCenterY, uint8_t background)
      : m_angle(angle),
        m_inputCenterX(inputCenterX),
        m_inputCenterY(inputCenterY),
        m_outputCenterX(outputCenterX),
        m_outputCenterY(outputCenterY),
        m_background(background) {}
};

struct synWaitParams {
  unsigned waitCycles;
  explicit synWaitParams(unsigned cycles = 0) : waitCycles(cycles) {}
};

struct synGEMMParams {
  bool transpose_a;
  bool transpose_b;
  synGEMMParams(bool a = false, bool b = false) : transpose_a(a), transpose_b(b) {}
};

struct synFCParams {
  struct synActivationParams activation;
};

struct synTransposeParams {
  TransposePermutationDim permutation[MAX_DIMENSIONS_NUM];
  unsigned tensorDim;
};

struct synTransposeParamsNDims {
  unsigned tensorDim;
  uint32_t permutation[HABANA_DIM_MAX];
};

struct synInferMaxParams {
  bool shouldInferMax[HABANA_DIM_MAX];
};

struct synDepthSpaceParams {
  unsigned blockSize;
  unsigned mode = 0;
};

struct synQuantizationParams {
  double m_zp = 0;
  double m_scale = 1;
  unsigned m_expBias = EXP_BIAS_143_DEFAULT;
  synDataType m_qDataType = syn_type_na;
  uint32_t m_structPad = 0;

  synQuantizationParams() = default;
  synQuantizationParams(synDataType type) : m_qDataType(type) {}
  synQuantizationParams(double zeroPoint, double scale, synDataType type = syn_type_na)
      : m_zp(zeroPoint), m_scale(scale), m_qDataType(type) {}

  bool operator==(const synQuantizationParams& other) const {
    return m_zp == other.m_zp && m_scale == other.m_scale && m_expBias == other.m_expBias &&
           m_qDataType == other.m_qDataType;
  }
};

struct synPerChannelQuantizationParams {
  double* m_pcZps = nullptr;  // Arrays of m_numChannels that the caller owns.
  double* m_pcScales = nullptr;
  unsigned* m_pcExpBias = nullptr;
  unsigned m_numChannels = 0;
  synDataType m_qDataType = syn_type_na;

  bool operator==(const synPerChannelQuantizationParams& other) const {
    return m_qDataType == other.m_qDataType && m_numChannels == other.m_numChannels &&
           std::equal(m_pcZps, m_pcZps + m_numChannels, other.m_pcZps) &&
           std::equal(m_pcScales, m_pcScales + m_numChannels, other.m_pcScales) &&
           std::equal(m_pcExpBias, m_pcExpBias + m_numChannels, other.m_pcExpBias);
  }
};

struct DynamicRange {
  double min = 2;  // Empty until set.
  double max = 1;
  bool isSet = false;
};

// Of the deprecated synTensorCreate.
struct synTensorDescriptor {
  unsigned m_batchPos = INVALID_BATCH_POS;
  synDataType m_dataType = syn_type_na;
  unsigned m_dims = 0;
  unsigned m_sizes[SYN_MAX_TENSOR_DIM] = {};
  synQuantizationParams m_quantizationParams[6];
  void* m_ptr = nullptr;
  bool m_isWeights = false;
  bool m_isQuantized = false;
  const char* m_name = nullptr;
  unsigned m_strides[SYN_MAX_TENSOR_DIM] = {};
  bool m_isOutput = false;
  bool m_enablePerChannelQuant = false;
  synPerChannelQuantizationParams m_perChannelQuantizationParams[6];
  bool m_isInput = false;
  bool m_isStatic = false;
  unsigned m_minSizes[SYN_MAX_TENSOR_DIM] = {};
  synTensorType m_tensorType = DATA_TENSOR;
  DynamicRange m_dynamicRange;
  bool m_isSparsityWeights = false;

  synTensorDescriptor() = default;
  synTensorDescriptor(synDataType dataType, unsigned dims, unsigned sizes[SYN_MAX_TENSOR_DIM], void* data,
                      bool isWeights = false, const char* name = nullptr, unsigned batchPos = INVALID_BATCH_POS,
                      bool isQuantized = false, bool enablePerChannelQuant = false, bool setDynamicRange = false,
                      double dynamicRangeMin = 2, double dynamicRangeMax = 1, bool isSparsityWeights = false)
      : m_batchPos(batchPos),
        m_dataType(dataType),
        m_dims(dims),
        m_ptr(data),
        m_isWeights(isWeights),
        m_isQuantized(isQuantized),
        m_name(name),
        m_enablePerChannelQuant(enablePerChannelQuant),
        m_isSparsityWeights(isSparsityWeights) {
    std::copy(sizes, sizes + (dims < SYN_MAX_TENSOR_DIM ? dims : SYN_MAX_TENSOR_DIM), m_sizes);
    m_dynamicRange.min = dynamicRangeMin;
    m_dynamicRange.max = dynamicRangeMax;
    m_dynamicRange.isSet = setDynamicRange;
  }
};

struct synBeamParams {
  unsigned bsw = 0;
  unsigned axis = 0;
  bool bottomK = false;
  uint8_t structPad1 = 0;
  uint16_t structPad2 = 0;

  synBeamParams() = default;
  synBeamParams(unsigned width, unsigned alongAxis, unsigned smallest)
      : bsw(width), axis(alongAxis), bottomK(smallest != 0) {}
};

struct synEinsumParams {
  char equation[MAX_EINSUM_EQUATION_LENGTH + 1] = {};

  synEinsumParams() = default;
  // An equation that is too long becomes "invalid", which compilation reports.
  explicit synEinsumParams(const char* text) {
    if (std::strlen(text) > MAX_EINSUM_EQUATION_LENGTH) text = "invalid";
    std::memcpy(equation, text, std::strlen(text) + 1);
  }
};

struct synStridedOpParams {
  uint64_t baseOffset;  // In elements, as the strides.
  uint64_t strides[HABANA_DIM_MAX];
};

struct synSliceAxisParamsV2 {
  unsigned axis;
  unsigned _structPadding = 0;
  uint64_t begin;
  uint64_t end;
};

struct synSliceParamsV2 {
  unsigned axes[HABANA_DIM_MAX];
  unsigned _structPadding = 0;
  TSize starts[HABANA_DIM_MAX];
  TSize ends[HABANA_DIM_MAX];
  TSize steps[HABANA_DIM_MAX];
};

struct synPhysicalConcatSplitSubnodeParams {
  unsigned concatSplitDim;
  unsigned nodeNumberInConcatSplit;
  bool isSplit;
  uint8_t structPad1 = 0;
  uint16_t structPad2 = 0;
};

struct synStaticReshapeSifParams {
  TSize inputMaxSizes[HABANA_DIM_MAX];
  TSize outputMaxSizes[HABANA_DIM_MAX];
  char inputStaticDims[HABANA_DIM_MAX];
  char outputStaticDims[HABANA_DIM_MAX];
  uint16_t structPad2 = 0;
  unsigned dimsNum;
};

#endif
