// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/VerbsDevice.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <vector>

#include "base/Format.h"
#include "base/Log.h"
#include "base/StatusMacros.h"

namespace hpu::collectives::net {
namespace {

using base::strCat;

std::string readLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

uint32_t bytesOf(ibv_mtu mtu) {
  return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << static_cast<unsigned>(mtu) : 0;
}

/// As ibv_query_port without the header's indirection: a library that knows fewer fields leaves the others as they are.
bool queryPort(const VerbsLibrary& library, ibv_context* context, uint32_t port, ibv_port_attr& attributes) {
  attributes = {};
  return library.queryPort(context, static_cast<uint8_t>(port),
                           reinterpret_cast<_compat_ibv_port_attr*>(&attributes)) == 0;
}

void listGids(const VerbsLibrary& library, const std::string& sysfs, ibv_context* context, const std::string& name,
              std::vector<VerbsGid>& out) {
  ibv_device_attr device{};
  if (library.queryDevice(context, &device) != 0) return;
  for (uint32_t port = 1; port <= device.phys_port_cnt; ++port) {
    ibv_port_attr attributes;
    if (!queryPort(library, context, port, attributes)) continue;
    const std::string folder = strCat(sysfs, "/", name, "/ports/", port, "/gid_attrs/");
    for (int index = 0; index < attributes.gid_tbl_len; ++index) {
      // Most entries of the table are empty; those have no type.
      VerbsGid entry;
      entry.type = readLine(strCat(folder, "types/", index));
      ibv_gid gid;
      if (entry.type.empty() || library.queryGid(context, static_cast<uint8_t>(port), index, &gid) != 0) continue;
      entry.device = name;
      entry.port = port;
      entry.index = static_cast<uint32_t>(index);
      entry.address = addressOfGid(gid.raw);
      entry.interface = readLine(strCat(folder, "ndevs/", index));
      entry.isEthernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
      entry.isUp = attributes.state == IBV_PORT_ACTIVE;
      entry.activeMtu = bytesOf(attributes.active_mtu);
      out.push_back(std::move(entry));
    }
  }
}

bool doNotBlock(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

}  // namespace

StatusOr<std::unique_ptr<VerbsDevice>> VerbsDevice::open(const VerbsLibrary& library, const std::string& sysfs,
                                                         const Address& local, const std::string& device,
                                                         uint32_t wantedMtu) {
  HPU_RETURN_IF_ERROR(Descriptor::prepare());
  std::unique_ptr<VerbsDevice> opened(new VerbsDevice(library));
  HPU_RETURN_IF_ERROR(opened->choose(sysfs, local, device, wantedMtu));
  HPU_RETURN_IF_ERROR(opened->prepare());
  HPU_LOG(kInfo, strCat("verbs: ", opened->choice_.reason));
  return opened;
}

/// Opens all devices for a look, and keeps the one that is chosen.
Status VerbsDevice::choose(const std::string& sysfs, const Address& local, const std::string& device,
                           uint32_t wantedMtu) {
  int count = 0;
  ibv_device** const list = library_.getDeviceList(&count);
  // ENOSYS: a kernel without RDMA. That is as if it had no device.
  if (!list && errno != ENOSYS)
    return unavailable(strCat("the RDMA devices of this machine cannot be listed: ", base::errnoText(errno)));
  std::vector<std::string> names;
  std::vector<VerbsGid> gids;
  std::string refusals;
  for (int i = 0; list && i < count; ++i) {
    names.emplace_back(library_.getDeviceName(list[i]));
    if (!device.empty() && names.back() != device) continue;
    ibv_context* const context = library_.openDevice(list[i]);
    if (!context) {
      refusals += strCat("; ", names.back(), " cannot be opened: ", base::errnoText(errno), " (/dev/infiniband)");
      continue;
    }
    listGids(library_, sysfs, context, names.back(), gids);
    library_.closeDevice(context);
  }
  auto chosen = chooseVerbs(gids, names, local, device, wantedMtu);
  Status status = chosen.status();
  if (!status.ok()) {
    status = Status(status.code(), status.message() + refusals);
  } else {
    choice_ = std::move(*chosen);
    const auto at = std::find(names.begin(), names.end(), choice_.gid.device) - names.begin();
    command_ = Descriptor::open([&] {
      context_ = library_.openDevice(list[at]);
      return context_ ? context_->cmd_fd : -1;
    });
    if (!context_) status = unavailable(strCat("RDMA device ", name(), " cannot be opened: ", base::errnoText(errno)));
  }
  if (list) library_.freeDeviceList(list);
  return status;
}

Status VerbsDevice::prepare() {
  const auto failed = [&](const char* what) {
    return resourceExhausted(strCat("RDMA device ", name(), ": ", what, ": ", base::errnoText(errno)));
  };
  events_ = Descriptor::open([&] { return context_->async_fd; });
  if (library_.queryDevice(context_, &limits_) != 0) return failed("cannot be queried");
  ibv_port_attr port;
  if (!queryPort(library_, context_, choice_.gid.port, port)) return failed("its port cannot be queried");
  mostMessageBytes_ = port.max_msg_sz;
  domain_ = library_.allocPd(context_);
  if (!domain_) return failed("no protection domain");
  completions_ = Descriptor::open([&] {
    channel_ = library_.createCompChannel(context_);
    return channel_ ? channel_->fd : -1;
  });
  if (!channel_) return failed("no completion channel");
  epoll_ = Descriptor::open([] { return ::epoll_create1(EPOLL_CLOEXEC); });
  if (!epoll_) return failed("no epoll descriptor");
  for (int fd : {channel_->fd, context_->async_fd}) {
    ::epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (!doNotBlock(fd) || ::epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, fd, &event) != 0)
      return failed("its events cannot be waited for");
  }
  return okStatus();
}

bool VerbsDevice::leaveEvents() {
  if (!std::exchange(tellsEvents_, false)) return false;
  for (int fd : {channel_->fd, context_->async_fd}) ::epoll_ctl(epoll_.fd(), EPOLL_CTL_DEL, fd, nullptr);
  return true;
}

VerbsDevice::~VerbsDevice() {
  for (const auto& [range, source] : sources_) deregister(source.region);
  epoll_.close();
  completions_.release();
  if (channel_) library_.destroyCompChannel(channel_);
  if (domain_) library_.deallocPd(domain_);
  events_.release();
  command_.release();
  if (context_) library_.closeDevice(context_);
}

Status VerbsDevice::refused(const char* what, size_t bytes) const {
  const int error = errno;
  std::string text =
      strCat("RDMA device ", name(), " cannot register ", bytes, " bytes ", what, ": ", base::errnoText(error));
  rlimit most{};
  if (error == ENOMEM && ::getrlimit(RLIMIT_MEMLOCK, &most) == 0 && most.rlim_cur != RLIM_INFINITY)
    text += strCat("; the process may lock ", base::formatBytes(static_cast<int64_t>(most.rlim_cur)),
                   " of memory: raise that (ulimit -l unlimited)");
  return error == ENOMEM || error == EAGAIN ? resourceExhausted(text) : unavailable(text);
}

StatusOr<ibv_mr*> VerbsDevice::registerBuffers(void* data, size_t bytes) {
  if (ibv_mr* const region = library_.regMr(domain_, data, bytes, IBV_ACCESS_LOCAL_WRITE)) return region;
  return refused("for frames", bytes);
}

StatusOr<ibv_mr*> VerbsDevice::registerWindow(void* data, size_t bytes, uint64_t& address) {
  // The device's keys are 24 bits that count and 8 that change: the address makes a window that a peer was not given,
  // or not given any more, hard to meet. Of large pages the device wants the lower bits alike on both sides.
  constexpr uint64_t kAlike = (uint64_t{1} << 30) - 1, kMost = (uint64_t{1} << 62) - 1;
  uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random) return unavailable("the system has no random numbers");
  address = (random & kMost & ~kAlike) | (reinterpret_cast<uintptr_t>(data) & kAlike);
  ibv_mr* const region =
      library_.regMrIova(domain_, data, bytes, address, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (region) return region;
  return refused("to be written by a peer", bytes);
}

StatusOr<ibv_mr*> VerbsDevice::registerSource(const void* data, size_t bytes) {
  Source& source = sources_[{data, bytes}];
  // It is only read.
  if (!source.region) source.region = library_.regMr(domain_, const_cast<void*>(data), bytes, 0);
  if (!source.region) {
    const Status status = refused("to be sent", bytes);
    sources_.erase({data, bytes});
    return status;
  }
  ++source.uses;
  return source.region;
}

void VerbsDevice::releaseSource(ibv_mr* region) {
  const auto it = sources_.find({region->addr, region->length});
  if (it == sources_.end() || --it->second.uses > 0) return;
  sources_.erase(it);
  deregister(region);
}

void VerbsDevice::deregister(ibv_mr* region) {
  const int error = library_.deregMr(region);
  if (error != 0) HPU_LOG(kError, strCat("RDMA device ", name(), " keeps memory registered: ", base::errnoText(error)));
}

}  // namespace hpu::collectives::net
