// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/api/Result.h"

#include <algorithm>

#include "base/CopyText.h"
#include "base/Format.h"

namespace hpu::synapse {

synStatus toSynStatus(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return synSuccess;
    case StatusCode::kInvalidArgument:
    case StatusCode::kOutOfRange:
      return synInvalidArgument;
    case StatusCode::kDeadlineExceeded:
      return synTimeout;
    case StatusCode::kNotFound:
    case StatusCode::kUnavailable:
      return synUnavailable;
    case StatusCode::kAlreadyExists:
      return synNameIsAlreadyUsed;
    case StatusCode::kResourceExhausted:
      return synOutOfDeviceMemory;
    case StatusCode::kFailedPrecondition:
      return synResourceBadUsage;
    case StatusCode::kCancelled:
    case StatusCode::kAborted:
      return synDeviceReset;
    case StatusCode::kUnimplemented:
      return synUnsupported;
    case StatusCode::kDataLoss:
      return synWrongParamsFile;
    case StatusCode::kUnknown:
    case StatusCode::kPermissionDenied:
    case StatusCode::kInternal:
      return synFail;
  }
  return synFail;
}

const char* describe(synStatus status) {
  switch (status) {
    case synSuccess:
      return "Success";
    case synInvalidArgument:
      return "An argument is not valid";
    case synCbFull:
      return "The command buffer is full";
    case synOutOfHostMemory:
      return "Out of host memory";
    case synOutOfDeviceMemory:
      return "Out of device memory";
    case synObjectAlreadyInitialized:
      return "The object is initialized already";
    case synObjectNotInitialized:
      return "The object is not initialized";
    case synCommandSubmissionFailure:
      return "The device did not take a command";
    case synNoDeviceFound:
      return "No such device, or none is free";
    case synDeviceTypeMismatch:
      return "The device is of another type";
    case synFailedToInitializeCb:
      return "A command buffer could not be initialized";
    case synFailedToFreeCb:
      return "A command buffer could not be freed";
    case synFailedToMapCb:
      return "A command buffer could not be mapped";
    case synFailedToUnmapCb:
      return "A command buffer could not be unmapped";
    case synFailedToAllocateDeviceMemory:
      return "Device memory could not be allocated";
    case synFailedToFreeDeviceMemory:
      return "Device memory could not be freed";
    case synFailedNotEnoughDevicesFound:
      return "There are not enough devices";
    case synDeviceReset:
      return "The device was reset, or must be";
    case synUnsupported:
      return "Not supported";
    case synWrongParamsFile:
      return "The file is not valid, or of another version";
    case synDeviceAlreadyAcquired:
      return "The device is acquired already";
    case synNameIsAlreadyUsed:
      return "The name is in use already";
    case synBusy:
      return "Not done yet";
    case synAllResourcesTaken:
      return "All resources of this kind are taken";
    case synUnavailable:
      return "The resource is not available or not found";
    case synInvalidTensorDimensions:
      return "The sizes of a tensor are not valid";
    case synFail:
      return "Failure; hpuSynLastError() says which";
    case synOutOfResources:
      return "Out of resources";
    case synUninitialized:
      return "The library is not initialized";
    case synAlreadyInitialized:
      return "The library is initialized already";
    case synFailedSectionValidation:
      return "The sections of a launch are not valid";
    case synSynapseTerminated:
      return "The library was terminated";
    case synAssertAsync:
      return "An assertion failed on the device";
    case synInvalidEventHandle:
      return "The event handle is not valid";
    case synMappingNotFound:
      return "The address is not mapped";
    case synFailedDynamicPatching:
      return "The actual sizes do not fit the recipe";
    case synFailedStaticPatching:
      return "The addresses do not fit the recipe";
    case synFailedToSubmitWorkload:
      return "The work could not be enqueued";
    case synInvalidSectionsDefinition:
      return "The definition of a section is not valid";
    case synInvalidTensorProperties:
      return "The properties of a tensor are not valid";
    case synFailHccl:
      return "Failure of the collectives";
    case synFailedToCollectTime:
      return "The time was not collected";
    case synTimeout:
      return "The deadline passed";
    case synResourceBadUsage:
      return "The resource cannot be used in this way now";
    case synNullPtr:
      return "A pointer is null";
    case synFailFuser:
      return "Failure of the kernel fuser";
    case synFailComplexGuid:
      return "Failure in a composite node";
    case synFailTpcKernels:
      return "Failure of the TPC kernels";
  }
  return nullptr;
}

Result ofEnqueue(const Status& status) {
  if (status.code() == StatusCode::kResourceExhausted) return {synOutOfHostMemory, status.message()};
  return status;
}

Result ofWork(const Status& status) {
  switch (status.code()) {
    case StatusCode::kNotFound:  // The device-memory checker's: no allocation, or beyond its end.
    case StatusCode::kOutOfRange:
      return {synMappingNotFound, status.message()};
    case StatusCode::kUnavailable:
      return {synDeviceReset, status.message()};  // The device has failed.
    case StatusCode::kDataLoss:
      return {synFail, status.message()};  // Of its memory.
    default:
      return status;
  }
}

Result ofQuery(const StatusOr<bool>& done) {
  if (!done.ok()) return ofWork(done.status());
  return *done ? synSuccess : synBusy;
}

Result copyText(std::string_view text, char* out, int64_t bytes) {
  if (base::copyText(text, out, static_cast<uint64_t>(std::max<int64_t>(bytes, 0)))) return {};
  return badArgument(base::strCat("the text needs ", text.size() + 1, " bytes and the buffer has ", bytes));
}

}  // namespace hpu::synapse
