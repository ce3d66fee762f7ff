# SPDX-License-Identifier: Apache-2.0
"""python -m hpu_torch.run: torchrun, repaired for Python 3.11 (Debian's own program does not start there)."""
import hpu_torch  # noqa: F401: applies the repairs
from torch.distributed.run import main

if __name__ == "__main__":
    main()
