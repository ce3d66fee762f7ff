// SPDX-License-Identifier: Apache-2.0
// Station: where the ranks of one communicator that are of one process find each other, so that what is gathered
// reaches and leaves the process once.
// The one thing to know: it calls clients and groups, which take their rank's mutex: nobody calls it with one held.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/bootstrap/Values.h"

namespace hpu::collectives {

class Client;
class Group;

/// What a rank gives to the first one of its process.
struct LocalPart {
  std::string phase;
  Part part;
};

class Station {
 public:
  /// The one of a communicator's ranks that say they are of that process.
  static std::shared_ptr<Station> of(uint64_t nonce, uint64_t process);

  void enter(std::weak_ptr<Client> client);
  /// The coordinator tells one rank of a process; this gives it to all that have entered.
  void tell(const std::shared_ptr<const Roster>& roster);

  /// A group's member that others of the process may reach. What came for it before is given to it.
  void open(uint64_t group, int place, const std::shared_ptr<Group>& member);
  void close(uint64_t group, int place, const Group* member);
  /// Null: it is not there.
  std::shared_ptr<Group> member(uint64_t group, int place) const;
  /// Gives a part to `place`, or keeps it until `place` opens.
  void give(uint64_t group, int place, uint64_t phase, const std::shared_ptr<Group>& from, LocalPart part);

 private:
  struct Kept {
    uint64_t phase = 0;
    std::weak_ptr<Group> from;
    LocalPart part;
  };
  struct Members {
    std::map<int, std::weak_ptr<Group>> open;  ///< By place.
    std::map<int, std::vector<Kept>> kept;     ///< For places that are not open.
  };

  mutable std::mutex mutex_;  // Guards all. Nothing else is locked while it is held.
  std::vector<std::weak_ptr<Client>> clients_;
  std::map<uint64_t, Members> groups_;
};

}  // namespace hpu::collectives
