// SPDX-License-Identifier: Apache-2.0
// query and inject: every answer comes from the owner itself, on its service thread, when asked; an
// owner publishes nothing that nobody reads.
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/AtFork.h"
#include "base/Deadline.h"
#include "base/Format.h"
#include "base/StatusMacros.h"
#include "hpu/node.h"
#include "hpu/telemetry.h"
#include "runtime/node/Client.h"
#include "runtime/node/Inventory.h"
#include "runtime/node/Protocol.h"

namespace hpu::node {
namespace {

constexpr int64_t kAnswerMs = 100;
constexpr int64_t kInjectMs = 10000;

/// The last answer of each device's owner, for when it does not answer.
struct LastAnswers {
  std::mutex mutex;
  std::map<std::pair<std::string, int>, DeviceStatus> byDevice;
};
LastAnswers& lastAnswers();
std::mutex& lastAnswersMutex() {
  return lastAnswers().mutex;
}
LastAnswers& lastAnswers() {
  static LastAnswers* instance = [] {
    base::atFork(base::ForkRank::kNodeAnswers, base::forkHandlersOf<lastAnswersMutex>());
    return new LastAnswers;
  }();
  return *instance;
}

void forgetAnswer(const std::string& identity, int index) {
  LastAnswers& last = lastAnswers();
  std::lock_guard lock(last.mutex);
  last.byDevice.erase({identity, index});
}

struct Question {
  int index = 0;
  Contact contact;
};

/// What the owner says, completed by what does not need it.
Status fillIn(const std::string& identity, const Question& question, const base::Deadline& deadline,
              DeviceStatus& device) {
  std::string reply;
  Status answered = awaitReply(question.contact, deadline, reply);
  LastAnswers& last = lastAnswers();
  std::lock_guard lock(last.mutex);
  DeviceStatus& known = last.byDevice[{identity, question.index}];
  int64_t pid = question.contact.owner.pid;
  if (answered.code() == StatusCode::kUnavailable) return okStatus();  // It has ended: free.
  if (answered.ok()) {
    auto status = decodeStatus(reply);
    if (status.ok()) known = std::move(*status);
  }
  // An old answer of the same owner says more than none; its time tells that it is old.
  if (known.updatedAtNs != 0 && (pid == 0 || known.owner.pid == pid)) {
    DeviceStatus identityOf = std::move(device);
    device = known;
    device.index = identityOf.index;
    device.moduleId = identityOf.moduleId;
    device.pciAddress = std::move(identityOf.pciAddress);
    device.uuid = std::move(identityOf.uuid);
    device.serial = std::move(identityOf.serial);
    device.name = telemetry::board(device.target).name;
    if (device.totalBytes == 0) device.totalBytes = identityOf.totalBytes;
    if (pid > 0) device.owner.pid = pid;
    return okStatus();
  }
  device.owner.pid = pid > 0 ? pid : -1;
  device.owner.name = programName(pid);
  return okStatus();
}

StatusOr<std::vector<DeviceStatus>> queryRange(const std::string& identity, int first, int last) {
  std::vector<DeviceStatus> devices;
  std::vector<Question> questions;
  // All are asked before any answer is awaited, so that the slow ones are slow together.
  for (int index = first; index <= last; ++index) {
    HPU_ASSIGN(DeviceStatus device, freeDevice(identity, index));
    devices.push_back(std::move(device));
    auto owner = contact(identity, index);
    if (owner.ok()) {
      Request request = makeRequest(Operation::kStatus);
      if (sendPacket(owner->socket.get(), &request, sizeof request).ok())
        questions.push_back({index, std::move(*owner)});
      continue;
    }
    switch (owner.status().code()) {
      case StatusCode::kNotFound:
        forgetAnswer(identity, index);  // A later owner may have the same process id.
        break;
      case StatusCode::kUnavailable:
      case StatusCode::kPermissionDenied:
        devices.back().owner.pid = -1;
        devices.back().owner.name = "unknown";
        break;
      default:
        return owner.status();
    }
  }
  base::Deadline deadline = base::Deadline::afterMs(kAnswerMs);
  for (const Question& question : questions)
    HPU_RETURN_IF_ERROR(fillIn(identity, question, deadline, devices[static_cast<size_t>(question.index - first)]));
  return devices;
}

}  // namespace

Answer<NodeStatus> query() {
  NodeStatus node;
  HPU_ASSIGN(node.identity, identity());
  HPU_ASSIGN(node.devices, queryRange(node.identity, 0, kDevices - 1));
  return node;
}

Answer<DeviceStatus> query(int index) {
  if (index < 0 || index >= kDevices)
    return notFound(base::strCat("there is no device ", index, ": a node has devices 0 to ", kDevices - 1));
  HPU_ASSIGN(std::string name, identity());
  HPU_ASSIGN(std::vector<DeviceStatus> devices, queryRange(name, index, index));
  return std::move(devices[0]);
}

Status inject(int index, Fault fault, int count) {
  if (index < 0 || index >= kDevices)
    return notFound(base::strCat("there is no device ", index, ": a node has devices 0 to ", kDevices - 1));
  if (static_cast<int>(fault) >= kNumFaults || count < 1)
    return invalidArgument(base::strCat("cannot inject fault ", static_cast<int>(fault), " ", count,
                                        " times: faults are 0 to ", kNumFaults - 1, " and the count is at least 1"));
  HPU_ASSIGN(std::string name, identity());
  auto owner = contact(name, index);
  if (owner.status().code() == StatusCode::kNotFound)
    return failedPrecondition(
        base::strCat("device ", index, " of node '", name, "' is free; a fault needs a device that is in use"));
  if (!owner.ok()) return owner.status();
  Request request = makeRequest(Operation::kInject);
  request.fault = static_cast<uint32_t>(fault);
  request.count = count;
  std::string reply;
  HPU_RETURN_IF_ERROR(ask(*owner, request, base::Deadline::afterMs(kInjectMs), reply));
  return decodeDone(reply);
}

}  // namespace hpu::node
