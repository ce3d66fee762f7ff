# SPDX-License-Identifier: Apache-2.0
"""Running recipes."""

import atexit
import collections
import json
import threading
import time
import types

import numpy as np

from . import _core
from ._awaiting import until_done
from ._device import Buffer, check_target, dtype_name, shared_device
from ._errors import DeadlineExceededError, FailedPreconditionError, InvalidArgumentError, integer, seconds
from ._recipe import Recipe
from ._tensors import TensorInfo, device_array, from_bits, named, shape_fits, shape_text


# (request, device) of what may not be done yet, in order. Libraries cannot be torn down below a device that works: a process
# that ends waits for it, and drops what takes longer.
_in_flight = collections.deque()
_END_SECONDS = 10


def _track(request, device):
    while _in_flight and _in_flight[0][0].done():
        try:
            _in_flight.popleft()
        except IndexError:  # Another thread was faster.
            break
    _in_flight.append((request, device))
    return request


@atexit.register
def _finish_runs():
    end = time.monotonic() + _END_SECONDS
    stuck = {}
    for request, device in list(_in_flight):
        try:
            request.wait(max(end - time.monotonic(), 0))
        except Exception:  # pylint: disable=broad-except
            if not request.done():  # Else a failure that nobody is left to be told.
                stuck[device.index] = device
    for device in stuck.values():
        try:
            device.reset()
        except Exception:  # pylint: disable=broad-except
            pass  # Another process's, of which this one was forked, or one that does not end.


class Future:
    """The outputs of a run that was enqueued. Any thread may wait; `await` works in asyncio, any number of times, and ends
    when it is cancelled: the run goes on then, and what it uses stays alive until it is done."""

    def __init__(self, request, finish):
        self._request = request
        self._finish = finish
        self._value = None
        self._lock = threading.Lock()

    __class_getitem__ = classmethod(types.GenericAlias)

    def done(self):
        return self._request.done()

    def result(self, timeout=None):
        """The outputs, as run() returns them; waits for at most `timeout` seconds (None: HPU_WAIT_TIMEOUT_MS).
        Raises the run's failure, or DeadlineExceededError (a TimeoutError): the run goes on then."""
        self._request.wait(seconds(timeout))
        with self._lock:
            if self._finish is not None:
                self._value, self._finish = self._finish(), None
        return self._value

    def exception(self, timeout=None):
        """The run's failure, or None when it succeeded."""
        try:
            self.result(timeout)
        except Exception as error:  # pylint: disable=broad-except
            if isinstance(error, DeadlineExceededError) and not self.done():
                raise
            return error
        return None

    def __await__(self):
        if not self.done():
            yield from until_done(self._request)
        return self.result()


def _empty(infos):
    return [np.empty(info.shape, dtype=info.bits_dtype) for info in infos]


class Session:
    """A recipe that is loaded on a device and can be run any number of times, from any thread. Sessions without a device
    share one for each target."""

    def __init__(self, recipe, device=None):
        if not isinstance(recipe, Recipe):
            raise TypeError(f"a Session takes an openhpu.Recipe (of compile() or load()), not {type(recipe).__name__}")
        if device is None:
            device = shared_device(recipe.target)
        check_target(device, recipe)
        self._recipe = recipe
        self._device = device
        self._core = _core.Program(device._core, recipe._core)

    @property
    def recipe(self):
        return self._recipe

    @property
    def device(self):
        return self._device

    @property
    def inputs(self):
        return self._recipe.inputs

    @property
    def outputs(self):
        return self._recipe.outputs

    def run(self, *inputs, raw=False, timeout=None):
        """One run: with a dict of arrays by name, a dict of the outputs; with arrays in the order of the inputs, a list.
        Free dimensions (recipe.dims) take the arrays' sizes, which may differ from run to run.

        bf16 and fp8 outputs are float32, or with raw=True their bits. `timeout` in seconds as of Future.result()."""
        timeout = seconds(timeout)  # Before anything is enqueued.
        return self._enqueue(inputs, raw, copy=False).result(timeout)

    def run_async(self, *inputs, raw=False):
        """As run(), but returns a Future at once. Inputs are copied: they may be changed after the call."""
        return self._enqueue(inputs, raw, copy=True)

    def launch(self, inputs, outputs, values=None):
        """A run on arrays that are on the device, without copies: Buffers by name or in order. Returns a Future; its
        result is `outputs`. What is enqueued on this session runs in order. values: the elements of the inputs that say
        sizes (a "k", the limit of a range), by name, which are not read from the device."""
        self._check_open()
        elements = self._elements(values or {})
        sides, shapes = [], []
        for kind, given in (("input", inputs), ("output", outputs)):
            infos = self._recipe.inputs if kind == "input" else self._outputs_for(shapes, elements)
            buffers = named(given, infos, kind)
            for info, buffer in zip(infos, buffers):
                if not isinstance(buffer, Buffer):
                    raise TypeError(f"{kind} '{info.name}': launch() takes openhpu.Buffer, not {type(buffer).__name__}")
                if buffer.dtype != info.dtype or not shape_fits(buffer.shape, info.shape):
                    raise InvalidArgumentError(f"{kind} '{info.name}' is {info.dtype} {shape_text(info.shape)}, but a buffer of "
                                               f"{buffer.dtype} {shape_text(buffer.shape)} was given")
            sides.append([buffer._core for buffer in buffers])
            if kind == "input" and self._recipe.dims:
                shapes = [list(buffer.shape) for buffer in buffers]
        return Future(_track(self._core.launch(*sides, shapes, elements), self._device), lambda: outputs)

    def profile(self, *inputs, iters=10, warmup=1, top=10):
        """Times runs on both clocks: a dict with the keys of `hpu-run --json` (device_time_us is modelled,
        host_latency_ms measured) and in "trace" those of `hpu-trace summary --json` for one more run, with the `top`
        operations. "trace" is None while the program records a trace itself. Nothing else may use the device meanwhile."""
        if iters < 1 or warmup < 0:
            raise InvalidArgumentError("iters must be at least 1 and warmup at least 0")
        iters, warmup, top = (integer(name, value, -1 << 31, (1 << 31) - 1)
                              for name, value in (("iters", iters), ("warmup", warmup), ("top", top)))
        arrays, _ = self._arrays(inputs)
        return json.loads(self._core_open().profile(arrays, _empty(self._outputs_for_arrays(arrays)), iters, warmup, top))

    def verify(self, inputs, expected, *, rtol=None, atol=None, precision="f32"):
        """Runs and compares with expected outputs, both as of run(): the keys of `hpu-verify --json`. An output passes
        when |a - b| <= atol * max|b| + rtol * |b| everywhere; the defaults are those of `precision`."""
        arrays, _ = self._arrays((inputs,) if isinstance(inputs, dict) else tuple(inputs))
        infos = self._outputs_for_arrays(arrays)
        wanted = named(expected, infos, "output")
        results = _empty(infos)
        self._core_open().run(arrays, results).wait(None)
        return compare(infos, results, wanted, rtol, atol, precision)

    def close(self):
        """Lets go of the device's memory, when runs that are enqueued are done. Later calls are errors."""
        self._core = self._device = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        return f"<openhpu.Session of '{self._recipe.name}' on {self._device or 'no device: closed'}>"

    def _check_open(self):
        if self._core is None:
            raise FailedPreconditionError(f"the session of '{self._recipe.name}' is closed")

    def _core_open(self):
        core = self._core
        self._check_open()
        return core

    def _arrays(self, inputs):
        """(the device's arrays in order, whether they were given by name)."""
        self._check_open()
        infos = self._recipe.inputs
        by_name = len(inputs) == 1 and isinstance(inputs[0], dict)
        values = named(inputs[0] if by_name else inputs, infos, "input")
        return [device_array(value, info) for value, info in zip(values, infos)], by_name

    def _elements(self, given):
        """The elements of the inputs that say sizes, in the order of the inputs; empty for all others."""
        names = [self._recipe.inputs[index].name for index in self._recipe._core.value_inputs()]
        for name in given:
            if name not in names:
                raise InvalidArgumentError(f"values['{name}']: the elements of no input of this name say sizes "
                                           f"({', '.join(names) or 'of none do'})")
        for name in names:
            if name not in given:
                raise InvalidArgumentError(f"the elements of input '{name}' say sizes: give them as values={{'{name}': ...}}")
        return [[int(element) for element in np.ravel(given[info.name])] if info.name in names else []
                for info in self._recipe.inputs]

    def _outputs_for(self, shapes, elements):
        """The outputs for inputs of these shapes and elements."""
        if not self._recipe.dims:
            return self._recipe.outputs
        return [TensorInfo(*one) for one in self._core_open().outputs(shapes, elements)]

    def _outputs_for_arrays(self, arrays):
        values = {self._recipe.inputs[index].name: arrays[index] for index in self._recipe._core.value_inputs()}
        return self._outputs_for([list(array.shape) for array in arrays], self._elements(values))

    def _enqueue(self, inputs, raw, copy):
        arrays, by_name = self._arrays(inputs)
        if copy:
            arrays = [array.copy() for array in arrays]
        outputs = self._outputs_for_arrays(arrays)
        results = _empty(outputs)

        def finish():
            values = [bits if raw or info.bits_dtype == info.numpy_dtype else from_bits(bits, info.dtype)
                      for bits, info in zip(results, outputs)]
            return dict(zip((info.name for info in outputs), values)) if by_name else values

        return Future(_track(self._core_open().run(arrays, results), self._device), finish)


def compare(infos, actual, expected, rtol, atol, precision):
    """{"passed", "outputs"}: the device's arrays and what was expected of them."""
    for name, given in (("rtol", rtol), ("atol", atol)):
        if given is not None and not 0 <= given < float("inf"):
            raise InvalidArgumentError(f"{name}={given} is not a tolerance; give a number of 0 or more")
    entries = []
    for info, bits, wanted in zip(infos, actual, expected):
        wanted = np.asarray(wanted)
        # The bits of a small float have an integer's type in numpy.
        kind = info.dtype if wanted.dtype == info.bits_dtype else dtype_name(wanted.dtype)
        wanted = np.asarray(wanted, dtype=wanted.dtype.newbyteorder("="), order="C")
        entries.append(json.loads(_core.compare(info.name, info.dtype, bits, kind, wanted, -1 if rtol is None else rtol,
                                                -1 if atol is None else atol, precision)))
    return {"passed": all(entry["passed"] for entry in entries), "outputs": entries}
