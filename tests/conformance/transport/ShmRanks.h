// SPDX-License-Identifier: Apache-2.0
// ShmRanks: runs a case on the shared-memory transport, on threads or in processes, and on the transport between nodes
// in processes.
// The one thing to know: the processes are this very program, started with other arguments.
#pragma once

#include "NetRanks.h"
#include "Suite.h"

namespace hpu::testing {

void runShmThreads(const Case& which);
void runShmProcesses(const Case& which);
void runNetProcesses(const Case& which, Layout layout, Wire wire);
/// In a process that one of these started: its exit code; -1 in any other.
int runAsRank(int argc, char** argv);

}  // namespace hpu::testing
