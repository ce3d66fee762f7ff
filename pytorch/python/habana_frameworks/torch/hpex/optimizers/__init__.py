# SPDX-License-Identifier: Apache-2.0
import sys

from hpu_torch.hpex import optimizers

sys.modules[__name__] = optimizers
