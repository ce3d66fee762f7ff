// SPDX-License-Identifier: Apache-2.0
// Process: who a rank is on this machine, and what the kernel says of it.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/node/Protocol.h"

namespace hpu::collectives::shm {

/// Plain bytes: ranks send it to each other.
struct ProcessCard {
  uint8_t bootId[16] = {};        ///< The machine, since it was switched on.
  uint64_t networkNamespace = 0;  ///< Where abstract sockets have their names.
  uint64_t pidNamespace = 0;
  uint64_t token = 0;      ///< Random; alike for the ranks of one process.
  int64_t pid = 0;         ///< In its own namespace.
  uint64_t startTime = 0;  ///< With the pid: this process and none that comes after it.
  uint32_t user = 0;
  uint32_t reserved = 0;
};

/// This process's; made anew in a child.
ProcessCard myProcess();
inline bool sameProcess(const ProcessCard& a, const ProcessCard& b) {
  return a.token == b.token;
}
bool sameMachine(const ProcessCard& a, const ProcessCard& b);

/// From /proc/PID/stat; 0: no such process. `state`: 'R', 'S', 'T' (stopped), 'Z' ...
uint64_t startTimeOf(int64_t pid, char* state = nullptr);

/// Readable when the process has ended. Not valid: it has ended already (then `gone`), or the
/// kernel does not say (another pid namespace, an old or restricted system).
node::Fd openProcess(const ProcessCard& process, bool& gone);

}  // namespace hpu::collectives::shm
