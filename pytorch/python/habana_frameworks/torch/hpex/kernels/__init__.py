# SPDX-License-Identifier: Apache-2.0
import sys

from hpu_torch.hpex import kernels

sys.modules[__name__] = kernels
