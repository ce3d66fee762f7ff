// SPDX-License-Identifier: Apache-2.0
// The node parameters of C++ programs and their plain C twins have one layout.
#include <gtest/gtest.h>

#include <cstddef>

#include "habanalabs/synapse_api.h"

namespace plain {
#include "habanalabs/synapse_c_params.h"
}  // namespace plain

// Derived structures are not of standard layout; both compilers lay them out as the C++ ABI says.
#pragma GCC diagnostic ignored "-Winvalid-offsetof"

#define SAME_SIZE(T)                                           \
  static_assert(sizeof(T) == sizeof(plain::T), #T " differs"); \
  static_assert(alignof(T) == alignof(plain::T), #T " differs")
#define SAME(T, member)                                                                              \
  static_assert(offsetof(T, member) == offsetof(plain::T, member), #T "::" #member " is elsewhere"); \
  static_assert(sizeof(T::member) == sizeof(plain::T::member), #T "::" #member " has another size")

SAME_SIZE(synActivationParams);
SAME(synActivationParams, reluEnable);
SAME(synActivationParams, resAfterPWL);
SAME(synActivationParams, structPadding);
SAME(synActivationParams, numChannels);
SAME(synActivationParams, pwlNegCoeff);
SAME(synActivationParams, pwlPosCoeff);

#define SAME_CONVOLUTION(T) \
  SAME_SIZE(T);             \
  SAME(T, kW);              \
  SAME(T, kH);              \
  SAME(T, dW);              \
  SAME(T, dH);              \
  SAME(T, padL);            \
  SAME(T, padR);            \
  SAME(T, padT);            \
  SAME(T, padB);            \
  SAME(T, dilW);            \
  SAME(T, dilH);            \
  SAME(T, activation);      \
  SAME(T, nGroups);         \
  SAME(T, structPadding1)
SAME_CONVOLUTION(synConvolutionParams);
SAME_CONVOLUTION(synConvolutionParamsV2);
SAME(synConvolutionParamsV2, paddingType);
SAME(synConvolutionParamsV2, reserved);
SAME_CONVOLUTION(synDeformableConvParams);
SAME(synDeformableConvParams, nDeformableGroups);
SAME(synDeformableConvParams, _structPadding2);
SAME_CONVOLUTION(synDeformableConvParamsV2);
SAME(synDeformableConvParamsV2, nDeformableGroups);
SAME(synDeformableConvParamsV2, _structPadding2);
SAME(synDeformableConvParamsV2, paddingType);
SAME(synDeformableConvParamsV2, reserved);

#define SAME_CONVOLUTION_3D(T) \
  SAME_SIZE(T);                \
  SAME(T, kernel);             \
  SAME(T, stride);             \
  SAME(T, padding);            \
  SAME(T, dilation);           \
  SAME(T, structPadding1);     \
  SAME(T, activation);         \
  SAME(T, nGroups);            \
  SAME(T, structPadding2)
SAME_CONVOLUTION_3D(synConvolution3DParams);
SAME_CONVOLUTION_3D(synConvolution3DParamsV2);
SAME(synConvolution3DParamsV2, paddingType);
SAME(synConvolution3DParamsV2, reserved);

SAME_SIZE(synRotateParams);
SAME(synRotateParams, m_angle);
SAME(synRotateParams, m_inputCenterX);
SAME(synRotateParams, m_inputCenterY);
SAME(synRotateParams, m_outputCenterX);
SAME(synRotateParams, m_outputCenterY);
SAME(synRotateParams, m_background);
SAME(synRotateParams, m_isDumpDescriptors);
SAME(synRotateParams, m_structPad);
SAME(synRotateParams, m_descFilePrefix);

SAME_SIZE(synWaitParams);
SAME(synWaitParams, waitCycles);
SAME_SIZE(synGEMMParams);
SAME(synGEMMParams, transpose_a);
SAME(synGEMMParams, transpose_b);
SAME_SIZE(synFCParams);
SAME(synFCParams, activation);
SAME_SIZE(synTransposeParams);
SAME(synTransposeParams, permutation);
SAME(synTransposeParams, tensorDim);
SAME_SIZE(synTransposeParamsNDims);
SAME(synTransposeParamsNDims, tensorDim);
SAME(synTransposeParamsNDims, permutation);
SAME_SIZE(synInferMaxParams);
SAME(synInferMaxParams, shouldInferMax);
SAME_SIZE(synDepthSpaceParams);
SAME(synDepthSpaceParams, blockSize);
SAME(synDepthSpaceParams, mode);
SAME_SIZE(synQuantizationParams);
SAME(synQuantizationParams, m_zp);
SAME(synQuantizationParams, m_scale);
SAME(synQuantizationParams, m_expBias);
SAME(synQuantizationParams, m_qDataType);
SAME(synQuantizationParams, m_structPad);
SAME_SIZE(synPerChannelQuantizationParams);
SAME(synPerChannelQuantizationParams, m_pcZps);
SAME(synPerChannelQuantizationParams, m_pcScales);
SAME(synPerChannelQuantizationParams, m_pcExpBias);
SAME(synPerChannelQuantizationParams, m_numChannels);
SAME(synPerChannelQuantizationParams, m_qDataType);
SAME_SIZE(DynamicRange);
SAME(DynamicRange, min);
SAME(DynamicRange, max);
SAME(DynamicRange, isSet);

SAME_SIZE(synTensorDescriptor);
SAME(synTensorDescriptor, m_batchPos);
SAME(synTensorDescriptor, m_dataType);
SAME(synTensorDescriptor, m_dims);
SAME(synTensorDescriptor, m_sizes);
SAME(synTensorDescriptor, m_quantizationParams);
SAME(synTensorDescriptor, m_ptr);
SAME(synTensorDescriptor, m_isWeights);
SAME(synTensorDescriptor, m_isQuantized);
SAME(synTensorDescriptor, m_name);
SAME(synTensorDescriptor, m_strides);
SAME(synTensorDescriptor, m_isOutput);
SAME(synTensorDescriptor, m_enablePerChannelQuant);
SAME(synTensorDescriptor, m_perChannelQuantizationParams);
SAME(synTensorDescriptor, m_isInput);
SAME(synTensorDescriptor, m_isStatic);
SAME(synTensorDescriptor, m_minSizes);
SAME(synTensorDescriptor, m_tensorType);
SAME(synTensorDescriptor, m_dynamicRange);
SAME(synTensorDescriptor, m_isSparsityWeights);

SAME_SIZE(synBeamParams);
SAME(synBeamParams, bsw);
SAME(synBeamParams, axis);
SAME(synBeamParams, bottomK);
SAME(synBeamParams, structPad1);
SAME(synBeamParams, structPad2);
SAME_SIZE(synEinsumParams);
SAME(synEinsumParams, equation);
SAME_SIZE(synStridedOpParams);
SAME(synStridedOpParams, baseOffset);
SAME(synStridedOpParams, strides);
SAME_SIZE(synSliceAxisParamsV2);
SAME(synSliceAxisParamsV2, axis);
SAME(synSliceAxisParamsV2, _structPadding);
SAME(synSliceAxisParamsV2, begin);
SAME(synSliceAxisParamsV2, end);
SAME_SIZE(synSliceParamsV2);
SAME(synSliceParamsV2, axes);
SAME(synSliceParamsV2, _structPadding);
SAME(synSliceParamsV2, starts);
SAME(synSliceParamsV2, ends);
SAME(synSliceParamsV2, steps);
SAME_SIZE(synPhysicalConcatSplitSubnodeParams);
SAME(synPhysicalConcatSplitSubnodeParams, concatSplitDim);
SAME(synPhysicalConcatSplitSubnodeParams, nodeNumberInConcatSplit);
SAME(synPhysicalConcatSplitSubnodeParams, isSplit);
SAME(synPhysicalConcatSplitSubnodeParams, structPad1);
SAME(synPhysicalConcatSplitSubnodeParams, structPad2);
SAME_SIZE(synStaticReshapeSifParams);
SAME(synStaticReshapeSifParams, inputMaxSizes);
SAME(synStaticReshapeSifParams, outputMaxSizes);
SAME(synStaticReshapeSifParams, inputStaticDims);
SAME(synStaticReshapeSifParams, outputStaticDims);
SAME(synStaticReshapeSifParams, structPad2);
SAME(synStaticReshapeSifParams, dimsNum);

namespace {

TEST(SynapseParams, ConvolutionsAreOfStrideOneAndOneGroupUnlessSaid) {
  synConvolutionParams params;
  EXPECT_EQ(params.kW * params.kH * params.dW * params.dH * params.dilW * params.dilH * params.nGroups, 1u);
  EXPECT_EQ(params.padL + params.padR + params.padT + params.padB, 0);
  synConvolutionParamsV2 same(3, 5, 2, 1, 1, 2, 3, 4, 1, 2, PADDING_SAME);
  synConvolution3DParamsV2 deep(same);
  EXPECT_EQ(deep.kernel[CONV_KERNEL_WIDTH], 3u);
  EXPECT_EQ(deep.kernel[CONV_KERNEL_HEIGHT], 5u);
  EXPECT_EQ(deep.kernel[CONV_KERNEL_DEPTH], 1u);
  EXPECT_EQ(deep.padding[CONV_PAD_BOTTOM], 4);
  EXPECT_EQ(deep.dilation[CONV_DIL_HEIGHT], 2u);
  EXPECT_EQ(deep.paddingType, PADDING_SAME);
}

TEST(SynapseParams, AnEquationThatIsTooLongIsInvalid) {
  EXPECT_STREQ(synEinsumParams("ij,jk->ik").equation, "ij,jk->ik");
  EXPECT_STREQ(synEinsumParams(std::string(MAX_EINSUM_EQUATION_LENGTH, 'i').c_str()).equation,
               std::string(MAX_EINSUM_EQUATION_LENGTH, 'i').c_str());
  EXPECT_STREQ(synEinsumParams(std::string(MAX_EINSUM_EQUATION_LENGTH + 1, 'i').c_str()).equation, "invalid");
}

TEST(SynapseParams, SizesAreThoseOfTheBinaryInterface) {
  // Sums of the members with the x86-64 ABI's alignment.
  EXPECT_EQ(sizeof(synConvolutionParams), 72u);
  EXPECT_EQ(sizeof(synConvolutionParamsV2), 112u);
  EXPECT_EQ(sizeof(synConvolution3DParams), 96u);
  EXPECT_EQ(sizeof(synConvolution3DParamsV2), 136u);
  EXPECT_EQ(sizeof(synLaunchTensorInfo), 232u);
  EXPECT_EQ(sizeof(synDeviceInfo), 56u);
  EXPECT_EQ(sizeof(synDeviceInfoV2), 72u);
  EXPECT_EQ(sizeof(synTraceEvent), 208u);
}

}  // namespace
