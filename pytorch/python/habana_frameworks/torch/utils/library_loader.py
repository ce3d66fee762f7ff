# SPDX-License-Identifier: Apache-2.0
"""What trainers ask before they use the device."""
import torch


def is_habana_available():
    return torch.hpu.is_available()


is_habana_avaialble = is_habana_available  # The spelling that the name was published with.


def load_habana_module():
    """Importing the package has done it."""
