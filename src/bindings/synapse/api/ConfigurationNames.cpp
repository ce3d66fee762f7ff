// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/api/ConfigurationNames.h"

#include <algorithm>
#include <iterator>

namespace hpu::synapse {
namespace {

/// Sorted.
constexpr std::string_view kNames[] = {"COMPLEX_GUID_EXTRACTOR_MODE",
                                       "ENABLE_BATCH_NORM_MEMCPY_FUSION",
                                       "ENABLE_BROADCAST_TPC_FUSION",
                                       "ENABLE_BUNDLE_EVICTION_FUSING",
                                       "ENABLE_CD_PARALLEL",
                                       "ENABLE_CONTIGUOUS_CAST_REMOVAL",
                                       "ENABLE_CONTIGUOUS_TRANSPOSE_REMOVAL",
                                       "ENABLE_CONV_FLATTEN_TO_GEMM_FOR_SLICING",
                                       "ENABLE_EXPERIMENTAL_FLAGS",
                                       "ENABLE_FLASH_ATTENTION_SLICING",
                                       "ENABLE_FUSE_BROADCAST_BGEMM",
                                       "ENABLE_GCONV_SPLIT_NODES_REUSE",
                                       "ENABLE_GC_NODES_VALIDATION_BY_OPS_DB",
                                       "ENABLE_HUGE_TENSOR_SLICING",
                                       "ENABLE_INPUT_REUSE_AS_LOGICAL_NODE",
                                       "ENABLE_INTERNAL_NODES",
                                       "ENABLE_LAYERED_PIPELINE_BRAIN",
                                       "ENABLE_OPTIMIZE_MEMCPY_NODES",
                                       "ENABLE_PIPELINE_MANAGEMENT",
                                       "ENABLE_PROFILER",
                                       "ENABLE_REMOVE_REDUNDANT_MEMCPY",
                                       "ENABLE_SPILL_FILL_FUSION",
                                       "ENABLE_STAGED_SUBMISSION",
                                       "ENABLE_STRIDED_DMA_WITH_TRANSPOSE_ENGINE",
                                       "ENABLE_STRIDED_OP_DECODING",
                                       "ENABLE_TPC_BUNDLES",
                                       "ENABLE_TPC_TENSOR_SHAPE_MANIPULATION",
                                       "EXP_FLAGS",
                                       "HANDLE_MEMORY_COHERENCE",
                                       "HBM_GLOBAL_MEM_SIZE_MEGAS",
                                       "HCCL_GAUDI_DIRECT",
                                       "MAKE_BROADCAST_PHYSICAL",
                                       "MAX_CONST_TENSOR_SIZE_BYTES",
                                       "OPTIMIZE_SPLIT_CONCAT_ON_FCD",
                                       "RUN_TPC_FUSER",
                                       "SPILL_PERSISTENT_TENSORS",
                                       "SRAM_SLICER_BUNDLE_EXPANSION_ENABLED",
                                       "SRAM_SLICER_COST_MODEL_ENABLED",
                                       "SRAM_SLICER_MAX_CAPACITY_BYTES",
                                       "TERMINATE_SYNAPSE_UPON_DFA",
                                       "TPC_ENGINES_ENABLED_MASK",
                                       "USE_DMA_IN_PHYSICAL_RESHAPE"};
static_assert(std::is_sorted(std::begin(kNames), std::end(kNames)));

}  // namespace

bool isConfigurationOfSynapse(std::string_view name) {
  return std::binary_search(std::begin(kNames), std::end(kNames), name);
}

}  // namespace hpu::synapse
