// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/hccl/HcclResult.h"

#include "bindings/synapse/api/LastError.h"
#include "bindings/synapse/api/Library.h"

namespace hpu::synapse {

hcclResult_t toHcclResult(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return hcclSuccess;
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotFound:
    case StatusCode::kOutOfRange:
      return hcclInvalidArgument;
    case StatusCode::kFailedPrecondition:
    case StatusCode::kAlreadyExists:
    case StatusCode::kPermissionDenied:
      return hcclInvalidUsage;
    case StatusCode::kResourceExhausted:
      return hcclOutOfMemory;
    case StatusCode::kUnimplemented:
      return hcclUnsupported;
    case StatusCode::kUnavailable:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kAborted:
    case StatusCode::kCancelled:
      return hcclSystemError;
    case StatusCode::kUnknown:
    case StatusCode::kInternal:
    case StatusCode::kDataLoss:
      break;
  }
  return hcclInternalError;
}

HcclResult::HcclResult(const Result& result) : text_(result.text()) {
  switch (result.status()) {
    case synSuccess:
      result_ = hcclSuccess;
      break;
    case synInvalidArgument:
      result_ = hcclInvalidArgument;
      break;
    case synUninitialized:
      result_ = hcclUninitialized;
      break;
    case synNoDeviceFound:
      result_ = hcclNoDeviceFound;
      break;
    case synOutOfHostMemory:
    case synOutOfDeviceMemory:
      result_ = hcclOutOfMemory;
      break;
    case synUnsupported:
      result_ = hcclUnsupported;
      break;
    default:
      result_ = hcclUnhandledSynapseError;
      break;
  }
}

hcclResult_t hcclLibraryState() noexcept {
  switch (Library::get().state()) {
    case synSuccess:
      return hcclSuccess;
    case synUninitialized:
      return hcclUninitialized;
    default:
      return hcclSynapseTerminated;
  }
}

hcclResult_t reportHcclFailure(const char* function, hcclResult_t result, const char* text) noexcept {
  lastError().hccl.set(function, *text ? text : hcclGetErrorString(result));
  return result;
}

const char* lastHcclError() noexcept {
  const FailureText& last = lastError().hccl;
  return last.any() ? last.text() : nullptr;
}

const char* keepHcclText(std::string text) {
  std::string& kept = lastError().hcclKept;
  kept = std::move(text);
  return kept.c_str();
}

}  // namespace hpu::synapse
