// SPDX-License-Identifier: Apache-2.0
// The SynapseAI C API: graphs, recipes, devices, memory, streams, events and the profiler of an HPU.
// The one thing to know: every function returns a synStatus, and the reason of a failure in words is
// hpuSynLastError() (hpu_synapse_ext.h). Any thread may call any function; handles are checked, so that a
// stale or foreign one gives synInvalidArgument. docs/synapse-api.md has what differs from SynapseAI.
//
//   synDeviceId device; synStreamHandle stream; uint64_t memory;
//   synInitialize();
//   synDeviceAcquireByDeviceType(&device, synDeviceGaudi2);
//   synStreamCreateGeneric(&stream, device, 0);
//   synDeviceMalloc(device, bytes, 0, 0, &memory);
//   synMemCopyAsync(stream, (uint64_t)(uintptr_t)host, bytes, memory, HOST_TO_DRAM);
//   synStreamSynchronize(stream);
#ifndef HABANALABS_SYNAPSE_API_H
#define HABANALABS_SYNAPSE_API_H

#include <stdbool.h>
#include <stdint.h>

#include "synapse_api_types.h"

#define SYN_API_CALL

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* ---- The library ---- */

/* Starts the library in this process. A second call changes nothing: one synDestroy ends it. */
synStatus SYN_API_CALL synInitialize(void);
/* Waits for all work, releases all devices and invalidates every handle. */
synStatus SYN_API_CALL synDestroy(void);
/* One line for a status, cut to `len` bytes with its end; works before synInitialize. */
synStatus SYN_API_CALL synStatusGetBriefDescription(synStatus status, char* statusDescription, uint64_t len);
/* Values of settings by name: those of OpenHPU (the end of 'hpu-run --help') and those that SynapseAI
 * programs set. Works before synInitialize. */
synStatus SYN_API_CALL synConfigurationSet(const char* configurationName, const char* configurationValue);
synStatus SYN_API_CALL synConfigurationGet(const char* configurationName, char* configurationValue, uint64_t size);
synStatus SYN_API_CALL synDriverGetVersion(char* pDriverVersion, const int len);
/* The number of kernel libraries, and then their paths and versions (owned by the library). */
synStatus SYN_API_CALL synTPCLibraryGetVersionSize(uint32_t* size);
synStatus SYN_API_CALL synTPCLibraryGetVersions(const char** libs, uint32_t* versions);
/* Writes the state of devices, streams and memory to stderr, fails the work that is queued and releases the
 * devices. The process goes on; until synDestroy and synInitialize other calls give synSynapseTerminated.
 * `flags` is 0. */
synStatus SYN_API_CALL synDumpStateAndTerminate(const char* msg, uint64_t flags);

/* ---- Devices ---- */

/* Devices of the node, owned or not; by type those that are, or can become, of that type. */
synStatus SYN_API_CALL synDeviceGetCount(uint32_t* pCount);
synStatus SYN_API_CALL synDeviceGetCountByDeviceType(uint32_t* pCount, const synDeviceType deviceType);
/* `count` has synDeviceTypeSize entries, by synDeviceType. */
synStatus SYN_API_CALL synDeviceCount(uint32_t* count);
/* `size` is the room of the array, and then how many there are. */
synStatus SYN_API_CALL synDeviceGetModuleIDs(uint32_t* pDeviceModuleIds, uint32_t* size);
/* A free device becomes this process's own; several may be held at once. `pciBus` null: any. */
synStatus SYN_API_CALL synDeviceAcquire(synDeviceId* pDeviceId, const char* pciBus);
synStatus SYN_API_CALL synDeviceAcquireByDeviceType(synDeviceId* pDeviceId, const synDeviceType deviceType);
synStatus SYN_API_CALL synDeviceAcquireByModuleId(synDeviceId* pDeviceId, const synModuleId moduleId);
/* Waits for the device's work, then frees its memory and handles. */
synStatus SYN_API_CALL synDeviceRelease(const synDeviceId deviceId);
/* Waits for everything enqueued on the device; returns the first failure of a stream. */
synStatus SYN_API_CALL synDeviceSynchronize(const synDeviceId deviceId);
synStatus SYN_API_CALL synDeviceGetName(char* pName, const int len, const synDeviceId deviceId);
synStatus SYN_API_CALL synDeviceGetPCIBusId(char* pPciBusId, const int len, const synDeviceId deviceId);
synStatus SYN_API_CALL synDeviceGetMemoryInfo(const synDeviceId deviceId, uint64_t* free, uint64_t* total);
synStatus SYN_API_CALL synDeviceGetInfo(const synDeviceId deviceId, synDeviceInfo* pDeviceInfo);
synStatus SYN_API_CALL synDeviceGetInfoV2(const synDeviceId deviceId, synDeviceInfoV2* pDeviceInfo);
/* `querySize` attributes into as many values. */
synStatus SYN_API_CALL synDeviceGetAttribute(uint64_t* retVal, const synDeviceAttribute* deviceAttr,
                                             const unsigned querySize, const synDeviceId deviceId);
synStatus SYN_API_CALL synDeviceGetAttributeByModuleId(uint64_t* retVal, const synDeviceAttribute* deviceAttr,
                                                       const unsigned querySize, const synModuleId moduleId);
synStatus SYN_API_CALL synDeviceTypeGetAttribute(uint64_t* retVal, const synDeviceAttribute* deviceAttr,
                                                 const unsigned querySize, const synDeviceType deviceType);

/* ---- Memory ---- */

/* Pinned host memory that the device can reach; and its end. */
synStatus SYN_API_CALL synHostMalloc(const synDeviceId deviceId, const uint64_t size, const uint32_t flags,
                                     void** buffer);
synStatus SYN_API_CALL synHostFree(const synDeviceId deviceId, const void* buffer, const uint32_t flags);
/* Pins memory that the caller allocated; unmap takes the address that was mapped. */
synStatus SYN_API_CALL synHostMap(const synDeviceId deviceId, const uint64_t size, const void* buffer);
synStatus SYN_API_CALL synHostUnmap(const synDeviceId deviceId, const void* buffer);
/* `reqAddr` 0: anywhere. The buffer is a device address, aligned to 256 bytes. */
synStatus SYN_API_CALL synDeviceMalloc(const synDeviceId deviceId, const uint64_t size, uint64_t reqAddr,
                                       const uint32_t flags, uint64_t* buffer);
/* Takes the address that synDeviceMalloc gave; the memory stays until the work enqueued so far is done. */
synStatus SYN_API_CALL synDeviceFree(const synDeviceId deviceId, const uint64_t buffer, const uint32_t flags);

/* ---- Streams ---- */

/* `flags` is 0; hpu_synapse_ext.h has streams with priorities. */
synStatus SYN_API_CALL synStreamCreateGeneric(synStreamHandle* pStreamHandle, const synDeviceId deviceId,
                                              const uint32_t flags);
synStatus SYN_API_CALL synStreamDestroy(const synStreamHandle streamHandle);
/* Later work of the stream waits for what the event stands for now; `flags` is 0. */
synStatus SYN_API_CALL synStreamWaitEvent(const synStreamHandle streamHandle, synEventHandle eventHandle,
                                          const uint32_t flags);
synStatus SYN_API_CALL synStreamSynchronize(const synStreamHandle streamHandle);
/* synBusy while work is left. */
synStatus SYN_API_CALL synStreamQuery(const synStreamHandle streamHandle);
synStatus SYN_API_CALL synStreamSetAffinity(const synDeviceId deviceId, const synStreamHandle pStreamHandle,
                                            uint64_t streamAffinityMask);
synStatus SYN_API_CALL synStreamGetAffinity(const synDeviceId deviceId, const synStreamHandle pStreamHandle,
                                            uint64_t* streamAffinityMask);
synStatus SYN_API_CALL synDeviceGetAffinityMaskRange(const synDeviceId deviceId, uint64_t* deviceAffinityMaskRange);
synStatus SYN_API_CALL synDeviceGetNextStreamAffinity(const synDeviceId deviceId, uint64_t* nextDeviceAffinity);
/* Copies within or between host and device; addresses inside allocations are fine. Host memory stays valid
 * until the copy is done. */
synStatus SYN_API_CALL synMemCopyAsync(const synStreamHandle streamHandle, const uint64_t src, const uint64_t size,
                                       const uint64_t dst, const synDmaDir direction);
synStatus SYN_API_CALL synMemCopyAsyncMultiple(const synStreamHandle streamHandle, const uint64_t* src,
                                               const uint64_t* size, const uint64_t* dst, const synDmaDir direction,
                                               const uint64_t numCopies);
synStatus SYN_API_CALL synMemsetD8Async(uint64_t pDeviceMem, const unsigned char value, const uint64_t numOfElements,
                                        const synStreamHandle streamHandle);
synStatus SYN_API_CALL synMemsetD16Async(uint64_t pDeviceMem, const uint16_t value, const uint64_t numOfElements,
                                         const synStreamHandle streamHandle);
synStatus SYN_API_CALL synMemsetD32Async(uint64_t pDeviceMem, const uint32_t value, const uint64_t numOfElements,
                                         const synStreamHandle streamHandle);

/* ---- Events ---- */

/* `flags` 0 or EVENT_COLLECT_TIME. */
synStatus SYN_API_CALL synEventCreate(synEventHandle* pEventHandler, const synDeviceId deviceId, const uint32_t flags);
synStatus SYN_API_CALL synEventDestroy(synEventHandle eventHandle);
/* Recording again replaces what the event stands for. */
synStatus SYN_API_CALL synEventRecord(synEventHandle eventHandle, const synStreamHandle streamHandle);
/* synBusy until the recorded work is done; an event that was never recorded is done. */
synStatus SYN_API_CALL synEventQuery(const synEventHandle eventHandle);
synStatus SYN_API_CALL synEventSynchronize(const synEventHandle eventHandle);
/* Device nanoseconds between two events, or of `eventHandleStart` since the device was acquired when the end
 * is null. synBusy: not done; synObjectNotInitialized: not recorded; synUnavailable: no time was collected. */
synStatus SYN_API_CALL synEventElapsedTime(uint64_t* pNanoSeconds, const synEventHandle eventHandleStart,
                                           const synEventHandle eventHandleEnd);
/* Lets events stand for external tensors of a launch; use with synLaunchWithExternalEvents. */
synStatus SYN_API_CALL synEventMapTensor(synEventHandle* eventHandles, uint64_t numOfEvents,
                                         const synLaunchTensorInfo* launchTensorsInfo,
                                         const synRecipeHandle recipeHandle);
synStatus SYN_API_CALL synEventMapTensorExt(synEventHandle* eventHandles, uint64_t numOfEvents,
                                            const synLaunchTensorInfoExt* launchTensorsInfoExt,
                                            const synRecipeHandle recipeHandle);
/* Ids of the external tensors in the order in which a launch produces them. */
synStatus SYN_API_CALL synTensorExtExtractExecutionOrder(const synRecipeHandle recipeHandle,
                                                         uint32_t numOfExternalTensors, uint64_t* tensorIds);

/* ---- Graphs ---- */

synStatus SYN_API_CALL synGraphCreate(synGraphHandle* pGraphHandle, const synDeviceType deviceType);
/* A graph of few nodes whose compilation is looked up by structure. */
synStatus SYN_API_CALL synGraphCreateEager(synGraphHandle* pGraphHandle, const synDeviceType deviceType);
synStatus SYN_API_CALL synGraphDestroy(const synGraphHandle graphHandle);
synStatus SYN_API_CALL synGraphGetDeviceType(const synGraphHandle graphHandle, synDeviceType* deviceType);
synStatus SYN_API_CALL synGraphSetAttribute(synGraphHandle graphHandle, const synGraphAttribute* attributes,
                                            const uint64_t* values, const uint32_t size);
synStatus SYN_API_CALL synGraphSetAttributes(synGraphHandle graphHandle, const synGraphAttribute* attributes,
                                             const synGraphAttributeVal* values, const uint32_t size);
synStatus SYN_API_CALL synGraphGetAttribute(synGraphHandle graphHandle, const synGraphAttribute* attributes,
                                            uint64_t* values, const uint32_t size);
synStatus SYN_API_CALL synGraphGetAttributes(synGraphHandle graphHandle, const synGraphAttribute* attributes,
                                             synGraphAttributeVal* values, const uint32_t size);
/* With null maps: the numbers of tensors and nodes. */
synStatus SYN_API_CALL synGraphDuplicate(synGraphHandle graphHandle, synGraphHandle* newGraphHandle,
                                         synTensorHandleMap* tensorsMap, uint32_t* numTensors,
                                         synNodeHandleMap* nodesMap, uint32_t* numNodes);
/* Fills in the sizes of tensors that have none. */
synStatus SYN_API_CALL synGraphInferShapes(synGraphHandle graphHandle);
/* The warnings and errors go to the file `pBuildLog`, when given. */
synStatus SYN_API_CALL synGraphCompile(synRecipeHandle* pRecipeHandle, const synGraphHandle graphHandle,
                                       const char* pRecipeName, const char* pBuildLog);

/* ---- Nodes ---- */

synStatus SYN_API_CALL synNodeCreate(const synGraphHandle graphHandle, const synTensor* pInputsTensorList,
                                     const synTensor* pOutputsTensorList, const uint32_t numberInputs,
                                     const uint32_t numberOutputs, const void* pUserParams, const unsigned paramsSize,
                                     const char* pGuid, const char* pName, const char** inputLayouts,
                                     const char** outputLayouts);
synStatus SYN_API_CALL synNodeCreateWithId(const synGraphHandle graphHandle, const synTensor* pInputsTensorList,
                                           const synTensor* pOutputsTensorList, const uint32_t numberInputs,
                                           const uint32_t numberOutputs, const void* pUserParams,
                                           const unsigned paramsSize, const char* pGuid, const char* pName,
                                           synNodeId* nodeUniqueId, const char** inputLayouts,
                                           const char** outputLayouts);
synStatus SYN_API_CALL synNodeTypeSetPrecision(const synGraphHandle graphHandle, const char* guid,
                                               synDataType precision);
synStatus SYN_API_CALL synNodeDependencySet(const synGraphHandle graphHandle, const synNodeId* pBlockingNodesIdList,
                                            const synNodeId* pBlockedNodesIdList, const uint32_t numberblocking,
                                            const uint32_t numberblocked);
synStatus SYN_API_CALL synNodeSetDeterministic(const synGraphHandle graphHandle, const synNodeId nodeId,
                                               const bool useDeterministic);
synStatus SYN_API_CALL synNodeGetDeterministic(const synGraphHandle graphHandle, const synNodeId nodeId,
                                               bool* useDeterministic);
synStatus SYN_API_CALL synNodeSetRoundingMode(const synGraphHandle graphHandle, const synNodeId nodeId,
                                              const synRoundingMode roundingMode);
synStatus SYN_API_CALL synNodeGetRoundingMode(const synGraphHandle graphHandle, const synNodeId nodeId,
                                              synRoundingMode* pRoundingMode);
synStatus SYN_API_CALL synNodeSetUserParams(const synGraphHandle graphHandle, const synNodeId nodeId,
                                            const void* userParams, const unsigned paramsSize);
/* With null `userParams`: the size. */
synStatus SYN_API_CALL synNodeGetUserParams(const synGraphHandle graphHandle, const synNodeId nodeId, void* userParams,
                                            unsigned* paramsSize);
synStatus SYN_API_CALL synNodeSetUserProgrammability(const synGraphHandle graphHandle, const synNodeId nodeId,
                                                     const synUserProgrammability* userProgrammability);

/* ---- Tensors ---- */

synStatus SYN_API_CALL synTensorHandleCreate(synTensor* tensor, synGraphHandle graph, synTensorType type,
                                             const char* tensorName);
/* With a descriptor; deprecated by SynapseAI in favour of synTensorHandleCreate and the setters. */
synStatus SYN_API_CALL synTensorCreate(synTensor* pTensor, const synTensorDescriptor* descriptor,
                                       const synSectionHandle pSectionHandle, const uint64_t sectionOffset);
synStatus SYN_API_CALL synConstTensorCreate(synTensor* pTensor, const synTensorDescriptor* descriptor);
synStatus SYN_API_CALL synTensorDestroy(const synTensor tensor);
synStatus SYN_API_CALL synTensorAssignToSection(synTensor tensor, synSectionHandle section, uint64_t byteOffset);
synStatus SYN_API_CALL synTensorSetSectionOffset(synTensor tensor, uint64_t byteOffset);
synStatus SYN_API_CALL synTensorGetSection(synTensor tensor, synSectionHandle* section, uint64_t* byteOffset);
/* The value of a constant; copied at once when `copyBuffer`, else kept by the caller until compilation. */
synStatus SYN_API_CALL synTensorSetHostPtr(synTensor tensor, void* hostPtr, uint64_t size, synDataType dataType,
                                           bool copyBuffer);
synStatus SYN_API_CALL synTensorGetHostPtr(synTensor tensor, void** hostPtr, uint64_t* size, synDataType* dataType);
synStatus SYN_API_CALL synTensorSetQuantizationData(synTensor tensor, synQuantizationProperty prop, void* propVal,
                                                    uint64_t propSize);
synStatus SYN_API_CALL synTensorGetQuantizationData(synTensor tensor, synQuantizationProperty prop, void* propVal,
                                                    uint64_t propSize);
synStatus SYN_API_CALL synTensorSetGeometry(synTensor tensor, const synTensorGeometry* geometry,
                                            synGeometryType geometryType);
synStatus SYN_API_CALL synTensorSetGeometryExt(synTensor tensor, const synTensorGeometryExt* geometry,
                                               synGeometryType geometryType);
synStatus SYN_API_CALL synTensorGetGeometry(const synTensor tensor, synTensorGeometry* geometry,
                                            synGeometryType geometryType);
synStatus SYN_API_CALL synTensorGetGeometryExt(const synTensor tensor, synTensorGeometryExt* geometry,
                                               synGeometryType geometryType);
synStatus SYN_API_CALL synTensorSetPermutation(synTensor tensor, const synTensorPermutation* permutation);
synStatus SYN_API_CALL synTensorGetPermutation(const synTensor tensor, synTensorPermutation* permutation);
synStatus SYN_API_CALL synTensorSetAllowPermutation(synTensor tensor, int8_t allowPermutation);
synStatus SYN_API_CALL synTensorGetAllowPermutation(synTensor tensor, int8_t* allowPermutation);
synStatus SYN_API_CALL synTensorSetDeviceDataType(synTensor tensor, synDataType deviceDataType);
synStatus SYN_API_CALL synTensorGetDeviceDataType(synTensor tensor, synDataType* deviceDataType);
synStatus SYN_API_CALL synTensorSetDeviceLayout(synTensor tensor, const synTensorDeviceLayout* layout);
synStatus SYN_API_CALL synTensorGetDeviceLayout(const synTensor tensor, synTensorDeviceLayout* layout);
synStatus SYN_API_CALL synTensorSetDeviceFullLayout(synTensor tensor, const synTensorDeviceFullLayout* layout);
synStatus SYN_API_CALL synTensorGetDeviceFullLayout(const synTensor tensor, synTensorDeviceFullLayout* layout);
synStatus SYN_API_CALL synTensorSetExternal(synTensor tensor, bool isExternal);
synStatus SYN_API_CALL synTensorGetExternal(const synTensor tensor, bool* isExternal);
synStatus SYN_API_CALL synTensorGetName(const synTensor tensor, const uint64_t size, char* name);
synStatus SYN_API_CALL synTensorGetType(const synTensor tensor, synTensorType* type);

/* ---- Sections ---- */

synStatus SYN_API_CALL synSectionCreate(synSectionHandle* sectionHandle, uint64_t sectionDescriptor,
                                        const synGraphHandle graph);
synStatus SYN_API_CALL synSectionDestroy(synSectionHandle sectionHandle);
synStatus SYN_API_CALL synSectionSetGroup(synSectionHandle sectionHandle, uint64_t sectionGroup);
synStatus SYN_API_CALL synSectionGetGroup(synSectionHandle sectionHandle, uint64_t* sectionGroup);
synStatus SYN_API_CALL synSectionSetPersistent(synSectionHandle sectionHandle, bool sectionIsPersistent);
synStatus SYN_API_CALL synSectionGetPersistent(synSectionHandle sectionHandle, bool* sectionIsPersistent);
synStatus SYN_API_CALL synSectionSetConst(synSectionHandle sectionHandle, bool sectionIsConst);
synStatus SYN_API_CALL synSectionGetConst(synSectionHandle sectionHandle, bool* sectionIsConst);
synStatus SYN_API_CALL synSectionSetRMW(synSectionHandle sectionHandle, bool sectionIsRMW);
synStatus SYN_API_CALL synSectionGetRMW(synSectionHandle sectionHandle, bool* sectionIsRMW);

/* ---- Recipes ---- */

synStatus SYN_API_CALL synRecipeDestroy(synRecipeHandle recipeHandle);
synStatus SYN_API_CALL synRecipeSerialize(const synRecipeHandle recipeHandle, const char* recipeFileName);
synStatus SYN_API_CALL synRecipeDeSerialize(synRecipeHandle* pRecipeHandle, const char* recipeFileName);
synStatus SYN_API_CALL synRecipeGetAttribute(uint64_t* retVal, const synRecipeAttribute* recipeAttr,
                                             const unsigned querySize, const synRecipeHandle recipeHandle);
/* SECTION_DATA is a host address that is valid until the recipe ends or synRecipeSectionHostBuffersClear. */
synStatus SYN_API_CALL synRecipeSectionGetProp(const synRecipeHandle pRecipeHandle, const synSectionId sectionId,
                                               const synSectionProp prop, uint64_t* propertyPtr);
synStatus SYN_API_CALL synRecipeSectionHostBuffersClear(synRecipeHandle recipeHandle, const synSectionId* sectionIds,
                                                        uint64_t numOfSections);
synStatus SYN_API_CALL synWorkspaceGetSize(uint64_t* pWorkspaceSize, const synRecipeHandle recipeHandle);
synStatus SYN_API_CALL synTensorRetrieveLaunchAmount(const synRecipeHandle pRecipeHandle, uint32_t* numOfTensors);
synStatus SYN_API_CALL synTensorRetrieveLaunchIds(const synRecipeHandle pRecipeHandle, uint64_t* tensorsIds,
                                                  const uint32_t numOfTensors);
synStatus SYN_API_CALL synTensorRetrieveLaunchInfoById(const synRecipeHandle pRecipeHandle, const uint32_t numOfTensors,
                                                       synRetrievedLaunchTensorInfo* tensorsLaunchInfo);
synStatus SYN_API_CALL synTensorRetrieveLaunchInfoByIdExt(const synRecipeHandle pRecipeHandle,
                                                          const uint32_t numOfTensors,
                                                          synRetrievedLaunchTensorInfoExt* tensorsLaunchInfoExt);
synStatus SYN_API_CALL synTensorRetrieveMultiLaunchInfosById(const synRecipeHandle pRecipeHandle,
                                                             const uint64_t tensorId,
                                                             synRetrievedLaunchTensorInfo* tensorLaunchInfo,
                                                             uint32_t* numLaunchInfos);
synStatus SYN_API_CALL synTensorRetrieveInfosByName(const synRecipeHandle pRecipeHandle, const uint32_t numOfTensors,
                                                    TensorMetadataInfo* tensorsMetadataInfo);
synStatus SYN_API_CALL synTensorRetrieveInfosByNameExt(const synRecipeHandle pRecipeHandle, const uint32_t numOfTensors,
                                                       TensorMetadataInfoExt* tensorsMetadataInfoExt);
synStatus SYN_API_CALL synTensorRetrievePersistentAmount(const synRecipeHandle pRecipeHandle, uint32_t* numOfTensors);
synStatus SYN_API_CALL synTensorRetrieveNames(const synRecipeHandle pRecipeHandle,
                                              char (*tensorsName)[ENQUEUE_TENSOR_NAME_MAX_SIZE],
                                              const uint32_t numOfTensors);
synStatus SYN_API_CALL synTensorRetrieveIds(const synRecipeHandle pRecipeHandle, const char** tensorNames,
                                            uint64_t* tensorIds, const uint32_t numOfTensors);

/* ---- Launches ---- */

/* Tensors by id, or by name with SYN_FLAGS_TENSOR_NAME. `pWorkspace` has synWorkspaceGetSize bytes. */
synStatus SYN_API_CALL synLaunch(const synStreamHandle streamHandle, const synLaunchTensorInfo* launchTensorsInfo,
                                 const uint32_t numberOfTensors, uint64_t pWorkspace,
                                 const synRecipeHandle pRecipeHandle, uint32_t flags);
synStatus SYN_API_CALL synLaunchExt(const synStreamHandle streamHandle,
                                    const synLaunchTensorInfoExt* launchTensorsInfoExt, const uint32_t numberOfTensors,
                                    uint64_t pWorkspace, const synRecipeHandle pRecipeHandle, uint32_t flags);
synStatus SYN_API_CALL synLaunchWithExternalEvents(const synStreamHandle streamHandle,
                                                   const synLaunchTensorInfo* launchTensorsInfoExt,
                                                   const uint32_t numberOfTensors, uint64_t pWorkspace,
                                                   const synRecipeHandle pRecipeHandle, synEventHandle* eventHandleList,
                                                   const uint32_t numberOfEvents, uint32_t flags);
synStatus SYN_API_CALL synLaunchWithExternalEventsExt(const synStreamHandle streamHandle,
                                                      const synLaunchTensorInfoExt* launchTensorsInfoExt,
                                                      const uint32_t numberOfTensors, uint64_t pWorkspace,
                                                      const synRecipeHandle pRecipeHandle,
                                                      synEventHandle* eventHandleList, const uint32_t numberOfEvents,
                                                      uint32_t flags);

/* ---- The profiler ---- */

/* Bytes for synProfilerSetUserBuffer: none, the trace is kept in host memory. */
synStatus SYN_API_CALL synProfilerQueryRequiredMemory(const synDeviceId deviceId, uint32_t* bytesRequired);
synStatus SYN_API_CALL synProfilerSetUserBuffer(const synDeviceId deviceId, void* userBuffer);
synStatus SYN_API_CALL synProfilerStart(const synTraceType type, const synDeviceId deviceId);
synStatus SYN_API_CALL synProfilerStop(const synTraceType type, const synDeviceId deviceId);
/* What was recorded between start and stop. `size` null: as a file of Chrome JSON (HPU_PROFILE_DIR). `buffer`
 * null: the bytes and entries that a buffer needs. Else `size` is the buffer's, and then what was written:
 * synTraceEvent entries, their texts, the number of entries and the format's version (both uint64_t). */
synStatus SYN_API_CALL synProfilerGetTrace(const synTraceType type, const synDeviceId deviceId,
                                           const synTraceFormat format, void* buffer, uint64_t* size,
                                           uint64_t* numEntries);
synStatus SYN_API_CALL synProfilerGetCurrentTimeNS(uint64_t* nanoTime);
/* A span from `nanoTime` until now, in the trace of the calling thread. */
synStatus SYN_API_CALL synProfilerAddCustomMeasurement(const char* description, uint64_t nanoTime);
synStatus SYN_API_CALL synProfilerAddCustomMeasurementArgs(const char* description, uint64_t nanoTime,
                                                           const char** args, uint64_t argsSize);
synStatus SYN_API_CALL synProfilerAddCustomMeasurementArgsAndThread(const char* description, uint64_t nanoTime,
                                                                    const char** args, uint64_t argsSize,
                                                                    const char* threadName);
synStatus SYN_API_CALL synProfilerAddCustomEvent(const char* description, uint64_t startTime, uint64_t endTime,
                                                 const char** args, uint64_t argsSize);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
