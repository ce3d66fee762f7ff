# SPDX-License-Identifier: Apache-2.0
"""The installed Python package: verifies a model with the libraries of its own prefix.

Usage: moved_package.py MODEL PREFIX. Exit code 1 when the package or one of our libraries is of another folder."""
import sys

import openhpu

model, prefix = sys.argv[1:]
result = openhpu.verify(model)
assert result["passed"], result
assert openhpu.__file__.startswith(prefix), openhpu.__file__
with open("/proc/self/maps", encoding="utf-8") as file:
    ours = {line.split()[-1] for line in file if "libhpu_" in line}
assert ours and all(path.startswith(prefix) for path in ours), ours
