// SPDX-License-Identifier: Apache-2.0
#include "tests/random/Ort.h"

#include <dlfcn.h>

#include <cstring>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "tests/random/Model.h"

namespace hpu::randomtest {
namespace {

using base::strCat;

// OrtApi of onnxruntime_c_api.h is append-only: ONNX Runtime's own build asserts that ReleaseCustomOpDomain, the last
// function of version 1, is at 101. These are the places of what is used here.
enum Place {
  kGetErrorMessage = 2,
  kCreateEnv = 3,
  kCreateSessionFromArray = 8,
  kRun = 9,
  kCreateSessionOptions = 10,
  kDisableCpuMemArena = 19,
  kSetSessionLogSeverityLevel = 22,
  kSetSessionGraphOptimizationLevel = 23,
  kSetIntraOpNumThreads = 24,
  kCreateTensorWithDataAsOrtValue = 49,
  kGetTensorMutableData = 51,
  kGetTensorElementType = 60,
  kGetDimensionsCount = 61,
  kGetDimensions = 62,
  kGetTensorTypeAndShape = 65,
  kCreateCpuMemoryInfo = 69,
  kReleaseStatus = 93,
  kReleaseSession = 95,
  kReleaseValue = 96,
  kReleaseTensorTypeAndShapeInfo = 99,
};
constexpr uint32_t kApiVersion = 1;

struct ApiBase {
  void* const* (*getApi)(uint32_t version);
  const char* (*getVersionString)();
};

class Api {
 public:
  void* const* table = nullptr;

  /// A function that gives a status (null: success).
  template <typename... Args>
  Status call(Place place, Args... args) const {
    void* status = reinterpret_cast<void* (*)(Args...)>(table[place])(args...);
    if (!status) return okStatus();
    Status result = invalidArgument(reinterpret_cast<const char* (*)(void*)>(table[kGetErrorMessage])(status));
    release(kReleaseStatus, status);
    return result;
  }
  void release(Place place, void* object) const {
    if (object) reinterpret_cast<void (*)(void*)>(table[place])(object);
  }
};

struct Owned {
  const Api* api;
  Place place;
  void* object = nullptr;
  Owned(const Api& from, Place release) : api(&from), place(release) {}
  Owned(const Owned&) = delete;
  ~Owned() { api->release(place, object); }
};

class SessionImpl final : public OrtSession {
 public:
  SessionImpl(const Api& api, void* memory) : api_(api), memory_(memory), session_(api, kReleaseSession) {}

  Status open(void* env, void* options, const std::string& model) {
    return api_.call(kCreateSessionFromArray, env, static_cast<const void*>(model.data()), model.size(), options,
                     &session_.object);
  }

  StatusOr<std::vector<HostTensor>> run(const std::vector<std::string>& inputs,
                                        const std::vector<const HostTensor*>& values,
                                        const std::vector<std::string>& outputs) override {
    std::vector<std::unique_ptr<Owned>> owned;
    std::vector<const char*> inputNames, outputNames;
    std::vector<void*> given, made(outputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const HostTensor& value = *values[i];
      owned.push_back(std::make_unique<Owned>(api_, kReleaseValue));
      HPU_RETURN_IF_ERROR(api_.call(kCreateTensorWithDataAsOrtValue, memory_,
                                    const_cast<void*>(static_cast<const void*>(value.bytes.data())), value.bytes.size(),
                                    value.type.shape.data(), value.type.shape.size(), onnxType(value.type.element),
                                    &owned.back()->object));
      given.push_back(owned.back()->object);
      inputNames.push_back(inputs[i].c_str());
    }
    for (const std::string& name : outputs) outputNames.push_back(name.c_str());
    HPU_RETURN_IF_ERROR(api_.call(kRun, session_.object, static_cast<const void*>(nullptr), inputNames.data(),
                                  given.data(), given.size(), outputNames.data(), outputNames.size(), made.data()));
    for (void* value : made) {
      owned.push_back(std::make_unique<Owned>(api_, kReleaseValue));
      owned.back()->object = value;
    }
    std::vector<HostTensor> results;
    for (void* value : made) {
      HPU_ASSIGN(HostTensor result, copyOut(value));
      results.push_back(std::move(result));
    }
    return results;
  }

 private:
  StatusOr<HostTensor> copyOut(void* value) const {
    Owned info(api_, kReleaseTensorTypeAndShapeInfo);
    HPU_RETURN_IF_ERROR(api_.call(kGetTensorTypeAndShape, value, &info.object));
    int type = 0;
    size_t rank = 0;
    HPU_RETURN_IF_ERROR(api_.call(kGetTensorElementType, info.object, &type));
    HPU_RETURN_IF_ERROR(api_.call(kGetDimensionsCount, info.object, &rank));
    HostTensor tensor;
    tensor.type.element = elementType(type);
    if (tensor.type.element == ElementType::kInvalid) return unimplemented(strCat("a result of ONNX type ", type));
    tensor.type.shape.resize(rank);
    HPU_RETURN_IF_ERROR(api_.call(kGetDimensions, info.object, tensor.type.shape.data(), rank));
    void* data = nullptr;
    HPU_RETURN_IF_ERROR(api_.call(kGetTensorMutableData, value, &data));
    tensor.bytes.resize(static_cast<size_t>(tensor.type.bytes()));
    if (!tensor.bytes.empty()) memcpy(tensor.bytes.data(), data, tensor.bytes.size());
    return tensor;
  }

  const Api& api_;
  void* memory_;
  Owned session_;
};

/// Never unloaded: the objects below live as long as the process.
class OrtImpl final : public Ort {
 public:
  Status start(const std::string& path) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) return notFound(strCat("ONNX Runtime cannot be loaded: ", dlerror()));
    auto* getBase = reinterpret_cast<const ApiBase* (*)()>(dlsym(library, "OrtGetApiBase"));
    if (!getBase) return failedPrecondition(strCat("'", path, "' has no OrtGetApiBase: it is not ONNX Runtime"));
    version_ = getBase()->getVersionString();
    if (version_.rfind("1.", 0) != 0)
      return failedPrecondition(
          strCat("ONNX Runtime ", version_, " may have another table of functions; 1.x is needed"));
    api_.table = getBase()->getApi(kApiVersion);
    if (!api_.table)
      return failedPrecondition(strCat("ONNX Runtime ", version_, " has no API of version ", kApiVersion));
    constexpr int kFatalOnly = 4, kNoOptimisation = 0, kArena = 0, kDefaultMemory = 0;
    HPU_RETURN_IF_ERROR(api_.call(kCreateEnv, kFatalOnly, "random", &env_));
    HPU_RETURN_IF_ERROR(api_.call(kCreateSessionOptions, &options_));
    HPU_RETURN_IF_ERROR(api_.call(kSetSessionGraphOptimizationLevel, options_, kNoOptimisation));
    HPU_RETURN_IF_ERROR(api_.call(kSetIntraOpNumThreads, options_, 1));
    HPU_RETURN_IF_ERROR(api_.call(kSetSessionLogSeverityLevel, options_, kFatalOnly));
    HPU_RETURN_IF_ERROR(api_.call(kDisableCpuMemArena, options_));
    return api_.call(kCreateCpuMemoryInfo, kArena, kDefaultMemory, &memory_);
  }

  const std::string& version() const override { return version_; }

  StatusOr<std::unique_ptr<OrtSession>> open(const std::string& model) override {
    auto session = std::make_unique<SessionImpl>(api_, memory_);
    HPU_RETURN_IF_ERROR(session->open(env_, options_, model));
    return StatusOr<std::unique_ptr<OrtSession>>(std::move(session));
  }

 private:
  Api api_;
  std::string version_;
  void *env_ = nullptr, *options_ = nullptr, *memory_ = nullptr;
};

}  // namespace

StatusOr<std::unique_ptr<Ort>> Ort::load(const std::string& path) {
  auto ort = std::make_unique<OrtImpl>();
  HPU_RETURN_IF_ERROR(ort->start(path));
  return StatusOr<std::unique_ptr<Ort>>(std::move(ort));
}

}  // namespace hpu::randomtest
