# SPDX-License-Identifier: Apache-2.0
from hpu_torch.fp8.state import fp8_autocast, get_fp8_recipe, is_fp8_available, is_fp8_enabled  # noqa: F401
