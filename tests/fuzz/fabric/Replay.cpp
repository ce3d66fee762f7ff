// SPDX-License-Identifier: Apache-2.0
// Right files, to be mutated.
#include "tests/fuzz/Replay.h"

#include "collectives/fabric/FabricFile.h"

namespace {

using namespace hpu::collectives;

std::vector<std::string> texts() {
  std::vector<std::string> all;
  for (const std::string& name : namedFabrics())
    if (auto fabric = namedFabric(name); fabric.ok()) all.push_back(fabricText(*fabric));
  all.emplace_back(R"({"format": "openhpu-fabric-1", "comment": "", "name": "all", "target": "gaudi1", "nodes": 64,
 "devices_per_node": 4,
 "mesh": {"ports": 2, "gbit_per_port": 100, "packet_bytes": 4096, "packet_overhead_bytes": 90, "message_overhead_bytes": 0},
 "rails": {"count": 2, "gb_per_s": 12.5, "packet_bytes": 1024, "packet_overhead_bytes": 82, "message_overhead_bytes": 16},
 "leaf": {"nodes": 8, "oversubscription": 1.5},
 "constants": {"message_us": 5, "packets_per_ack": 16, "copy_gb_per_s": {"value": 500, "low": 100, "high": 900, "source": "x"}},
 "exceptions": [{"node": 63, "rate": 0.25, "rails_down": [1], "devices": [0, 3], "comment": "y"}]})");
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace hpu::fuzz;
  return replay(argc, argv,
                {.name = "fabric",
                 .samples = inputsOf(texts()),
                 .edits = {anotherByte, cutOff, repeatPiece, eraseSome, anotherNumber, anotherNumber, anotherNumber,
                           anotherNumber},
                 .mostEdits = 3});
}
