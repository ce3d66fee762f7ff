// SPDX-License-Identifier: Apache-2.0
// hpu-smi, also installed as hl-smi: how the devices of the node do.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <ctime>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "hpu/node.h"
#include "tools/common/Cli.h"
#include "tools/hpu-smi/Formats.h"

namespace hpu::smi {
namespace {

using tools::ExitCode;

struct Options {
  bool list = false, query = false, firmware = false, topology = false, prometheus = false;
  bool reset = false, debug = false;
  std::string devices, sections, fields, format, nic, ports, powerLimit;
  double loopSeconds = 0;  ///< 0: once.
  int64_t windowMs = 100;
};

volatile sig_atomic_t stopped = 0;

int64_t realtimeNs() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// Ends early on SIGINT or SIGTERM.
void pauseFor(double seconds) {
  timespec pause{static_cast<time_t>(seconds),
                 static_cast<long>((seconds - static_cast<double>(static_cast<time_t>(seconds))) * 1e9)};
  nanosleep(&pause, nullptr);
}

bool anyInUse(const node::NodeStatus& status) {
  for (const node::DeviceStatus& device : status.devices)
    if (device.owner.pid != 0) return true;
  return false;
}

Status checkOptions(const Options& options, bool json) {
  if (options.reset)
    return unimplemented("--reset-aip: a simulated device is reset by its owner (hpu::Device::reset), or by ending it");
  if (!options.powerLimit.empty())
    return unimplemented("--power-max: simulated power is a model without a limit to set");
  if (options.windowMs < 0 || options.windowMs > 60000)
    return invalidArgument("--window: give 0 to 60000 milliseconds");
  if (options.loopSeconds < 0 || options.loopSeconds > 86400)
    return invalidArgument("--loop: give seconds between 0 and 86400");
  if (json && options.loopSeconds > 0)
    return invalidArgument("--json prints one object; call it in a loop instead of --loop");
  int formats = options.list + options.query + options.firmware + options.topology + options.prometheus +
                !options.fields.empty() + !options.nic.empty();
  if (formats > 1)
    return invalidArgument(
        "give one of --list-aips, --query, --query-aip, --fw-versions, --nic, --topology and "
        "--prometheus");
  if (!options.sections.empty() && !options.query && !options.list) return invalidArgument("--display needs --query");
  if (!options.format.empty() && options.fields.empty()) return invalidArgument("--format needs --query-aip");
  if (!options.ports.empty() && options.nic.empty()) return invalidArgument("--ports needs --nic");
  return okStatus();
}

/// Windows are needed by everything that shows utilisation or what is modelled from it.
bool needsWindow(const Options& options, const CsvRequest& csv) {
  if (!options.fields.empty()) return csv.needsWindow;
  return !options.firmware && !options.topology && options.nic.empty();
}

StatusOr<std::string> render(const NodeView& view, const Options& options, const CsvRequest& csv,
                             const std::vector<std::string>& sections, bool first, int width) {
  if (!options.fields.empty()) {
    std::string rows = formatCsvRows(view, csv);
    return csv.header && first ? formatCsvHeader(csv) + "\n" + rows : rows;
  }
  if (options.list || options.query) return formatLog(view, sections);
  if (options.firmware) return formatFirmware(view);
  if (options.topology) return formatTopology(view, width);
  if (options.prometheus) return formatPrometheus(view);
  if (!options.nic.empty()) return formatNic(view, options.nic, options.ports);
  return formatSummary(view, width);
}

StatusOr<ExitCode> run(tools::Tool& tool, const Options& options) {
  HPU_RETURN_IF_ERROR(checkOptions(options, tool.jsonMode()));
  CsvRequest csv;
  if (!options.fields.empty()) {
    HPU_ASSIGN(csv, parseCsvRequest(options.fields, options.format.empty() ? "csv" : options.format));
  }
  HPU_ASSIGN(std::vector<std::string> sections, parseSections(options.sections));
  for (int signal : {SIGINT, SIGTERM}) ::signal(signal, [](int) { stopped = 1; });

  HPU_ASSIGN(node::NodeStatus before, node::query());
  bool first = true;
  do {
    node::NodeStatus after = before;
    if (!first || (needsWindow(options, csv) && options.windowMs > 0 && anyInUse(before))) {
      pauseFor(first ? static_cast<double>(options.windowMs) / 1000 : options.loopSeconds);
      if (stopped) break;
      HPU_ASSIGN(after, node::query());
    }
    HPU_ASSIGN(NodeView view, makeView(before, after, realtimeNs()));
    if (!options.devices.empty()) HPU_RETURN_IF_ERROR(selectDevices(view, options.devices));
    if (tool.jsonMode()) addJson(view, tool.json());
    HPU_ASSIGN(std::string text, render(view, options, csv, sections, first, tool.width()));
    if (!options.fields.empty() || options.prometheus)
      tool.printAsIsAlways(text);
    else
      tool.printAlways(text);
    // A reader at the other end of a pipe wants each sample now; when it is gone, so are we.
    if (fflush(stdout) != 0 || ferror(stdout) != 0) {
      if (errno == EPIPE) break;
      return unavailable("cannot write to the standard output: " + base::errnoText(errno));
    }
    if (first && after.identity != "0" && !anyInUse(after))
      tool.note(base::strCat("no process uses a device of node '", after.identity,
                             "' (HPU_NODE): what is shown is of devices that are free"));
    before = std::move(after);
    first = false;
  } while (options.loopSeconds > 0 && !stopped);
  return ExitCode::kOk;
}

std::string programName(const char* path) {
  std::string_view name = path ? path : "";
  name = name.substr(name.rfind('/') + 1);
  return name == "hl-smi" ? "hl-smi" : "hpu-smi";
}

}  // namespace
}  // namespace hpu::smi

int main(int argc, char** argv) {
  using namespace hpu;
  // -q and -v are hl-smi's --query and --version.
  tools::CommonNames names;
  names.version = "-v,--version";
  names.quiet = "--quiet";
  names.verbose = "--verbose";
  tools::Tool tool(smi::programName(argc > 0 ? argv[0] : nullptr),
                   "How the devices of this machine's simulated node do. Without options: a summary.", names);
  smi::Options options;
  tool.addFlag("-L,--list-aips", options.list, "List the devices with all that is known of them");
  tool.addOption("-i,--device", options.devices,
                 "Only these devices: PCI addresses, indices, UUIDs or serial numbers, with commas");
  tool.addFlag("-q,--query", options.query, "All that is known of the devices, or --display of it");
  tool.addOption("-d,--display", options.sections,
                 "Sections of --query, with commas: " + base::join(smi::logSections()));
  tool.addOption("-Q,--query-aip", options.fields, "Fields as CSV (see below)");
  tool.addOption("-f,--format", options.format, "Of --query-aip: csv, with noheader and nounits");
  tool.addOptionalValue("-l,--loop", options.loopSeconds, 5, "Repeat every so many seconds (5)");
  tool.addOption("-n,--nic", options.nic,
                 "Ethernet ports: link (up or down), ports (kinds) or stats (what each has carried and met)");
  tool.addOption("-P,--ports", options.ports, "Of --nic: only these ports, with commas");
  tool.addFlag("--topology", options.topology, "How the devices are connected");
  tool.addFlag("--prometheus", options.prometheus, "Metrics in Prometheus' text format");
  tool.addFlag("--fw-versions", options.firmware, "Versions of firmware: a simulated device has none");
  tool.addOption("--window", options.windowMs, "Milliseconds between the two samples of the first readings");
  tool.addFlag("-r,--reset-aip", options.reset, "Not there: says why");
  tool.addOption("-p,--power-max", options.powerLimit, "Not there: says why");
  tool.addFlag("-D", options.debug, "Accepted for hl-smi's sake; same as --verbose");
  tool.setEnvironment({"HPU_LOG_LEVEL", "HPU_NODE", "HPU_NODE_TARGET", "HPU_SIM_HBM_BYTES"});
  tool.setFooter("Fields of --query-aip: " + base::join(smi::csvFieldNames()) +
                 ".\nTemperature, power and energy are modelled; utilisation and throughput are over "
                 "simulated time.");
  return tool.run(argc, argv, [&] { return smi::run(tool, options); });
}
