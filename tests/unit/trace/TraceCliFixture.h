// SPDX-License-Identifier: Apache-2.0
// Runs the hpu-trace program on a recording of the example.
#pragma once

#include <array>
#include <cstdio>
#include <cstdlib>

#include "base/File.h"
#include "tests/unit/trace/TraceFixture.h"

namespace hpu::trace {

struct Ran {
  int exit = -1;
  std::string out, err;
};

class TraceCli : public TraceTest {
 protected:
  void SetUp() override {
    example_ = std::make_unique<Example>();
    (void)recorded(*example_);
  }
  Ran run(const std::string& arguments) {
    const char* build = std::getenv("HPU_BINARY_DIR");
    std::string command = std::string(build ? build : ".") + "/bin/hpu-trace " + arguments + " 2>" + file("stderr");
    Ran ran;
    FILE* pipe = popen(command.c_str(), "r");
    if (!pipe) return ran;
    std::array<char, 4096> buffer;
    for (size_t n; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) ran.out.append(buffer.data(), n);
    int status = pclose(pipe);
    ran.exit = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    ran.err = *base::readTextFile(file("stderr"));
    return ran;
  }
  std::string path() const { return file("t.hputrace"); }
  std::unique_ptr<Example> example_;
};

}  // namespace hpu::trace
