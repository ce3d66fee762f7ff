# SPDX-License-Identifier: Apache-2.0
import functools

from hpu_torch import _C


def is_lazy():
    """Whether ops are recorded until their values are wanted. Eager mode is the default here."""
    return _C.is_lazy()


def lazy_only(function):
    """Calls function in lazy mode only."""
    @functools.wraps(function)
    def wrapper(*args, **options):
        return function(*args, **options) if is_lazy() else None
    return wrapper
