# SPDX-License-Identifier: Apache-2.0
from . import hmp, kernels, movingavrg, normalization, optimizers  # noqa: F401
