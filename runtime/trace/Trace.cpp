// SPDX-License-Identifier: Apache-2.0
// The public face of the recorder.
#include "hpu/trace.h"

#include "base/Grown.h"
#include "base/StatusMacros.h"
#include "runtime/trace/Export.h"
#include "runtime/trace/Session.h"

namespace hpu::trace {

Status start(const Options& options, size_t optionsBytes) {
  HPU_ASSIGN(base::Grown<Options> given, base::grown("trace::Options", options, optionsBytes, &Options::level,
                                                     &Options::maxEvents, &Options::streamTo, &Options::eachLaunch));
  return Session::instance().start(*given);
}
Status stop(const std::string& path) {
  return Session::instance().stop(path);
}
StatusOr<Recording> stop() {
  Recording recording;
  HPU_RETURN_IF_ERROR(Session::instance().stopToMemory(recording));
  return recording;
}
Status save(const Recording& recording, const std::string& path) {
  return exportBytes(recording.bytes, path);
}
int64_t nowNs() {
  return hostNowNs();
}
void addSpan(std::string_view name, int64_t startNs, int64_t endNs, const std::vector<Argument>& arguments,
             std::string_view track) {
  if (!recording()) return;
  std::vector<Arg> args;
  args.reserve(arguments.size());
  for (const Argument& argument : arguments)
    args.emplace_back(std::string_view(argument.key), std::string_view(argument.text));
  if (track.empty())
    recordHost(name, "program", startNs, endNs, args.data(), args.size());
  else
    recordOnTrack(track, name, "program", startNs, endNs, args.data(), args.size());
}
void cancel() {
  Session::instance().cancel();
}
bool active() {
  return recording();
}

}  // namespace hpu::trace
