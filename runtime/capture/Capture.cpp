// SPDX-License-Identifier: Apache-2.0
#include "hpu/capture.h"

#include <algorithm>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "runtime/capture/CaptureState.h"
#include "runtime/capture/ReplayState.h"
#include "runtime/driver/Driver.h"
#include "runtime/memory/BufferState.h"
#include "runtime/stream/StreamState.h"
#include "runtime/trace/Recorder.h"

namespace hpu {
namespace {

Status emptyInstance() {
  return failedPrecondition("the GraphInstance handle is empty; CapturedGraph::instantiate gives a valid one");
}

}  // namespace

// ---- CaptureSession
// --------------------------------------------------------------------------------

CaptureSession::CaptureSession() = default;
CaptureSession::CaptureSession(CaptureSession&& other) noexcept = default;

CaptureSession::~CaptureSession() {
  if (state_) state_->end().status().ignore();
}

CaptureSession& CaptureSession::operator=(CaptureSession&& other) noexcept {
  if (this == &other) return *this;
  if (state_) state_->end().status().ignore();
  state_ = std::move(other.state_);
  return *this;
}

StatusOr<CaptureSession> CaptureSession::begin(const Stream& stream) {
  trace::HostScope scope("CaptureSession.begin");
  if (!stream.state()) return failedPrecondition("cannot capture: the Stream handle is empty");
  HPU_RETURN_IF_ERROR(stream.state()->device()->checkProcess());
  CaptureSession session;
  HPU_ASSIGN(session.state_, CaptureState::begin(stream.state()));
  return session;
}

uint64_t CaptureSession::of(const Stream& stream) {
  if (!stream.state()) return 0;
  auto capture = stream.state()->capture();
  return capture ? capture->number() : 0;
}

StatusOr<CapturedGraph> CaptureSession::end() {
  trace::HostScope scope("CaptureSession.end");
  std::shared_ptr<CaptureState> state = std::move(state_);
  if (!state) return failedPrecondition("there is no capture to end; CaptureSession::begin");
  HPU_ASSIGN(auto work, state->end());
  return CapturedGraph(std::move(work));
}

// ---- CapturedGraph
// ---------------------------------------------------------------------------------

CapturedGraph::CapturedGraph() = default;
CapturedGraph::CapturedGraph(std::shared_ptr<const CapturedWork> work) : work_(std::move(work)) {}
CapturedGraph::~CapturedGraph() = default;

int64_t CapturedGraph::operations() const {
  return work_ ? static_cast<int64_t>(work_->operations.size()) : 0;
}

int64_t CapturedGraph::launches() const {
  if (!work_) return 0;
  return std::count_if(work_->operations.begin(), work_->operations.end(),
                       [](const auto& operation) { return std::holds_alternative<driver::Launch>(operation.work); });
}

int64_t CapturedGraph::branches() const {
  return work_ ? static_cast<int64_t>(work_->branches.size()) : 0;
}

std::vector<std::string> CapturedGraph::describe() const {
  std::vector<std::string> lines;
  if (!work_) return lines;
  for (const CapturedWork::Operation& operation : work_->operations) {
    std::string line = base::strCat("branch ", operation.branch, ": ", driver::workName(operation.work));
    if (!operation.label.empty()) line += base::strCat(" '", operation.label, "'");
    if (operation.waitOperation != driver::BatchItem::kNone) {
      line += base::strCat(" for operation ", operation.waitOperation);
      const auto& source = work_->operations[operation.waitOperation].work;
      if (const auto* launch = std::get_if<driver::Launch>(&source);
          launch && operation.waitSignal != driver::BatchItem::kNone)
        line += base::strCat(", output ", launch->signals[operation.waitSignal]);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

StatusOr<GraphInstance> CapturedGraph::instantiate() const {
  trace::HostScope scope("CapturedGraph.instantiate");
  if (!work_) return failedPrecondition("the CapturedGraph handle is empty; CaptureSession::end gives one");
  HPU_ASSIGN(auto state, ReplayState::create(*work_));
  return GraphInstance(std::move(state));
}

// ---- GraphInstance
// ---------------------------------------------------------------------------------

GraphInstance::GraphInstance() = default;
GraphInstance::GraphInstance(std::shared_ptr<ReplayState> state) : state_(std::move(state)) {}
GraphInstance::~GraphInstance() = default;

Status GraphInstance::replay(const Stream& stream) {
  trace::HostScope scope("GraphInstance.replay");
  if (!state_) return emptyInstance();
  if (!stream.state()) return failedPrecondition("cannot replay: the Stream handle is empty");
  HPU_RETURN_IF_ERROR(stream.state()->device()->checkProcess());
  return state_->replay(stream);
}

Status GraphInstance::rebind(uint64_t from, uint64_t to, int64_t bytes) {
  trace::HostScope scope("GraphInstance.rebind");
  if (!state_) return emptyInstance();
  return state_->rebindDevice(from, to, bytes, bytes);
}

Status GraphInstance::rebind(const Buffer& from, const Buffer& to) {
  trace::HostScope scope("GraphInstance.rebind");
  if (!state_) return emptyInstance();
  if (!from.valid() || !to.valid()) return invalidArgument("rebind: a buffer is empty");
  if (from.state()->device() != state_->device() || to.state()->device() != state_->device())
    return invalidArgument(base::strCat("rebind: a buffer does not belong to device ", state_->device()->info().index,
                                        ", on which the graph was captured"));
  return state_->rebindDevice(from.address(), to.address(), from.state()->capacity(), to.size());
}

Status GraphInstance::rebindSource(const void* from, const void* to, int64_t bytes) {
  trace::HostScope scope("GraphInstance.rebindSource");
  if (!state_) return emptyInstance();
  return state_->rebindHost(HostSide::kSource, from, to, bytes);
}

Status GraphInstance::rebindDestination(void* from, void* to, int64_t bytes) {
  trace::HostScope scope("GraphInstance.rebindDestination");
  if (!state_) return emptyInstance();
  return state_->rebindHost(HostSide::kDestination, from, to, bytes);
}

}  // namespace hpu
