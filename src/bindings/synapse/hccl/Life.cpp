// SPDX-License-Identifier: Apache-2.0
// Entry points that make, ask and end communicators.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/Format.h"
#include "bindings/synapse/hccl/Communicators.h"
#include "bindings/synapse/hccl/UniqueIds.h"

using namespace hpu::synapse;
namespace collectives = hpu::collectives;

hcclResult_t hcclGetVersion(int* version) {
  return guardedHccl(
      "hcclGetVersion",
      [&]() -> HcclResult {
        HCCL_REQUIRE(version);
        *version = HCCL_VERSION_CODE;
        return {};
      },
      HcclNeeds::kNothing);
}

hcclResult_t hcclGetUniqueId(hcclUniqueId* uniqueId) {
  return guardedHccl(
      "hcclGetUniqueId",
      [&]() -> HcclResult {
        HCCL_REQUIRE(uniqueId);
        hpu::StatusOr<collectives::UniqueId> id = collectives::createUniqueId();
        if (!id.ok()) return ofInit(id.status());
        *uniqueId = toHcclId(*id);
        return {};
      },
      HcclNeeds::kNothing);
}

hcclResult_t hcclCommInitRank(hcclComm_t* comm, int nranks, hcclUniqueId commId, int rank) {
  return guardedHccl("hcclCommInitRank", [&]() -> HcclResult {
    HCCL_REQUIRE(comm);
    *comm = nullptr;
    collectives::UniqueId id;
    HCCL_RETURN_IF_ERROR(fromHcclId(commId, id));
    std::shared_ptr<DeviceObject> device;
    HCCL_RETURN_IF_ERROR(orDecline(deviceForRank(device), id, rank, nranks));
    auto made = collectives::Communicator::create(id, rank, nranks, device->device());
    if (!made.ok()) return ofInit(made.status());
    return keepCommunicator(device, std::move(*made), comm);
  });
}

hcclResult_t hcclCommInitAll(hcclComm_t* comm, int ndev, const int* devlist) {
  return guardedHccl("hcclCommInitAll", [&]() -> HcclResult {
    HCCL_REQUIRE(comm);
    if (ndev < 1) return {hcclInvalidArgument, hpu::base::strCat("ndev is ", ndev, "; at least 1 is needed")};
    std::fill_n(comm, ndev, nullptr);
    std::vector<std::shared_ptr<DeviceObject>> objects;
    std::vector<hpu::Device> devices;
    for (int i = 0; i < ndev; ++i) {
      int id = devlist ? devlist[i] : i;
      if (id < 0) return {hcclInvalidArgument, hpu::base::strCat("devlist[", i, "] is ", id)};
      auto device = Library::get().findDevice(static_cast<synDeviceId>(id));
      bool taken = std::find(objects.begin(), objects.end(), device) != objects.end();
      // Of one device every id is the device's: a second one is another that there is not.
      if (!device || (taken && device->id() != static_cast<synDeviceId>(id)))
        return HcclResult(hcclNoDeviceFound, Library::get().missingDevice(static_cast<synDeviceId>(id)).text());
      if (taken) return {hcclInvalidArgument, hpu::base::strCat("device ", id, " is listed twice")};
      devices.push_back(device->device());
      objects.push_back(std::move(device));
    }
    auto made = collectives::Communicator::createAll(devices);
    if (!made.ok()) return ofInit(made.status());
    std::vector<hcclComm_t> handles(objects.size());
    for (size_t i = 0; i < objects.size(); ++i) {
      HcclResult kept = keepCommunicator(objects[i], std::move((*made)[i]), &handles[i]);
      if (kept.ok()) continue;
      for (size_t k = 0; k < i; ++k) communicators().remove(handles[k]);
      return kept;
    }
    std::copy(handles.begin(), handles.end(), comm);
    return {};
  });
}

hcclResult_t hcclCommFinalize(hcclComm_t comm) {
  return guardedHccl("hcclCommFinalize", [&]() -> HcclResult {
    HCCL_FIND(object, comm);
    HCCL_RETURN_IF_ERROR(notReady(*object));
    return ofCall(*object, object->comm.finalize());
  });
}

hcclResult_t hcclCommDestroy(hcclComm_t comm) {
  return guardedHccl("hcclCommDestroy", [&]() -> HcclResult {
    auto object = communicators().remove(comm);
    if (!object) return HcclResult(communicators().missing(comm));
    // One that is still being made would go on without a handle, and be a rank to the others.
    if (object->comm.pending()) return object->comm.abort("hcclCommDestroy was called before it was ready");
    return {};
  });
}

hcclResult_t hcclCommAbort(hcclComm_t comm) {
  return guardedHccl("hcclCommAbort", [&]() -> HcclResult {
    auto object = communicators().remove(comm);
    if (!object) return HcclResult(communicators().missing(comm));
    return object->comm.abort("hcclCommAbort was called");
  });
}

const char* hcclGetErrorString(hcclResult_t result) {
  switch (result) {
    case hcclUninitialized:
      return "the library is not initialized";
    case hcclSuccess:
      return "success";
    case hcclNoDeviceFound:
      return "no device";
    case hcclUnsupported:
      return "not supported";
    case hcclOutOfMemory:
      return "out of memory";
    case hcclUnhandledSynapseError:
      return "a call of the Synapse API failed";
    case hcclSystemError:
      return "the system or a peer failed";
    case hcclInternalError:
      return "internal error";
    case hcclInvalidArgument:
      return "invalid argument";
    case hcclInvalidUsage:
      return "invalid usage";
    case hcclSocketError:
      return "the ranks could not meet";
    case hcclLibfabricError:
      return "libfabric failed";
    case hcclTryAgainError:
      return "try again";
    case hcclBusy:
      return "not ready yet";
    case hcclStreamError:
      return "the work of a stream failed";
    case hcclSynapseTerminated:
      return "the library was terminated";
    case hcclPortDown:
      return "a network port is down";
    case hcclNumResults:
      break;
  }
  return "not a result of this library";
}

const char* hcclGetLastErrorMessage(void) {
  return lastHcclError();
}

hcclResult_t hcclCommGetAsyncError(hcclComm_t comm, hcclResult_t* asyncError) {
  return guardedHccl("hcclCommGetAsyncError", [&]() -> HcclResult {
    HCCL_REQUIRE(asyncError);
    HCCL_FIND(object, comm);
    *asyncError = failureOf(*object).result();
    return {};
  });
}

const char* hcclCommGetAsyncErrorMessage(hcclComm_t comm) {
  const char* text = nullptr;
  hcclResult_t result = guardedHccl("hcclCommGetAsyncErrorMessage", [&]() -> HcclResult {
    if (comm) {
      HCCL_FIND(object, comm);
      HcclResult failure = failureOf(*object);
      if (!failure.ok()) text = keepHcclText(failure.text());
      return {};
    }
    for (const auto& object : communicators().all()) {
      hpu::Status status = object->comm.asyncError();
      if (status.ok()) continue;
      text = keepHcclText(status.message());
      break;
    }
    return {};
  });
  return result == hcclSuccess ? text : nullptr;
}

hcclResult_t hcclCommCount(hcclComm_t comm, int* count) {
  return guardedHccl("hcclCommCount", [&]() -> HcclResult {
    HCCL_REQUIRE(count);
    HCCL_FIND(object, comm);
    *count = object->comm.ranks();
    return {};
  });
}

hcclResult_t hcclCommSynDevice(hcclComm_t comm, int* device) {
  return guardedHccl("hcclCommSynDevice", [&]() -> HcclResult {
    HCCL_REQUIRE(device);
    HCCL_FIND(object, comm);
    *device = static_cast<int>(object->device->id());
    return {};
  });
}

hcclResult_t hcclCommUserRank(hcclComm_t comm, int* rank) {
  return guardedHccl("hcclCommUserRank", [&]() -> HcclResult {
    HCCL_REQUIRE(rank);
    HCCL_FIND(object, comm);
    *rank = object->comm.rank();
    return {};
  });
}

hcclResult_t hcclDeviceInit(void* device, void* context) {
  (void)device;
  (void)context;
  return guardedHccl("hcclDeviceInit", [&]() -> HcclResult {
    if (Library::get().devices().empty())
      return {hcclNoDeviceFound, "this process has no device; call synDeviceAcquire first"};
    return {};
  });
}

int hcclLookupDMABuff(uint64_t addr, uint64_t size, int* fd) {
  hcclResult_t result = guardedHccl("hcclLookupDMABuff", [&]() -> HcclResult {
    HCCL_REQUIRE(fd);
    *fd = -1;
    int64_t bytes = 0;
    HCCL_RETURN_IF_ERROR(elementCount(size, bytes));
    std::shared_ptr<DeviceObject> device;
    HCCL_RETURN_IF_ERROR(deviceForRank(device));
    hpu::StatusOr<int> file = device->device().memoryFile(addr, bytes);
    if (!file.ok()) return file.status();
    *fd = *file;
    return {};
  });
  return result == hcclSuccess ? 0 : -1;
}
