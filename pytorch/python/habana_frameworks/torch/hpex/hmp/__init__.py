# SPDX-License-Identifier: Apache-2.0
import sys

from hpu_torch.hpex import hmp

sys.modules[__name__] = hmp
