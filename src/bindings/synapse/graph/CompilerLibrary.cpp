// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/graph/CompilerLibrary.h"

#include <dlfcn.h>

#include <atomic>
#include <mutex>
#include <string>
#include <utility>

#include "base/AtFork.h"
#include "base/Format.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"

namespace hpu::synapse {
namespace {

constexpr const char* kFileName = "libhpu_synapse_compiler.so";

struct Library {
  decltype(&hpuSynapseCompile) compile = nullptr;
  decltype(&hpuSynapseInferShapes) infer = nullptr;
};

/// The folder of the library or program that this code is part of, with its slash.
std::string ownFolder() {
  Dl_info info = {};
  if (!dladdr(reinterpret_cast<const void*>(&ownFolder), &info) || !info.dli_fname) return {};
  std::string path = info.dli_fname;
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash + 1);
}

std::string dlText() {
  const char* text = dlerror();
  return text ? text : "unknown reason";
}

/// Beside this library, or wherever the loader looks.
StatusOr<std::pair<void*, std::string>> open() {
  HPU_ASSIGN(std::string given, settings::getString(Setting::HPU_SYNAPSE_COMPILER));
  if (!given.empty()) {
    if (void* handle = dlopen(given.c_str(), RTLD_NOW | RTLD_LOCAL)) return std::pair(handle, given);
    return unavailable(base::strCat("cannot load the graph compiler '", given,
                                    "' that HPU_SYNAPSE_COMPILER names: ", dlText(),
                                    "; name a file that is there, or unset it to use ", ownFolder(), kFileName));
  }
  std::string beside = ownFolder() + kFileName;
  if (void* handle = dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL)) return std::pair(handle, beside);
  std::string why = dlText();
  if (void* handle = dlopen(kFileName, RTLD_NOW | RTLD_LOCAL)) return std::pair(handle, std::string(kFileName));
  return unavailable(
      base::strCat("cannot load the graph compiler '", beside, "', nor '", kFileName,
                   "' from the loader's folders (LD_LIBRARY_PATH): ", why,
                   "; build the target hpu_synapse_compiler and put its library beside libSynapse.so, or set "
                   "HPU_SYNAPSE_COMPILER to its path"));
}

template <typename F>
Status look(void* handle, const std::string& path, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(handle, name));
  if (function) return okStatus();
  return unavailable(base::strCat("'", path, "' is no graph compiler: it has no ", name));
}

StatusOr<Library> functionsOf(void* handle, const std::string& path) {
  decltype(&hpuSynapseCompileVersion) version = nullptr;
  Library library;
  HPU_RETURN_IF_ERROR(look(handle, path, "hpuSynapseCompileVersion", version));
  if (uint32_t v = version(); v != kCompileInterfaceVersion)
    return unavailable(base::strCat("the graph compiler '", path, "' has interface version ", v,
                                    ", and this library needs ", kCompileInterfaceVersion,
                                    "; install both from one build"));
  HPU_RETURN_IF_ERROR(look(handle, path, "hpuSynapseCompile", library.compile));
  HPU_RETURN_IF_ERROR(look(handle, path, "hpuSynapseInferShapes", library.infer));
  return library;
}

StatusOr<Library> load() {
  HPU_ASSIGN(auto opened, open());
  StatusOr<Library> library = functionsOf(opened.first, opened.second);
  // One that serves stays open: recipes' logs and statuses have its code in them. Another is let go, so that the next
  // attempt reads the file anew.
  if (!library.ok()) dlclose(opened.first);
  return library;
}

/// Held while the library is loaded. Never destroyed: exit handlers may compile.
std::mutex& loading();
std::mutex& loading() {
  static auto* mutex = [] {
    base::atFork(base::ForkRank::kGraphCompiler, base::forkHandlersOf<loading>());
    return new std::mutex;
  }();
  return *mutex;
}

/// Loaded once; a failure is not kept, since the next call may find the library installed or named.
StatusOr<const Library*> library() {
  static std::atomic<const Library*> loaded{nullptr};
  if (const Library* known = loaded.load(std::memory_order_acquire)) return known;
  std::lock_guard lock(loading());
  if (const Library* known = loaded.load(std::memory_order_acquire)) return known;
  HPU_ASSIGN(Library found, load());
  loaded.store(new Library(found), std::memory_order_release);
  return loaded.load(std::memory_order_relaxed);
}

}  // namespace

StatusOr<CompiledGraph> compileWithLibrary(const GraphDescription& graph, const CompileRequest& request) {
  HPU_ASSIGN(const Library* compiler, library());
  CompiledGraph result;
  Status status;
  compiler->compile(&graph, &request, &result, &status);
  if (!status.ok()) return status;
  return result;
}

Status inferWithLibrary(GraphDescription& graph) {
  HPU_ASSIGN(const Library* compiler, library());
  Status status;
  compiler->infer(&graph, &status);
  return status;
}

}  // namespace hpu::synapse
