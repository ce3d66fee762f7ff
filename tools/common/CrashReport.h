// SPDX-License-Identifier: Apache-2.0
// CrashReport: a small shell script that repeats the command, written when a tool meets a bug of
// OpenHPU (a fatal signal, an escaped exception, a Status of kInternal).
// The one thing to know: everything is prepared at the start, so that the signal handler only
// writes.
#pragma once

#include <string>

namespace hpu::tools {

/// Prepares the script's text and path and installs handlers for SIGSEGV, SIGBUS, SIGILL, SIGFPE
/// and SIGABRT that write it and exit with code 3. Sanitizer builds keep the sanitizer's own
/// handlers.
void installCrashReport(const std::string& tool, int argc, char** argv);

/// Writes the script now. Returns its path, empty when no folder is writable.
std::string writeReproducer(const std::string& reason);

}  // namespace hpu::tools
