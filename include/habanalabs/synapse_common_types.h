// SPDX-License-Identifier: Apache-2.0
// Types, limits and parameter structures that SynapseAI's C headers share.
// The one thing to know: sizes are listed with the fastest-varying dimension first. C programs get the node
// parameters of synapse_c_params.h, C++ programs those of synapse_common_types.hpp (with constructors and
// defaults); both have the same names and layouts.
#ifndef HABANALABS_SYNAPSE_COMMON_TYPES_H
#define HABANALABS_SYNAPSE_COMMON_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Limits ---- */

#define HABANA_DIM_MAX 25 /* Entries of an array of sizes. */
#define SYN_GAUDI_MAX_TENSOR_DIM 8
#define SYN_MAX_TENSOR_DIM 5
#define MAX_DIMENSIONS_NUM 5
#define MAX_CONV_DIMS 3
#define MAX_NUM_OF_DEVICES_PER_HOST (8)
#define ENQUEUE_TENSOR_NAME_MAX_SIZE (1024)
#define MAX_LAYOUT_SIZE 20
#define STATUS_DESCRIPTION_MAX_SIZE (56)
#define MAX_EINSUM_EQUATION_LENGTH 50
#define EXP_BIAS_143_DEFAULT 7

#define SYN_FLAGS_TENSOR_NAME 0x1 /* synLaunch: match tensors by name. */
#define TENSOR_INVALID_ID (0xFFFFFFFFFFFFFFFF)

static const uint32_t INVALID_BATCH_POS = 0xFFFFFFFF;
static const uint32_t INVALID_TENSOR_INDEX = 0xFFFFFFFF;
static const uint32_t INVALID_SECTION_ID = 0xFFFFFFFF;
static const uint64_t INVALID_CONST_SECTION_DATA = 0xFFFFFFFFFFFFFFFF;
static const uint32_t SIG_HANDLE_INVALID = 0xFFFFFFFF;
static const unsigned SYN_NUM_DATA_TYPES = 6;
static const int DMA_MEMCPY_PARALLEL_LEVEL = 4;
static const uint64_t EXECUTION_BLOBS_CHUNK_SIZE_IN_BYTES = 0;

/* ---- Handles and scalars ---- */

typedef struct internalTensor* synTensor;
typedef struct syn_cb_internal* synCommandBuffer;
typedef struct InternalWaitHandle* synWaitHandle;
typedef struct synTensorDescriptor synTensorDescriptor;
typedef struct synTensorNDimDescriptor synTensorNDimDescriptor;

typedef uint64_t TSize;
typedef uint64_t TStride;
typedef int64_t TOffset;

/* ---- Enumerations ---- */

/* synStatusGetBriefDescription has a line for each. */
typedef enum synStatus {
  synSuccess = 0,
  synInvalidArgument = 1,
  synCbFull = 2,
  synOutOfHostMemory = 3,
  synOutOfDeviceMemory = 4,
  synObjectAlreadyInitialized = 5,
  synObjectNotInitialized = 6,
  synCommandSubmissionFailure = 7,
  synNoDeviceFound = 8,
  synDeviceTypeMismatch = 9,
  synFailedToInitializeCb = 10,
  synFailedToFreeCb = 11,
  synFailedToMapCb = 12,
  synFailedToUnmapCb = 13,
  synFailedToAllocateDeviceMemory = 14,
  synFailedToFreeDeviceMemory = 15,
  synFailedNotEnoughDevicesFound = 16,
  synDeviceReset = 17,
  synUnsupported = 18,
  synWrongParamsFile = 19,
  synDeviceAlreadyAcquired = 20,
  synNameIsAlreadyUsed = 21,
  synBusy = 22,
  synAllResourcesTaken = 23,
  synUnavailable = 24,
  synInvalidTensorDimensions = 25,
  synFail = 26,
  synOutOfResources = 27,
  synUninitialized = 28,
  synAlreadyInitialized = 29,
  synFailedSectionValidation = 30,
  synSynapseTerminated = 31,
  synAssertAsync = 32,
  synInvalidEventHandle = 33,
  synMappingNotFound = 34,
  synFailedDynamicPatching = 35,
  synFailedStaticPatching = 36,
  synFailedToSubmitWorkload = 37,
  synInvalidSectionsDefinition = 38,
  synInvalidTensorProperties = 39,
  synFailHccl = 40,
  synFailedToCollectTime = 41,
  synTimeout = 42,
  synResourceBadUsage = 43,
  synStatusLast = 43, /* The last one of the level that this header follows; later ones are below. */
  synNullPtr = 44,
  synFailFuser = 45,
  synFailComplexGuid = 46,
  synFailTpcKernels = 47
} synStatus;

typedef enum synDmaDir { HOST_TO_DRAM = 0, DRAM_TO_HOST = 1, DRAM_TO_DRAM = 2, DIRECTION_ENUM_MAX = 3 } synDmaDir;

typedef enum synMemFlags { synMemHost = 1, synMemDevice = 2 } synMemFlags;

typedef enum synDeviceType {
  synDeviceGoya2 = 1,
  synDeviceGreco = 1,
  synDeviceGaudi = 2,
  synDeviceGaudi2 = 4,
  synDeviceGaudi3 = 5,
  synDeviceEmulator = 6,
  synDeviceTypeInvalid = 7,
  synDeviceTypeSize = 8
} synDeviceType;

/* One bit a type. */
typedef enum synDataType {
  syn_type_na = 0,
  syn_type_fixed = 1,
  syn_type_int8 = 1,
  syn_type_bf16 = 2,
  syn_type_single = 4,
  syn_type_float = 4,
  syn_type_int16 = 8,
  syn_type_int32 = 16,
  syn_type_uint8 = 32,
  syn_type_int4 = 64,
  syn_type_uint4 = 128,
  syn_type_fp16 = 256,
  syn_type_uint16 = 512,
  syn_type_uint32 = 1024,
  syn_type_tf32 = 2048,
  syn_type_hb_float = 4096,
  syn_type_fp8_143 = 8192,
  syn_type_fp8_152 = 16384,
  syn_type_int64 = 32768,
  syn_type_uint64 = 65536,
  syn_type_ufp16 = 131072,
  syn_type_max = 131073
} synDataType;

typedef enum synTensorType {
  DATA_TENSOR = 0,
  SHAPE_TENSOR = 1,
  OUTPUT_DESCRIBING_SHAPE_TENSOR = 1,
  INPUT_DESCRIBING_SHAPE_TENSOR = 2,
  INPUT_DESCRIBING_SHAPE_TENSOR_DEPRECATED = 2, /* Its later name. */
  DATA_TENSOR_DYNAMIC = 3,
  DEVICE_SHAPE_TENSOR = 4,
  HOST_SHAPE_TENSOR = 5,
  HOST_TO_DEVICE_TENSOR = 6,
  TENSOR_TYPE_MAX = 7,
  TENSOR_TYPE_INVALID = 7
} synTensorType;

/* Indices into the arrays of synConvolution3DParams. */
typedef enum synConvParamIndex {
  CONV_KERNEL_WIDTH = 0,
  CONV_KERNEL_HEIGHT = 1,
  CONV_KERNEL_DEPTH = 2,
  CONV_KERNEL_SIZE = 3,
  CONV_STRIDE_WIDTH = 0,
  CONV_STRIDE_HEIGHT = 1,
  CONV_STRIDE_DEPTH = 2,
  CONV_STRIDE_SIZE = 3,
  CONV_PAD_LEFT = 0,
  CONV_PAD_RIGHT = 1,
  CONV_PAD_TOP = 2,
  CONV_PAD_BOTTOM = 3,
  CONV_PAD_FRONT = 4,
  CONV_PAD_BACK = 5,
  CONV_PAD_SIZE = 6,
  CONV_DIL_WIDTH = 0,
  CONV_DIL_HEIGHT = 1,
  CONV_DIL_DEPTH = 2,
  CONV_DIL_SIZE = 3
} synConvParamIndex;

typedef enum TransposePermutationDim {
  TBD_4DimSize = 4,
  TBD_5DimSize = 5,
  TBD_6DimSize = 6,
  TBD_7DimSize = 7,
  TPD_Batch = 4,
  TPD_4Dim_Batch = 3,
  TPD_Depth = 3,
  TPD_Height = 2,
  TPD_Width = 1,
  TPD_Channel = 0,
  TPD_Weights_Q = 4,
  TPD_Weights_R = 3,
  TPD_Weights_S = 2,
  TPD_Weights_C = 1,
  TPD_Weights_K = 0
} TransposePermutationDim;

typedef enum synDevicePllIndex {
  PLL_CPU = 0,
  PLL_IC = 1,
  PLL_MC = 2,
  PLL_MME = 3,
  PLL_PCI = 4,
  PLL_EMMC = 5,
  PLL_TPC = 6,
  PLL_SIZE = 7
} synDevicePllIndex;

typedef enum synTensorProperty {
  synTensorPropUnknown = 0,
  synTensorPropSection = 1,
  synTensorPropHostPtr = 2,
  synTensorPropQuantMetadata = 4,
  synTensorPropDynamicRange = 8,
  synTensorPropFlags = 16,
  synTensorPropDeviceLayout = 32,
  synTensorPropDeviceDataType = 32,
  synTensorPropName = 64,
  synTensorPropSectionOffset = 128,
  synTensorPropGeometryMin = 256,
  synTensorPropGeometryMax = 512,
  synTensorPropGeometryDim = 1024,
  synTensorPropType = 2048,
  synTensorPropPermutation = 4096,
  synTensorPropFpQuantMetadata = 8192,
  synTensorInternalNoProducer = 16384,
  synTensorPropPCDynamicRange = 32768
} synTensorProperty;

typedef enum synRoundingMode {
  synRoundToNearest = 0,
  synRoundToZero = 1,
  synRoundUp = 2,
  synRoundDown = 3,
  synStochasticRounding = 4,
  synRoundAwayFromZero = 5,
  synStochasticRoundingAndNearest = 6
} synRoundingMode;

typedef enum synTraceType { synTraceAll = 1, synTraceHost = 2, synTraceDevice = 3, synTraceTypeSize = 4 } synTraceType;

typedef enum synTraceFormat { synTraceFormatTEF = 1, synTraceFormatSize = 2 } synTraceFormat;

typedef enum synStreamPriority {
  synStreamPriorityHigh = 0,
  synStreamPriorityLow = 1,
  synStreamPriorityNotSet = 2
} synStreamPriority;

typedef enum synConvolutionPaddingType {
  PADDING_EXPLICIT = 0,
  PADDING_SAME = 1 /* Outputs of ceil(input / stride); the paddings given are ignored. */
} synConvolutionPaddingType;

/* ---- Node parameters that are plain in both languages ---- */

typedef struct synAxisParams {
  unsigned axis;
} synAxisParams;
typedef synAxisParams synFlattenParams;
typedef synAxisParams synConcatenateParams;
typedef synAxisParams synSplitParams;
typedef synAxisParams synExpandDimsParams;
typedef synAxisParams synSqueezeParams;

typedef struct synSliceAxisParams {
  unsigned axis;
  unsigned begin;
  unsigned end;
} synSliceAxisParams;

typedef struct synSliceParams {
  unsigned axes[MAX_DIMENSIONS_NUM];
  unsigned starts[MAX_DIMENSIONS_NUM];
  unsigned ends[MAX_DIMENSIONS_NUM];
  unsigned steps[MAX_DIMENSIONS_NUM];
} synSliceParams;

typedef struct synSliceParamsNDims {
  unsigned axes[HABANA_DIM_MAX];
  unsigned starts[HABANA_DIM_MAX];
  unsigned ends[HABANA_DIM_MAX];
  unsigned steps[HABANA_DIM_MAX];
} synSliceParamsNDims;

typedef struct synNMSParams {
  float scoreTh;
  float iouTh;
  unsigned maxOutSize;
} synNMSParams;

typedef struct synTfBatchNormalizationParams {
  float variance_epsilon;
} synTfBatchNormalizationParams;

typedef struct synAssertAsyncParams {
  uint64_t msg_id;
} synAssertAsyncParams;

/* ---- Devices and recipes ---- */

typedef struct internalMemcopyParamEntry {
  uint64_t src;
  uint64_t dst;
  uint64_t size;
} internalMemcopyParamEntry;

typedef struct synInternalQueue {
  uint32_t queueIndex;
  uint32_t size;
  uint64_t address;
} synInternalQueue;

typedef struct synDeviceInfo {
  uint64_t sramBaseAddress;
  uint64_t dramBaseAddress;
  uint32_t sramSize;
  uint64_t dramSize;
  uint64_t tpcEnabledMask;
  uint8_t dramEnabled;
  uint32_t deviceId;
  uint32_t fd;
  synDeviceType deviceType;
} synDeviceInfo;

typedef struct synDeviceInfoV2 {
  uint64_t sramBaseAddress;
  uint64_t dramBaseAddress;
  uint32_t sramSize;
  uint64_t dramSize;
  uint64_t tpcEnabledMask;
  uint8_t dramEnabled;
  uint32_t deviceId;
  uint32_t fd;
  synDeviceType deviceType;
  uint8_t deviceIndex;
  uint64_t reserved;
} synDeviceInfoV2;

/* What is known of a persistent tensor of a recipe; `tensorName` is the caller's question. */
typedef struct TensorMetadataInfo {
  const char* tensorName;
  uint32_t elementType;
  double zp;
  double scale;
  uint32_t dimensions;
  TSize dimensionsSize[HABANA_DIM_MAX];
  uint64_t roiSizeInBytes;
  uint16_t batchSize;
  uint8_t isInput;
  char layout[MAX_LAYOUT_SIZE];
  uint32_t sectionId;
  uint64_t offsetInSection;
} TensorMetadataInfo;

typedef struct TensorMetadataInfoExt {
  const char* tensorName;
  uint32_t elementType;
  double zp;
  double scale;
  uint32_t dimensions;
  uint64_t dimensionsSize[HABANA_DIM_MAX];
  uint64_t roiSizeInBytes;
  uint16_t batchSize;
  uint8_t isInput;
  char layout[MAX_LAYOUT_SIZE];
  uint32_t sectionId;
  uint64_t offsetInSection;
} TensorMetadataInfoExt;

/* ---- The trace in a caller's buffer ---- */

typedef struct synTraceEventArg {
  const char* key;
  enum ValueType { TYPE_UINT64 = 0, TYPE_CHAR_PTR = 1, TYPE_DOUBLE = 2 } type;
  union {
    const char* str;
    uint64_t u64;
    double d;
  } value;
} synTraceEventArg;

typedef struct synTraceEventExtraArgs {
  uint8_t count;
  const synTraceEventArg* args;
} synTraceEventExtraArgs;

/* One entry of Chrome's trace event format; times are in microseconds. */
typedef struct synTraceEvent {
  const char* name;
  const char* category;
  char type; /* 'X' a span, 'B' and 'E' its ends, 'i' an instant, 'C' a counter, 'M' metadata. */
  long double timestamp;
  long double duration;
  uint32_t engineType;  /* The process of the format: the host or a device. */
  uint32_t engineIndex; /* The thread of the format: a host thread or an engine. */
  uint64_t contextId;
  union {
    __extension__ struct { /* Of a span. */
      const char* dataType;
      const char* operation;
      uint16_t recipeId;
      const char* recipeName;
      uint64_t streamHandle;
      uint64_t eventHandle;
      synTraceEventExtraArgs extraArgs;
    };
    __extension__ struct { /* Of a counter. */
      double minimum;
      double maximum;
      double average;
      uint16_t matches;
    };
    __extension__ struct {
      double fullWritesBlocks;
      double partialWritesBlocks;
      double emptyBlocks;
    };
    __extension__ struct { /* Of metadata: the name of a process or thread. */
      const char* name;
      const char* group;
    };
    char reserved[128];
    double value_double;
    uint64_t value;
  } arguments;
} synTraceEvent;

#ifdef __cplusplus
#include "synapse_common_types.hpp"
#else
#include "synapse_c_params.h"
#endif

#endif
