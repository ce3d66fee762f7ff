// SPDX-License-Identifier: Apache-2.0
// Reading: a place's fields go by a table of names, so that what is not in it is an error that lists what is.
#include "collectives/fabric/FabricFile.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>

#include "arch/NetworkDesc.h"
#include "base/File.h"
#include "base/Format.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"

namespace hpu::collectives {
namespace {

using base::strCat;
using nlohmann::json;

constexpr std::string_view kFormat = "openhpu-fabric-1";
constexpr int kMaxDepth = 8;  // The format has 3.

/// Of UTF-8: the positions of bytes that a terminal takes for commands (C0 and C1 controls, DEL), or npos.
size_t findControl(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7F) return i;
    if (byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0) return i;
  }
  return std::string_view::npos;
}

/// A key of a file as an error has it: no longer than a word, and nothing that a terminal acts on.
std::string keyText(std::string_view key) {
  return std::string(findControl(key) == std::string_view::npos ? key.substr(0, 60) : "(with control characters)");
}

// Text to JSON: nothing is too deep and no object has a name twice (the library keeps the last).
StatusOr<json> parseText(std::string_view text, std::string_view name) {
  if (static_cast<int64_t>(text.size()) > kMaxFabricText)
    return invalidArgument(strCat(name, ": it has ", text.size(), " bytes; at most ", kMaxFabricText));
  std::string problem;
  std::vector<std::set<std::string>> open;
  const auto visit = [&](int depth, json::parse_event_t event, json& value) {
    if (!problem.empty()) return false;
    if (depth > kMaxDepth) problem = strCat("it is nested more than ", kMaxDepth, " deep");
    if (event == json::parse_event_t::object_start) {
      open.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      if (!open.empty()) open.pop_back();
    } else if (event == json::parse_event_t::key && !open.empty()) {
      const auto& key = value.get_ref<const std::string&>();
      if (!open.back().insert(key).second) problem = strCat("'", keyText(key), "' comes twice in one object");
    }
    return problem.empty();
  };
  json document = json::parse(text.begin(), text.end(), visit, /*allow_exceptions=*/false);
  if (!problem.empty()) return invalidArgument(strCat(name, ": ", problem));
  if (document.is_discarded()) return invalidArgument(strCat(name, ": it is not JSON (or not UTF-8)"));
  return document;
}

// Reads the fields of one object without throwing; the first failure stays.
class Reader {
 public:
  Reader(const json& object, std::string place, std::initializer_list<std::string_view> known)
      : object_(object), place_(std::move(place)) {
    if (!object.is_object()) {
      note("it is not an object");
      return;
    }
    for (const auto& [key, value] : object.items()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      std::string names;
      for (std::string_view k : known) names += strCat(names.empty() ? "" : ", ", k);
      note(strCat("there is no '", keyText(key), "'; there are ", names));
      return;
    }
  }

  const Status& status() const { return status_; }
  void note(std::string_view what) {
    if (status_.ok()) status_ = invalidArgument(strCat(place_, ": ", what));
  }
  const json* field(const char* name) const {
    if (!object_.is_object()) return nullptr;
    auto it = object_.find(name);
    return it == object_.end() ? nullptr : &*it;
  }
  bool has(const char* name) const { return field(name) != nullptr; }

  template <typename Integer>
  void integer(const char* name, Integer& out, int64_t least, int64_t most) {
    if (const json* value = field(name)) out = static_cast<Integer>(asInteger(*value, name, least, most));
  }
  int64_t asInteger(const json& value, const char* name, int64_t least, int64_t most) {
    if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX})) {
      note(strCat("'", name, "' is not a whole number"));
      return least;
    }
    const int64_t n = value.get<int64_t>();
    if (n < least || n > most) note(strCat("'", name, "' is ", n, ", not from ", least, " to ", most));
    return std::clamp(n, least, most);
  }
  void number(const char* name, double& out, double least, double most) {
    const json* value = field(name);
    if (!value) return;
    if (!value->is_number()) return note(strCat("'", name, "' is not a number"));
    out = value->get<double>();
    if (!(out >= least && out <= most)) note(strCat("'", name, "' is ", out, ", not from ", least, " to ", most));
  }
  void text(const char* name, std::string& out, size_t most) {
    const json* value = field(name);
    if (!value) return;
    if (!value->is_string()) return note(strCat("'", name, "' is not a string"));
    out = value->get<std::string>();
    if (out.size() > most) note(strCat("'", name, "' has ", out.size(), " bytes; at most ", most));
    if (size_t at = findControl(out); at != std::string::npos)
      note(strCat("'", name, "' has a control character at byte ", at));
  }
  const json* list(const char* name) {
    const json* value = field(name);
    if (value && !value->is_array()) note(strCat("'", name, "' is not a list"));
    return value && value->is_array() ? value : nullptr;
  }
  void integers(const char* name, std::vector<int32_t>& out, int32_t size) {
    const json* values = list(name);
    if (!values) return;
    if (values->empty()) note(strCat("'", name, "' is empty; leave it out"));
    for (const json& value : *values) out.push_back(static_cast<int32_t>(asInteger(value, name, 0, size - 1)));
    std::sort(out.begin(), out.end());
    if (auto twice = std::adjacent_find(out.begin(), out.end()); twice != out.end())
      note(strCat("'", name, "' has ", *twice, " twice"));
  }
  /// A rate in GB/s: as such, or as ports of so many Gbit/s each.
  void rate(double& out) {
    if (has("gb_per_s") && (has("ports") || has("gbit_per_port")))
      return note("it has both 'gb_per_s' and 'ports' with 'gbit_per_port': one of them");
    number("gb_per_s", out, kLeastLinkRate, kMostLinkRate);
    if (has("ports") != has("gbit_per_port")) return note("'ports' and 'gbit_per_port' go together");
    if (!has("ports")) return;
    int64_t ports = 0;
    double gbit = 0;
    integer("ports", ports, 1, 4096);
    number("gbit_per_port", gbit, kLeastLinkRate, kMostLinkRate);
    out = static_cast<double>(ports) * gbit / 8;
  }

 private:
  const json& object_;
  std::string place_;
  Status status_;
};

struct Packets {
  std::optional<int64_t> payload, overhead, message;
};

// `out` stays where the file has no such field.
Status readLinks(const json& object, const std::string& place, bool rails, int32_t devices, int32_t& count,
                 double& rate, Packets& packets) {
  Reader r = rails ? Reader(object, place,
                            {"count", "ports", "gbit_per_port", "gb_per_s", "packet_bytes", "packet_overhead_bytes",
                             "message_overhead_bytes"})
                   : Reader(object, place,
                            {"ports", "gbit_per_port", "gb_per_s", "packet_bytes", "packet_overhead_bytes",
                             "message_overhead_bytes"});
  if (rails) r.integer("count", count, 1, devices);
  r.rate(rate);
  const auto bytes = [&](const char* name, std::optional<int64_t>& out, int64_t least, int64_t most) {
    int64_t value = least;
    r.integer(name, value, least, most);
    if (r.has(name)) out = value;
  };
  bytes("packet_bytes", packets.payload, kLeastPacketBytes, kMostPacketBytes);
  bytes("packet_overhead_bytes", packets.overhead, 0, kMostOverheadBytes);
  bytes("message_overhead_bytes", packets.message, 0, kMostOverheadBytes);
  return r.status();
}

Status readConstants(const json& object, std::string_view name, Fabric& fabric) {
  const std::string place = strCat(name, ": 'constants'");
  if (!object.is_object()) return invalidArgument(strCat(place, ": it is not an object"));
  for (const auto& [key, value] : object.items()) {
    ModelConstant constant{keyText(key), 0, 0, 0, strCat("set in ", name)};
    if (value.is_number()) {
      constant.value = constant.low = constant.high = value.get<double>();
    } else {
      Reader r(value, strCat(place, ", '", constant.name, "'"), {"value", "low", "high", "source"});
      constexpr double kAny = 1e12;
      if (!r.has("value")) r.note("it has no 'value'");
      r.number("value", constant.value, -kAny, kAny);
      constant.low = constant.high = constant.value;
      r.number("low", constant.low, -kAny, kAny);
      r.number("high", constant.high, -kAny, kAny);
      r.text("source", constant.source, 2000);
      HPU_RETURN_IF_ERROR(r.status());
    }
    if (Status status = setConstant(fabric, std::move(constant)); !status.ok())
      return invalidArgument(strCat(place, ": ", status.message()));
  }
  return {};
}

Status readExceptions(const json& list, std::string_view name, Fabric& fabric) {
  if (!list.is_array()) return invalidArgument(strCat(name, ": 'exceptions' is not a list"));
  for (size_t i = 0; i < list.size(); ++i) {
    Reader r(list[i], strCat(name, ": entry ", i, " of 'exceptions'"),
             {"node", "rate", "rails_down", "devices", "comment"});
    NodeException e;
    if (r.status().ok() && !r.has("node")) r.note("it has no 'node'");
    r.integer("node", e.node, 0, fabric.nodes - 1);
    r.number("rate", e.rate, kLeastNodeRate, 1);
    r.integers("rails_down", e.railsDown, fabric.rails);
    r.integers("devices", e.devices, fabric.devicesPerNode);
    HPU_RETURN_IF_ERROR(r.status());
    fabric.exceptions.push_back(std::move(e));
  }
  auto& all = fabric.exceptions;
  std::sort(all.begin(), all.end(), [](const NodeException& a, const NodeException& b) { return a.node < b.node; });
  for (size_t i = 1; i < all.size(); ++i)
    if (all[i].node == all[i - 1].node)
      return invalidArgument(strCat(name, ": 'exceptions' has node ", all[i].node, " twice; one entry says all of it"));
  return {};
}

// `nodes`: in place of the file's, unless 0.
StatusOr<Fabric> readDocument(const json& document, std::string_view name, int32_t nodes) {
  Reader r(document, std::string(name),
           {"format", "comment", "name", "target", "nodes", "devices_per_node", "mesh", "rails", "leaf", "constants",
            "exceptions"});
  HPU_RETURN_IF_ERROR(r.status());
  std::string format, title, targetText;
  r.text("format", format, 100);
  r.text("target", targetText, 100);
  if (r.status().ok() && format != kFormat) r.note(strCat("its 'format' is '", format, "', not '", kFormat, "'"));
  if (r.status().ok() && !r.has("target")) r.note("it has no 'target'");
  HPU_RETURN_IF_ERROR(r.status());
  StatusOr<Target> target = parseTarget(targetText);
  if (!target.ok()) return invalidArgument(strCat(name, ": ", target.status().message()));

  const arch::NetworkDesc& network = arch::networkDesc(*target);
  int32_t count = nodes, devices = network.devices;
  r.text("name", title, 100);
  if (!nodes) {
    if (!r.has("nodes")) r.note("it has no 'nodes'");
    r.integer("nodes", count, 1, kMaxFabricDevices);
  }
  r.integer("devices_per_node", devices, 1, kMaxDevicesPerNode);
  HPU_RETURN_IF_ERROR(r.status());

  int32_t rails = devices;
  double linkRate = network.bytesPerNsPerPeer(), railRate = network.scaleOutBytesPerNs();
  Packets linkPackets, railPackets;
  int32_t unused = 0;
  if (const json* mesh = r.field("mesh"))
    HPU_RETURN_IF_ERROR(readLinks(*mesh, strCat(name, ": 'mesh'"), false, devices, unused, linkRate, linkPackets));
  if (const json* object = r.field("rails"))
    HPU_RETURN_IF_ERROR(readLinks(*object, strCat(name, ": 'rails'"), true, devices, rails, railRate, railPackets));

  Fabric fabric = uniformFabric(*target, count, devices, linkRate, rails, railRate);
  fabric.name = title.empty() ? std::string(name.substr(0, 100)) : title;
  if (const json* constants = r.field("constants")) HPU_RETURN_IF_ERROR(readConstants(*constants, name, fabric));
  const auto set = [](int64_t& field, const std::optional<int64_t>& value) {
    if (value) field = *value;
  };
  set(fabric.mesh.packetBytes, linkPackets.payload);
  set(fabric.mesh.packetOverheadBytes, linkPackets.overhead);
  set(fabric.mesh.messageOverheadBytes, linkPackets.message);
  set(fabric.railPacketBytes, railPackets.payload);
  set(fabric.railPacketOverheadBytes, railPackets.overhead);
  set(fabric.railMessageOverheadBytes, railPackets.message);
  if (const json* object = r.field("leaf")) {
    Reader leaf(*object, strCat(name, ": 'leaf'"), {"nodes", "oversubscription"});
    if (leaf.status().ok() && !leaf.has("nodes")) leaf.note("it has no 'nodes'");
    leaf.integer("nodes", fabric.nodesPerLeaf, 1, kMaxFabricDevices);
    leaf.number("oversubscription", fabric.oversubscription, 1, kMostOversubscription);
    HPU_RETURN_IF_ERROR(leaf.status());
  }
  if (const json* list = r.field("exceptions")) HPU_RETURN_IF_ERROR(readExceptions(*list, name, fabric));
  if (Status status = checkFabric(fabric); !status.ok()) return invalidArgument(strCat(name, ": ", status.message()));
  return fabric;
}

struct Example {
  std::string_view name, text;
};
constexpr Example kExamples[] = {
#include "Examples.inc"
};

}  // namespace

StatusOr<Fabric> parseFabric(std::string_view text, std::string_view name) {
  HPU_ASSIGN(json document, parseText(text, name));
  return readDocument(document, name, 0);
}

StatusOr<Fabric> readFabric(const std::string& path) {
  // A pipe that nobody writes to would be waited for.
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  if (!error && type != std::filesystem::file_type::regular && type != std::filesystem::file_type::directory &&
      type != std::filesystem::file_type::not_found)
    return invalidArgument(strCat("cannot read '", path, "': it is not a regular file"));
  HPU_ASSIGN(std::string text, base::readTextFile(path, kMaxFabricText));
  return parseFabric(text, path);
}

std::vector<std::string> namedFabrics() {
  std::vector<std::string> names;
  for (const Example& example : kExamples) names.emplace_back(example.name);
  return names;
}

StatusOr<Fabric> namedFabric(std::string_view name, int32_t nodes) {
  for (const Example& example : kExamples) {
    if (example.name != name) continue;
    if (nodes < 0 || nodes > kMaxFabricDevices)
      return invalidArgument(strCat(name, ": 'nodes' is ", nodes, ", not from 1 to ", kMaxFabricDevices));
    HPU_ASSIGN(json document, parseText(example.text, name));
    return readDocument(document, name, nodes);
  }
  std::string names;
  for (const Example& example : kExamples) names += strCat(names.empty() ? "" : ", ", example.name);
  return notFound(strCat("there is no fabric '", name.substr(0, 100), "'; there are ", names));
}

StatusOr<Fabric> settingsFabric(Target target, int32_t nodes) {
  HPU_ASSIGN(const std::string what, settings::getString(Setting::HPU_COMM_FABRIC));
  // The standard nodes are the examples of their names, so that both are one fabric however it is asked for.
  if (what.empty()) return namedFabric(standardFabric(target, 1).name, nodes);
  const std::vector<std::string> names = namedFabrics();
  const bool named = std::find(names.begin(), names.end(), what) != names.end();
  StatusOr<Fabric> fabric = named ? namedFabric(what, nodes) : readFabric(what);
  const std::string setting = base::strCat("HPU_COMM_FABRIC=", what);
  if (!fabric.ok()) return fabric.status().withContext(setting);
  if (fabric->target != target)
    return invalidArgument(base::strCat(setting, " is of ", targetName(fabric->target), " devices, and the ranks have ",
                                        targetName(target)));
  if (fabric->nodes < nodes)
    return invalidArgument(base::strCat(setting, " has ", fabric->nodes, " nodes, and the ranks are on ", nodes));
  return fabric;
}

}  // namespace hpu::collectives
