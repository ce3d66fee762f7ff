# SPDX-License-Identifier: Apache-2.0
"""How fp8 tensors are scaled in training."""
import dataclasses
import enum
from typing import Callable, Optional, Union

from .ops import E4M3, E5M2


class Format(enum.Enum):
    """Formats of (activations and weights, gradients)."""
    E4M3 = "e4m3"
    E5M2 = "e5m2"
    HYBRID = "hybrid"            # E4M3, and E5M2 for gradients
    E5M2_HYBRID = "e5m2_hybrid"  # of Gaudi's bridge: E5M2 with stochastic rounding of gradients, which is not there

    @property
    def forward(self):
        return E4M3 if self in (Format.E4M3, Format.HYBRID) else E5M2

    @property
    def backward(self):
        return E4M3 if self is Format.E4M3 else E5M2


@dataclasses.dataclass
class DelayedScaling:
    """A tensor is cast with the scale that the magnitudes of the steps before ask for; the first time with its own.

    margin: leaves that many powers of two. interval: steps between new scales. amax_history_len, amax_compute_algo: the largest
    magnitude of so many steps ("max"), the last one's ("most_recent"), or a function of the history. scaling_factor_compute_algo: a
    function of (amax, old scale, largest number of the format, recipe). reduce_amax: over fp8_autocast's group, if it has one."""
    margin: int = 0
    interval: int = 1
    fp8_format: Format = Format.HYBRID
    amax_history_len: int = 1
    amax_compute_algo: Union[str, Callable] = "most_recent"
    scaling_factor_compute_algo: Optional[Callable] = None
    reduce_amax: bool = True

    def __post_init__(self):
        if not isinstance(self.fp8_format, Format):
            raise ValueError(f"fp8_format is a Format, such as Format.HYBRID, not {self.fp8_format!r}")
        if self.fp8_format is Format.E5M2_HYBRID:
            raise ValueError("Format.E5M2_HYBRID rounds gradients stochastically, which is not there; Format.E5M2 and Format.HYBRID round to nearest")
        if self.amax_compute_algo not in ("max", "most_recent") and not callable(self.amax_compute_algo):
            raise ValueError(f"amax_compute_algo is 'max', 'most_recent' or a function, not {self.amax_compute_algo!r}")
        if self.interval < 1 or self.amax_history_len < 1 or not -20 <= self.margin <= 20:
            raise ValueError(f"interval and amax_history_len are at least 1 and margin is -20 to 20; they are {self.interval}, "
                             f"{self.amax_history_len} and {self.margin}")
