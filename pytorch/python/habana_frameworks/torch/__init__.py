# SPDX-License-Identifier: Apache-2.0
"""The names under which programs for Gaudi import hpu_torch: every module here is the one of hpu_torch."""
import hpu_torch  # noqa: F401: registers the device

from . import core, hpex, hpu, utils  # noqa: F401
