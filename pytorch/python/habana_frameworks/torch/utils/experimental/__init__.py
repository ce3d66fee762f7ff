# SPDX-License-Identifier: Apache-2.0
import enum

from hpu_torch import hpu


class synDeviceType(enum.IntEnum):
    """Of SynapseAI's headers."""
    synDeviceGaudi = 2
    synDeviceGaudi2 = 4
    synDeviceGaudi3 = 5


def _get_device_type():
    """A synDeviceType; -1 where there is no device."""
    return synDeviceType(hpu.get_device_type()) if hpu.is_available() else -1


def _is_fp16_supported():
    return hpu.is_available() and _get_device_type() != synDeviceType.synDeviceGaudi


def _data_ptr(tensor):
    return tensor.data_ptr()


def _compute_stream():
    """The number of the current stream."""
    return hpu.current_stream().stream_id


def _set_scale_attributes(hw_scaling_formats="", default_scaling_format=""):
    """Gaudi's formats of scales; scales here are any numbers."""


def _reset_device_memory(device=None):
    hpu.empty_cache(device)
