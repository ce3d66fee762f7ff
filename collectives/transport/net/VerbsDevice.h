// SPDX-License-Identifier: Apache-2.0
// VerbsDevice: an open RDMA device, the port and GID that were chosen of it, and memory that is registered with it.
// The one thing to know: memory is registered for each use and no longer. A registration pins pages, and what is at an
// address may be other pages later: a device's HBM keeps its mapping for life, but gives pages back to the host
// (Hbm::discard, Hbm::clear) and gets others, of which no cache of registrations would hear. So only uses at the same
// time share one: data that goes to many peers is pinned once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "collectives/transport/net/Descriptor.h"
#include "collectives/transport/net/VerbsChoice.h"
#include "collectives/transport/net/VerbsLibrary.h"

namespace hpu::collectives::net {

class VerbsDevice {
 public:
  /// `sysfs`: the folder of all devices there, which has the types of GIDs. Errors: as chooseVerbs; kUnavailable,
  /// kResourceExhausted (it cannot be opened).
  static StatusOr<std::unique_ptr<VerbsDevice>> open(const VerbsLibrary& library, const std::string& sysfs,
                                                     const Address& local, const std::string& device,
                                                     uint32_t wantedMtu);
  ~VerbsDevice();
  VerbsDevice(const VerbsDevice&) = delete;
  VerbsDevice& operator=(const VerbsDevice&) = delete;

  const VerbsLibrary& library() const { return library_; }
  const VerbsChoice& choice() const { return choice_; }
  const std::string& name() const { return choice_.gid.device; }
  ibv_context* context() const { return context_; }
  ibv_pd* domain() const { return domain_; }
  const ibv_device_attr& limits() const { return limits_; }
  uint64_t mostMessageBytes() const { return mostMessageBytes_; }
  /// Of all completion queues.
  ibv_comp_channel* channel() const { return channel_; }
  /// Readable when a completion queue or the device has something to say.
  int descriptor() const { return epoll_.fd(); }
  /// From now on it is never readable. False: so it was.
  bool leaveEvents();

  /// Frames; writable by the device alone. Errors: kResourceExhausted, kUnavailable.
  StatusOr<ibv_mr*> registerBuffers(void* data, size_t bytes);
  /// For a peer to write; addresses begin at a random one, which is returned.
  StatusOr<ibv_mr*> registerWindow(void* data, size_t bytes, uint64_t& address);
  /// To be sent. release() once for each.
  StatusOr<ibv_mr*> registerSource(const void* data, size_t bytes);
  void releaseSource(ibv_mr* region);
  /// Nothing reaches the memory any more when it returns.
  void deregister(ibv_mr* region);

 private:
  explicit VerbsDevice(const VerbsLibrary& library) : library_(library) {}
  Status choose(const std::string& sysfs, const Address& local, const std::string& device, uint32_t wantedMtu);
  Status prepare();
  Status refused(const char* what, size_t bytes) const;

  struct Source {
    ibv_mr* region = nullptr;
    int uses = 0;
  };
  const VerbsLibrary library_;
  VerbsChoice choice_;
  ibv_context* context_ = nullptr;
  ibv_pd* domain_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_device_attr limits_{};
  uint64_t mostMessageBytes_ = 0;
  // What libibverbs has opened and closes; children close it at once.
  Descriptor command_, events_, completions_;
  Descriptor epoll_;
  bool tellsEvents_ = true;
  std::map<std::pair<const void*, size_t>, Source> sources_;  ///< In use.
};

}  // namespace hpu::collectives::net
