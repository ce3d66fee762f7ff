// SPDX-License-Identifier: Apache-2.0
#include "hpu/external_work.h"

namespace hpu {

ExternalTurn::~ExternalTurn() = default;
ExternalWork::~ExternalWork() = default;

void ExternalWork::behind(const ExternalWork&, int64_t) {}

void ExternalWork::help(std::chrono::steady_clock::time_point) {}

ExternalPorts ExternalWork::ports() const {
  return {};
}

void ExternalWork::portsReserved(std::vector<int64_t>) {}

bool ExternalWork::startsInEnqueue() const {
  return false;
}

bool ExternalWork::extendable() const {
  return false;
}

bool ExternalWork::extended() {
  return false;
}

void ExternalWork::sealed() {}

uint64_t ExternalWork::progress() const {
  return 0;
}

RepeatableWork::~RepeatableWork() = default;

Status RepeatableWork::prepare(const Stream&) {
  return okStatus();
}

std::vector<WorkMemory> RepeatableWork::memory() const {
  return {};
}

}  // namespace hpu
