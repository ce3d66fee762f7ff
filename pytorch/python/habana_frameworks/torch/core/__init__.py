# SPDX-License-Identifier: Apache-2.0
import sys

from hpu_torch import core, step_closure

from . import quantization

core.quantization = quantization
sys.modules[__name__] = core
sys.modules[__name__ + ".step_closure"] = step_closure
sys.modules[__name__ + ".quantization"] = quantization
