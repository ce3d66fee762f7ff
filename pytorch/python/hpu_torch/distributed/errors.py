# SPDX-License-Identifier: Apache-2.0
"""Exceptions of collectives that failed after they were called: a rank ended, called something else, or did not come."""
import re


class CollectiveError(RuntimeError):
    """`collective` ("all_reduce"), `number` (which call of the group), `group`, `rank` (this process's, in the group), `ranks`.
    What waits next raises it: the work's wait(), a synchronization, or a copy to the host. The group is of no use any more."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        found = re.match(r"hccl: (\w+) \(operation (\d+) of group '(.*?)'\) failed on rank (\d+) of (\d+)", str(self))
        self.collective = found[1] if found else None
        self.number = int(found[2]) if found else None
        self.group = found[3] if found else None
        self.rank = int(found[4]) if found else None
        self.ranks = int(found[5]) if found else None


class CollectiveTimeoutError(CollectiveError):
    """A rank did not come, or did not advance, within the group's timeout."""
