// SPDX-License-Identifier: Apache-2.0
#include "tools/hpu-smi/NodeView.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <ctime>
#include <utility>

#include "base/Format.h"
#include "base/PciAddress.h"
#include "base/StatusMacros.h"
#include "hpu/version.h"

namespace hpu::smi {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(tolower(static_cast<unsigned char>(c)));
  return out;
}

bool isNamed(const node::DeviceStatus& device, const std::string& word) {
  const std::string wanted = lower(word);
  return base::samePciAddress(word, device.pciAddress) || word == std::to_string(device.index) ||
         wanted == lower(device.uuid) || wanted == lower(device.serial);
}

std::vector<std::string> splitCommas(std::string_view text) {
  std::vector<std::string> words;
  while (true) {
    size_t comma = text.find(',');
    words.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return words;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

std::string_view DeviceView::state() const {
  return status.lost ? "lost" : free() ? "free" : known() ? "in use" : "no answer";
}

std::vector<const node::ProcessStatus*> DeviceView::processes() const {
  std::vector<const node::ProcessStatus*> all;
  if (!free()) all.push_back(&status.owner);
  for (const node::ProcessStatus& peer : status.peers) all.push_back(&peer);
  return all;
}

int64_t toMiB(int64_t bytes) {
  return (bytes + (1 << 19)) >> 20;
}

int64_t toPercent(double share) {
  return std::llround(share * 100);
}

std::string timestampText(int64_t realtimeNs) {
  // English names whatever the locale is, as hl-smi prints them.
  constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  time_t seconds = static_cast<time_t>(realtimeNs / 1'000'000'000);
  tm utc{};
  gmtime_r(&seconds, &utc);
  char text[64];
  snprintf(text, sizeof text, "%s %s %2d %02d:%02d:%02d UTC %d", kDays[utc.tm_wday], kMonths[utc.tm_mon], utc.tm_mday,
           utc.tm_hour, utc.tm_min, utc.tm_sec, utc.tm_year + 1900);
  return text;
}

StatusOr<NodeView> makeView(const node::NodeStatus& before, const node::NodeStatus& after, int64_t realtimeNs) {
  NodeView view;
  view.identity = after.identity;
  view.version = "hl-" HPU_VERSION_STRING "-openhpu";
  view.driverVersion = HPU_VERSION_STRING "-openhpu-sim";
  view.timestamp = timestampText(realtimeNs);
  view.attached = after.devices.size();
  for (const node::DeviceStatus& status : after.devices) {
    auto earlier = std::find_if(before.devices.begin(), before.devices.end(),
                                [&](const node::DeviceStatus& other) { return other.index == status.index; });
    DeviceView device;
    device.status = status;
    device.readings = telemetry::read(earlier == before.devices.end() ? status : *earlier, status);
    auto clocks = telemetry::clocks(status.target, status.clockProfile);
    if (!clocks.ok()) return clocks.status().withContext(base::strCat("device ", status.index));
    device.clocks = *std::move(clocks);
    view.devices.push_back(std::move(device));
  }
  return view;
}

Status selectDevices(NodeView& view, std::string_view selector) {
  std::vector<DeviceView> chosen;
  for (const std::string& word : splitCommas(selector)) {
    auto it = std::find_if(view.devices.begin(), view.devices.end(),
                           [&](const DeviceView& device) { return isNamed(device.status, word); });
    if (it == view.devices.end()) {
      std::vector<std::string> names;
      for (const DeviceView& device : view.devices)
        names.push_back(base::strCat(device.status.index, " (", device.status.pciAddress, ")"));
      return notFound(base::strCat("the node has no device '", word, "'; its devices are ", base::join(names)));
    }
    chosen.push_back(*it);
  }
  std::sort(chosen.begin(), chosen.end(),
            [](const DeviceView& a, const DeviceView& b) { return a.status.index < b.status.index; });
  chosen.erase(std::unique(chosen.begin(), chosen.end(),
                           [](const DeviceView& a, const DeviceView& b) { return a.status.index == b.status.index; }),
               chosen.end());
  view.devices = std::move(chosen);
  return okStatus();
}

}  // namespace hpu::smi
