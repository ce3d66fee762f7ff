// SPDX-License-Identifier: Apache-2.0
// Handles, attributes and structures of the SynapseAI C API.
// The one thing to know: a handle is opaque and never an address; using one after its end is an error that is
// reported.
#ifndef HABANALABS_SYNAPSE_API_TYPES_H
#define HABANALABS_SYNAPSE_API_TYPES_H

#include "synapse_common_types.h"

/* ---- Handles and ids ---- */

typedef struct EventInterfaceExternal* synEventHandle;
typedef struct InternalRecipeHandle* synRecipeHandle;
typedef struct SectionHandleExternal* synSectionHandle;
typedef struct InternalGraphHandle* synGraphHandle;
typedef struct InternalStreamHandle* synStreamHandle;
typedef uint32_t synModuleId;
typedef uint32_t synDeviceId;
typedef uint64_t synNodeId;
typedef uint32_t synSectionId;
typedef uint64_t tensor_size_t;

static const uint32_t MAX_TENSOR_NR = 16; /* Operands of a TPC kernel. */
static const unsigned MAX_USER_PARAMS_SIZE = 128;
static const uint32_t INVALID_MODULE_ID = 0xFFFFFFFF;
static const synDeviceId SYN_INVALID_DEVICE_ID = 0xFFFFFFFF;

enum eventCreateFlags { EVENT_COLLECT_TIME = 1 };

/* ---- Attributes ---- */

typedef enum synDeviceAttribute {
  DEVICE_ATTRIBUTE_SRAM_BASE_ADDRESS = 0,
  DEVICE_ATTRIBUTE_DRAM_BASE_ADDRESS = 1,
  DEVICE_ATTRIBUTE_SRAM_SIZE = 2,
  DEVICE_ATTRIBUTE_DRAM_SIZE = 3,
  DEVICE_ATTRIBUTE_DRAM_FREE_SIZE = 4,
  DEVICE_ATTRIBUTE_TPC_ENABLED_MASK = 5,
  DEVICE_ATTRIBUTE_DRAM_ENABLED = 6,
  DEVICE_ATTRIBUTE_DEVICE_TYPE = 7,
  DEVICE_ATTRIBUTE_CLK_RATE = 8,     /* MHz. */
  DEVICE_ATTRIBUTE_MAX_RMW_SIZE = 9, /* Bytes of a read-modify-write section. */
  DEVICE_ATTRIBUTE_STREAMS_TOTAL_MEM_SIZE = 10,
  DEVICE_ATTRIBUTE_ADDRESS_ALIGNMENT_SIZE = 11,
  DEVICE_ATTRIBUTE_MAX_DIMS = 12
} synDeviceAttribute;

typedef enum synMemoryAttribute {
  MEMORY_ATTRIBUTE_DEVICE = 1,
  MEMORY_ATTRIBUTE_HOST = 2,
  MEMORY_ATTRIBUTE_SRAM = 4,
  MEMORY_ATTRIBUTE_PERSISTENT = 8
} synMemoryAttribute;

typedef enum synRecipeAttribute {
  RECIPE_ATTRIBUTE_WORKSPACE_SIZE = 0,
  RECIPE_ATTRIBUTE_NUM_PERSISTENT_TENSORS = 1,
  RECIPE_ATTRIBUTE_HOST_MEM_SIZE = 2,
  RECIPE_ATTRIBUTE_NUM_EXTERNAL_TENSORS = 3,
  RECIPE_ATTRIBUTE_PERSISTENT_TENSORS_SIZE = 4,
  RECIPE_ATTRIBUTE_CONST_SECTIONS_SIZE = 5,
  RECIPE_ATTRIBUTE_DEVICE_MEMORY_SIZE = 6,
  RECIPE_ATTRIBUTE_MAX = 7
} synRecipeAttribute;

typedef enum synSectionProp { SECTION_SIZE = 0, SECTION_DATA = 1, IS_CONST = 2 } synSectionProp;

typedef enum synGraphAttribute {
  GRAPH_ATTRIBUTE_INFERENCE = 0,
  GRAPH_ATTRIBUTE_QUANTIZATION = 1,
  GRAPH_ATTRIBUTE_BACKOFF_FACTOR = 2, /* The only one whose value is a double. */
  GRAPH_ATTRIBUTE_MAX = 3
} synGraphAttribute;

typedef union synGraphAttributeVal {
  uint64_t iAttrVal;
  double dAttrVal;
} synGraphAttributeVal;

/* ---- Launches ---- */

typedef struct synLaunchTensorInfo {
  const char* tensorName;
  uint64_t pTensorAddress;
  synTensorType tensorType;
  TSize tensorSize[HABANA_DIM_MAX]; /* Actual sizes; all 0: those of the graph. Not read beyond the rank. */
  uint64_t tensorId;
} synLaunchTensorInfo;

typedef struct synLaunchTensorInfoExt {
  const char* tensorName;
  uint64_t pTensorAddress;
  synTensorType tensorType;
  TSize tensorSize[HABANA_DIM_MAX];
  uint64_t tensorId;
} synLaunchTensorInfoExt;

typedef struct synRetrievedLaunchTensorInfo {
  char tensorName[ENQUEUE_TENSOR_NAME_MAX_SIZE];
  uint64_t tensorId; /* Of the retrieval by id: the caller's question. */
  synTensorType tensorType;
  synDataType tensorDataType;
  uint32_t tensorDims;
  TSize tensorMaxSize[HABANA_DIM_MAX];
  TSize tensorMinSize[HABANA_DIM_MAX];
  uint8_t tensorPermutation[HABANA_DIM_MAX];
  synSectionId tensorSectionId;
  uint64_t tensorOffsetInSection;
  uint8_t isInput;
  uint32_t reserved[10];
} synRetrievedLaunchTensorInfo;

typedef struct synRetrievedLaunchTensorInfoExt {
  char tensorName[ENQUEUE_TENSOR_NAME_MAX_SIZE];
  uint64_t tensorId;
  synTensorType tensorType;
  synDataType tensorDataType;
  uint32_t tensorDims;
  TSize tensorMaxSize[HABANA_DIM_MAX];
  TSize tensorMinSize[HABANA_DIM_MAX];
  uint8_t tensorPermutation[HABANA_DIM_MAX];
  synSectionId tensorSectionId;
  uint64_t tensorOffsetInSection;
  uint8_t isInput;
  uint32_t reserved[10];
} synRetrievedLaunchTensorInfoExt;

/* ---- Tensors ---- */

typedef struct TensorExUserContext {
  uint64_t* strides;
} TensorExUserContext;

typedef struct synQuantDynamicRange {
  double min;
  double max;
} synQuantDynamicRange;

typedef struct synPerChannelDynamicRange {
  synQuantDynamicRange* ranges;
  unsigned numChannels;
} synPerChannelDynamicRange;

/* Which of the structures around it synTensorSetQuantizationData is given. */
typedef enum synQuantizationProperty {
  SYN_QUANT_DYNAMIC_RANGE = 0,
  SYN_QUANT_METADATA = 1,
  SYN_FP_QUANT_METADATA = 2,
  SYN_QUANT_FLAGS = 3,
  SYN_QUANT_PC_DYNAMIC_RANGE = 4
} synQuantizationProperty;

typedef struct synQuantZPScale {
  double zp;
  double scale;
} synQuantZPScale;

/* More than one entry: one a channel; as in synFpQuantMetadata. */
typedef struct synQuantMetadata {
  synDataType dataType;
  synQuantZPScale* zpScales;
  unsigned numZPScales;
} synQuantMetadata;

typedef struct synFpQuantParam {
  double scale;
  unsigned expBias;
} synFpQuantParam;

typedef struct synFpQuantMetadata {
  synDataType dataType;
  synFpQuantParam* fpQuantParams;
  unsigned numFpQuantParams;
} synFpQuantMetadata;

typedef struct synQuantFlags {
  uint8_t enablePerChannelQuant;
  uint8_t isSparsifiedWeights;
  uint8_t isWeights;
} synQuantFlags;

typedef struct synTensorGeometry {
  TSize sizes[HABANA_DIM_MAX];
  uint32_t dims;
} synTensorGeometry;

typedef struct synTensorGeometryExt {
  TSize sizes[HABANA_DIM_MAX];
  uint32_t dims;
} synTensorGeometryExt;

typedef enum synGeometryType {
  synGeometryMinSizes = 0,
  synGeometryMaxSizes = 1,
  synGeometrySizes = 1,
  synGeometryDims = 2
} synGeometryType;

/* The strides of all but the fastest dimension, which is dense. */
typedef struct synTensorDeviceLayout {
  uint32_t strides[HABANA_DIM_MAX - 1];
  synDataType deviceDataType;
} synTensorDeviceLayout;

typedef struct synTensorDeviceFullLayout {
  uint32_t strides[HABANA_DIM_MAX];
  synDataType deviceDataType;
} synTensorDeviceFullLayout;

typedef struct synTensorPermutation {
  uint8_t permutation[HABANA_DIM_MAX];
  uint8_t dims;
} synTensorPermutation;

/* What a host-to-device tensor of strided_view and strided_insert holds, and one of slice. */
typedef struct synDynamicStridedDmaH2dTensor {
  TSize num_strides;
  TSize offset;
  TSize strides[SYN_MAX_TENSOR_DIM + 1];
} synDynamicStridedDmaH2dTensor;

typedef struct synDynamicSliceDmaH2dTensor {
  TSize dims;
  TSize steps[SYN_MAX_TENSOR_DIM];
  TSize starts[SYN_MAX_TENSOR_DIM];
} synDynamicSliceDmaH2dTensor;

/* ---- Graphs ---- */

typedef struct synTensorHandleMap {
  synTensor origHandle;
  synTensor newHandle;
} synTensorHandleMap;

typedef struct synNodeHandleMap {
  synNodeId origHandle;
  synNodeId newHandle;
} synNodeHandleMap;

/* The place of a node in an order that the user gives, within a group. */
typedef struct synUserExecOrder {
  unsigned groupId;
  unsigned executionOrderedIndex;
} synUserExecOrder;

typedef struct synUserProgrammability {
  synUserExecOrder* userExecOrder;
} synUserProgrammability;

#endif
