# SPDX-License-Identifier: Apache-2.0
from . import debug, experimental, internal, library_loader  # noqa: F401
