# SPDX-License-Identifier: Apache-2.0
import sys

from hpu_torch import core

sys.modules[__name__] = core
