# SPDX-License-Identifier: Apache-2.0
from hpu_torch.fp8.recipe import DelayedScaling, Format  # noqa: F401
