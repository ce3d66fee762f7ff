// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/VerbsLibrary.h"

#include <dlfcn.h>

#include "base/Format.h"
#include "base/Log.h"

namespace hpu::collectives::net {

using base::strCat;

StatusOr<VerbsLibrary> VerbsLibrary::load(const std::string& file) {
  // Never closed: drivers of devices come with it, and threads of theirs.
  void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* why = ::dlerror();
    return notFound(strCat("the network 'verbs' needs the library ", file, ", which cannot be loaded (",
                           why ? why : "unknown",
                           "): install libibverbs1 and ibverbs-providers (Debian, Ubuntu) or "
                           "libibverbs (RPM), or use HPU_COMM_NETWORK=tcp"));
  }
  VerbsLibrary library;
  const char* missing = nullptr;
#define HPU_VERBS_FIND(member, function)                                                   \
  library.member = reinterpret_cast<decltype(library.member)>(::dlsym(handle, #function)); \
  if (!library.member && !missing) missing = #function;
  HPU_VERBS_FUNCTIONS(HPU_VERBS_FIND)
#undef HPU_VERBS_FIND
  if (missing)
    return Status(StatusCode::kUnimplemented, strCat("the library ", file, " has no ", missing,
                                                     ": the network 'verbs' needs rdma-core 25 or later"));
  // Kernels from 5.12 on copy pinned pages for a child, and this does nothing. Before, a child is not to have them.
  static const int forkError = library.forkInit();
  if (forkError != 0)
    HPU_LOG(kWarning,
            strCat("ibv_fork_init: ", base::errnoText(forkError),
                   "; on kernels before 5.12 a fork may break what is received over 'verbs' then (the program "
                   "has used libibverbs before; set RDMAV_FORK_SAFE=1)"));
  return library;
}

}  // namespace hpu::collectives::net
