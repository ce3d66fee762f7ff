// SPDX-License-Identifier: Apache-2.0
// What every call of a process group goes through: its device, its channel, its events. Collectives.cpp has the calls.
#include "pytorch/distributed/ProcessGroupHCCL.h"

#include <ATen/ATen.h>

#include "pytorch/distributed/Errors.h"
#include "pytorch/record/Capture.h"
#include "pytorch/record/Flush.h"

namespace hpu_torch {

ProcessGroupHCCL::ProcessGroupHCCL(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                                   std::chrono::milliseconds timeout, std::string name)
    : ProcessGroup(rank, size),
      store_(std::move(store)),
      info_(std::make_shared<GroupInfo>(GroupInfo{std::move(name), rank, size, timeout})) {
  TORCH_CHECK_VALUE(size >= 1 && rank >= 0 && rank < size, "hccl: rank ", rank, " of ", size, " ranks");
  init();
}

ProcessGroupHCCL::~ProcessGroupHCCL() = default;

Operands ProcessGroupHCCL::operandsOf(const char* name, const Tensors& tensors) {
  const int last = lastDevice_;
  Operands operands(name, last >= 0 ? static_cast<c10::DeviceIndex>(last) : currentDevice());
  for (const at::Tensor& tensor : tensors)
    if (tensor.is_hpu()) {
      operands.use(tensor);
      break;
    }
  lastDevice_ = operands.device();
  return operands;
}

std::shared_ptr<Channel> ProcessGroupHCCL::collectiveChannel(c10::DeviceIndex device) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<Channel>& channel = collective_[device];
  if (!channel) {
    // Ranks may be on devices of different numbers, so the key is how many there were.
    auto made = std::make_shared<Channel>(open(device), info_, store_, "all/" + std::to_string(collective_.size() - 1),
                                          rank_, size_);
    made->connect();
    channel = std::move(made);
  }
  return channel;
}

std::shared_ptr<Channel> ProcessGroupHCCL::pairChannel(c10::DeviceIndex device, int from, int to, int tag) {
  const std::string key = std::to_string(from) + "-" + std::to_string(to) + "/" + std::to_string(tag);
  std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<Channel>& channel = pairs_[key];
  if (!channel) {
    auto made = std::make_shared<Channel>(open(device), info_, store_, "pair/" + key, rank_ == from ? 0 : 1, 2);
    made->connectLater();
    channel = std::move(made);
  }
  TORCH_CHECK_VALUE(channel->device().index == device, "hccl: messages of ranks ", from, " and ", to,
                    " were of hpu:", static_cast<int>(channel->device().index),
                    " and are of hpu:", static_cast<int>(device), " now: a rank's tensors are on one device");
  return channel;
}

namespace {
/// The operation comes behind what the current stream was given.
void prepare(Channel& channel, const std::shared_ptr<Operation>& operation, const std::vector<at::Tensor>& kept) {
  OpenDevice& device = channel.device();
  hpu::EventOptions untimed;
  untimed.timed = false;
  operation->ready = take(hpu::Event::create(untimed), "making an event");
  operation->end = take(hpu::Event::create(untimed), "making an event");
  check(currentStream(device).record(operation->ready), "recording an event");
  for (const at::Tensor& tensor : kept)
    if (Block* block = blockOf(tensor.storage().data_ptr())) device.memory->recordStream(block, channel.stream());
}

void launch(Channel& channel, const std::shared_ptr<Operation>& operation) {
  channel.submit(operation);
  if (!operation->isLaunched()) return;
  const hpu::Status status = operation->waitLaunched();
  if (!status.ok()) channel.raiseFailure(*operation, status);
}
}  // namespace

c10::intrusive_ptr<WorkHCCL> ProcessGroupHCCL::enqueue(c10d::OpType type, Operands operands,
                                                       const std::shared_ptr<Channel>& channel,
                                                       Operation::Issue issue) {
  OpenDevice& device = channel->device();
  auto operation = std::make_shared<Operation>();
  operation->name = operands.name();
  operation->number = ++number_;
  auto work = c10::make_intrusive<WorkHCCL>(rank_, type, channel, operation);
  work->outputs = std::move(operands.outputs);
  work->toHost = std::move(operands.toHost);
  if (isCapturing(device.index)) {
    TORCH_CHECK(work->toHost.empty(), operation->name, ": a collective with tensors of the host cannot be captured");
    std::vector<c10::Storage> storages;
    for (const at::Tensor& tensor : operands.kept) storages.push_back(tensor.storage());
    work->replayed = std::make_shared<std::shared_ptr<Operation>>();
    operation->setReplayed();
    captureWork(device.index, storages,
                [channel, replayed = work->replayed, name = operation->name, number = operation->number,
                 issue = std::move(issue), kept = operands.kept] {
                  auto again = std::make_shared<Operation>();
                  again->name = name;
                  again->number = number;
                  prepare(*channel, again, kept);
                  again->issue = issue;
                  launch(*channel, again);
                  *replayed = again;
                  // A replay of another rank may be late; waits are steps of their own.
                  const hpu::Status status = again->waitLaunched();
                  if (!status.ok()) channel->raiseFailure(*again, status);
                });
    work->kept = std::move(operands.kept);
    return work;
  }
  flush(device.index, "collective");
  prepare(*channel, operation, operands.kept);
  operation->issue = [issue = std::move(issue), kept = operands.kept](hpu::collectives::Communicator& communicator,
                                                                      hpu::Stream& stream) {
    return issue(communicator, stream);
  };
  work->kept = std::move(operands.kept);
  launch(*channel, operation);
  return work;
}

c10::intrusive_ptr<WorkHCCL> ProcessGroupHCCL::enqueue(c10d::OpType type, Operands operands, Operation::Issue issue) {
  const std::shared_ptr<Channel> channel = collectiveChannel(operands.device());
  return enqueue(type, std::move(operands), channel, std::move(issue));
}

uint64_t ProcessGroupHCCL::scratch(Operands& operands, Channel& channel, int64_t bytes) {
  const c10::DeviceIndex device = channel.device().index;
  const c10::StreamId before = currentStreamId(device);
  setCurrentStreamId(device, channel.stream());
  at::Tensor memory;
  try {
    memory = at::empty({std::max<int64_t>(bytes, 1)},
                       at::TensorOptions().dtype(at::kByte).device(c10::Device(kHpu, device)));
  } catch (...) {
    setCurrentStreamId(device, before);
    throw;
  }
  setCurrentStreamId(device, before);
  operands.kept.push_back(memory);
  return addressOf(memory);
}

void ProcessGroupHCCL::checkRoot(const char* name, int64_t root) const {
  TORCH_CHECK_VALUE(root >= 0 && root < size_, name, ": rank ", root, " is none of the group's ", size_);
}

void ProcessGroupHCCL::checkList(const char* name, const Tensors& tensors) const {
  TORCH_CHECK_VALUE(static_cast<int>(tensors.size()) == size_, name, ": the list has ", tensors.size(),
                    " tensors, and the group ", size_, " ranks");
}

}  // namespace hpu_torch
