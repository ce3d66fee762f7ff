// SPDX-License-Identifier: Apache-2.0
#include "tools/common/CrashReport.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/Settings.h"
#include "hpu/version.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HPU_HAS_SANITIZER 1
#else
#define HPU_HAS_SANITIZER 0
#endif

namespace hpu::tools {
namespace {

// Written once by installCrashReport, then only read (also by the signal handler).
std::string gScript;
std::vector<std::string> gPaths;

std::string shellQuote(const char* text) {
  std::string out = "'";
  for (const char* c = text; *c; ++c) {
    if (*c == '\'')
      out += "'\\''";
    else
      out += *c;
  }
  return out + "'";
}

bool writeAll(int fd, const char* data, size_t size) {
  while (size > 0) {
    ssize_t written = ::write(fd, data, size);
    if (written <= 0) return false;
    data += written;
    size -= static_cast<size_t>(written);
  }
  return true;
}

/// Only async-signal-safe calls. The path written, or null.
const char* writeScript() {
  for (const std::string& path : gPaths) {
    int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0700);
    if (fd < 0) continue;
    bool ok = writeAll(fd, gScript.data(), gScript.size());
    ::close(fd);
    if (ok) return path.c_str();
  }
  return nullptr;
}

[[maybe_unused]] void onFatalSignal(int signal) {
  char line[512] = "error: internal error: caught signal ";
  size_t length = strlen(line);
  if (signal >= 10) line[length++] = static_cast<char>('0' + signal / 10);
  line[length++] = static_cast<char>('0' + signal % 10);
  auto append = [&](const char* text) {
    size_t more = strlen(text);
    if (length + more + 1 > sizeof line) more = sizeof line - 1 - length;
    memcpy(line + length, text, more);
    length += more;
  };
  if (const char* path = writeScript()) {
    append("; this is a bug of OpenHPU, please report it with the reproducer ");
    append(path);
  } else {
    append("; this is a bug of OpenHPU (no folder was writable for a reproducer)");
  }
  append("\n");
  (void)writeAll(STDERR_FILENO, line, length);
  _exit(3);
}

}  // namespace

void installCrashReport(const std::string& tool, int argc, char** argv) {
  gScript = "#!/bin/sh\n# Repeats a run of " + tool + " " HPU_VERSION_STRING " that met an internal error.\n";
  char folder[4096];
  if (getcwd(folder, sizeof folder)) gScript += "cd " + shellQuote(folder) + "\n";
  for (const settings::Info& info : settings::all()) {
    std::string name(info.name);
    if (name == "HPU_COMM_SECRET") continue;  // It is not for a file in /tmp.
    if (const char* value = getenv(name.c_str())) gScript += "export " + name + "=" + shellQuote(value) + "\n";
  }
  gScript += "exec";
  for (int i = 0; i < argc; ++i) gScript += " " + shellQuote(argv[i]);
  gScript += "\n";

  const char* temporary = secure_getenv("TMPDIR");
  std::string name = "/" + tool + "-crash-" + std::to_string(getpid()) + ".sh";
  gPaths = {std::string(temporary && *temporary ? temporary : "/tmp") + name, "." + name};

#if !HPU_HAS_SANITIZER
  // A stack of its own, so that an overflow of the main one is reported too.
  static char stack[1 << 16];
  stack_t alternate = {};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof stack;
  sigaltstack(&alternate, nullptr);
  struct sigaction action = {};
  action.sa_handler = onFatalSignal;
  action.sa_flags = SA_ONSTACK | SA_RESETHAND;
  for (int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) sigaction(signal, &action, nullptr);
#endif
}

std::string writeReproducer(const std::string& reason) {
  std::string comment = "# ";
  for (char c : reason) {
    comment += c;
    if (c == '\n') comment += "# ";
  }
  size_t afterFirstLine = gScript.find('\n');
  if (afterFirstLine != std::string::npos) gScript.insert(afterFirstLine + 1, comment + "\n");
  const char* path = writeScript();
  return path ? path : "";
}

}  // namespace hpu::tools
