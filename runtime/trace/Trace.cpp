// SPDX-License-Identifier: Apache-2.0
// The public face of the recorder.
#include "hpu/trace.h"

#include "runtime/trace/Session.h"

namespace hpu::trace {

Status start(const Options& options) {
  return Session::instance().start(options);
}
Status stop(const std::string& path) {
  return Session::instance().stop(path);
}
void cancel() {
  Session::instance().cancel();
}
bool active() {
  return recording();
}

}  // namespace hpu::trace
