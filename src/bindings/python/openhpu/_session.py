# SPDX-License-Identifier: Apache-2.0
"""Running recipes."""

import atexit
import collections
import functools
import json
import threading
import time
import types

import numpy as np

from . import _core
from ._awaiting import until_done
from ._device import Buffer, check_target, dtype_name, shared_device
from ._errors import (DeadlineExceededError, FailedPreconditionError, InvalidArgumentError, OutOfRangeError, integer,
                      seconds)
from ._recipe import Recipe
from ._state import State, state_array
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
        self._core = _core.Program(device._core, recipe._core, *([info.bits_dtype for info in infos]
                                                                 for infos in (recipe._inputs, recipe._outputs)))
        self._pairs = [(one, other) for one, other, _ in recipe._core.states()]
        # What runs give: without a State, and with one.
        self._results = [_Results(recipe, {other for _, other in self._pairs} if held else ()) for held in (False, True)]

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

    def _whole(self, inputs):
        """The inputs of a run with the defaults of those that are not there."""
        return {**self._recipe.defaults, **inputs} if isinstance(inputs, dict) and self._recipe.defaults else inputs

    def state(self, **sizes):
        """Memory on the device for the recipe's states (compile(states=...)), for run(..., state=...): with the sizes of free
        dimensions that say how large the states are at first, state(batch=1, past=0). What is in it then is zeros."""
        self._check_open()
        if not self._recipe._core.states():
            raise InvalidArgumentError(f"the recipe '{self._recipe.name}' has no states; compile with states={{OUTPUT: INPUT}}")
        dims = self._recipe.dims
        sizes = {name: integer(name, size) for name, size in sizes.items()}
        # Other dimensions do not matter, which those of least and of greatest size show.
        shapes = [self._recipe._core.input_shapes({**{name: bounds[end] for name, bounds in dims.items()}, **sizes})
                  for end in (0, 1)]
        for one, _, _ in self._recipe._core.states():
            if shapes[0][one] != shapes[1][one]:
                raise InvalidArgumentError(f"the size of the state '{self._recipe.inputs[one].name}' is not known; give sizes "
                                           f"of {', '.join(sorted(set(dims) - set(sizes)))}")
        return State(self, shapes[0])

    def run(self, *inputs, raw=False, timeout=None, state=None):
        """One run: with a dict of arrays by name, a dict of the outputs; with arrays in the order of the inputs, a list.
        Free dimensions (recipe.dims) take the arrays' sizes, which may differ from run to run. With a state (of state()), its
        tensors are no inputs and outputs of the call: they stay on the device, and the run changes them there.

        bf16 and fp8 outputs are float32, or with raw=True their bits. `timeout` in seconds as of Future.result()."""
        timeout = None if timeout is None else seconds(timeout)  # Before anything is enqueued.
        request, finish = self._enqueue(inputs, raw, False, state)
        request.wait(timeout)
        return finish()

    def run_async(self, *inputs, raw=False, state=None):
        """As run(), but returns a Future at once. Inputs are copied: they may be changed after the call."""
        return Future(*self._enqueue(inputs, raw, True, state))

    def launch(self, inputs, outputs, values=None, state=None):
        """A run on arrays that are on the device, without copies: Buffers by name or in order. Returns a Future; its
        result is `outputs`. What is enqueued on this session runs in order. values: the elements of the inputs that say
        sizes (a "k", the limit of a range), by name, which are not read from the device. With a state (of state()), its
        tensors are none of the inputs and outputs, as for run()."""
        self._check_open()
        elements = self._elements(values or {})
        if state is None:
            return self._launch(inputs, outputs, elements, {}, {})[0]
        self._check_state(state)
        with state._lock:
            held = {one: (buffer, shape) for (one, _), buffer, shape in zip(self._pairs, state._buffers, state._shapes)}
            for one, (_, shape) in held.items():
                self._check_shape(one, shape)
            future, infos = self._launch(inputs, outputs, elements, held, {other: held[one][0] for one, other in self._pairs})
            state._last = future._request
            state._shapes = [infos[other].shape for _, other in self._pairs]
        return future

    def _launch(self, inputs, outputs, elements, held, written):
        """The Future, and the outputs' infos. held: of inputs that are states, the buffer and the shape; written: of outputs."""
        sides, shapes = [], []
        for kind, given, own in (("input", inputs, {one: buffer for one, (buffer, _) in held.items()}), ("output", outputs, written)):
            infos = self._recipe.inputs if kind == "input" else self._outputs_for(shapes, elements)
            asked = [info for index, info in enumerate(infos) if index not in own]
            buffers = named(given, asked, kind)
            for info, buffer in zip(asked, buffers):
                if not isinstance(buffer, Buffer):
                    raise TypeError(f"{kind} '{info.name}': launch() takes openhpu.Buffer, not {type(buffer).__name__}")
                if buffer.dtype != info.dtype or not shape_fits(buffer.shape, info.shape):
                    raise InvalidArgumentError(f"{kind} '{info.name}' is {info.dtype} {shape_text(info.shape)}, but a buffer of "
                                               f"{buffer.dtype} {shape_text(buffer.shape)} was given")
            left = iter(buffers)
            every = [own[index] if index in own else next(left) for index in range(len(infos))]
            sides.append([buffer._core for buffer in every])
            if kind == "input" and self._recipe.dims:
                shapes = [list(held[index][1] if index in held else buffer.shape) for index, buffer in enumerate(every)]
        return Future(_track(self._core.launch(*sides, shapes, elements), self._device), lambda: outputs), infos

    def _check_state(self, state):
        """It may be used here."""
        if not isinstance(state, State) or state._session() is not self:
            raise InvalidArgumentError("state: a run takes a State that this session's state() has made")

    def _check_shape(self, index, shape):
        info = self._recipe.inputs[index]
        if not shape_fits(shape, info.shape):
            raise InvalidArgumentError(f"the state '{info.name}' is {shape_text(shape)} now, and the recipe takes "
                                       f"{shape_text(info.shape)}")

    def profile(self, *inputs, iters=10, warmup=1, top=10):
        """Times runs on both clocks: a dict with the keys of `hpu-run --json` (device_time_us is modelled,
        host_latency_ms measured) and in "trace" those of `hpu-trace summary --json` for one more run, with the `top`
        operations. "trace" is None while the program records a trace itself. Nothing else may use the device meanwhile."""
        if iters < 1 or warmup < 0:
            raise InvalidArgumentError("iters must be at least 1 and warmup at least 0")
        iters, warmup, top = (integer(name, value, -1 << 31, (1 << 31) - 1)
                              for name, value in (("iters", iters), ("warmup", warmup), ("top", top)))
        core = self._core_open()
        arrays, own = self._with_own_state(self._arrays(core, inputs[0] if _by_name(inputs) else inputs, False))
        return json.loads(core.profile(arrays, own and own._core, iters, warmup, top))

    def verify(self, inputs, expected, *, rtol=None, atol=None, precision="f32"):
        """Runs and compares with expected outputs, both as of run(): the keys of `hpu-verify --json`. An output passes
        when |a - b| <= atol * max|b| + rtol * |b| everywhere; the defaults are those of `precision`."""
        infos = self._recipe.outputs
        core = self._core_open()
        inputs = (inputs,) if isinstance(inputs, dict) else tuple(inputs)
        arrays = self._arrays(core, inputs[0] if _by_name(inputs) else inputs, False)
        wanted = named(expected, infos, "output")
        request, bits = self._start_alone(core, arrays)
        request.wait(None)
        return compare(infos, self._results[False].bits(bits), wanted, rtol, atol, precision)

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
        if core is None:
            self._check_open()
        return core

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
            return self._recipe._outputs
        return [TensorInfo(*one) for one in self._core_open().outputs(shapes, elements)]

    def _arrays(self, core, inputs, held):
        """Dense arrays in the order of the inputs, by name or by position; `held`: of those that are no states."""
        arrays = core.ready(inputs, held)
        if arrays is not None:
            return arrays
        # Something is to be converted, or wrong.
        states = {one for one, _ in self._pairs}
        wanted = [(info, index in states) for index, info in enumerate(self._recipe._inputs) if not held or index not in states]
        return [(state_array if of_state else device_array)(value, info)
                for value, (info, of_state) in zip(named(self._whole(inputs), [info for info, _ in wanted], "input"), wanted)]

    def _with_own_state(self, arrays):
        """For a run whose caller gives no State: the arrays that are none, and a State that has the others; None when the recipe
        has none."""
        if not self._pairs:
            return arrays, None
        # Sizes that do not fit are refused in the words of a run, not in those of assign().
        self._outputs_for([list(array.shape) for array in arrays], self._elements(
            {self._recipe._inputs[index].name: arrays[index] for index in self._recipe._core.value_inputs()}))
        own = State(self, None)
        for one, _ in self._pairs:
            own._assign(self._recipe._inputs[one].name, arrays[one])
        states = {one for one, _ in self._pairs}
        return [array for index, array in enumerate(arrays) if index not in states], own

    def _start_alone(self, core, arrays):
        """Enqueues a run without a State of the caller's: (the request, what finish() of the results takes)."""
        arrays, own = self._with_own_state(arrays)
        request, bits = core.run(arrays, own and own._core)
        if own is None:
            return request, bits
        own._last = request
        left, of_states = iter(bits), {other: self._recipe._inputs[one].name for one, other in self._pairs}
        return request, [functools.partial(own.numpy, of_states[index], raw=True) if index in of_states else next(left)
                         for index in range(len(self._recipe._outputs))]

    def _enqueue(self, inputs, raw, copy, state):
        """(the request, a function that gives the outputs when it is done)"""
        core, held = self._core_open(), state is not None
        if held:
            self._check_state(state)
        by_name = _by_name(inputs)
        arrays = self._arrays(core, inputs[0] if by_name else inputs, held)
        if copy:
            arrays = [array.copy() for array in arrays]
        if held:
            with state._lock:
                request, bits = core.run(arrays, state._core)
                state._last = request
        else:
            request, bits = self._start_alone(core, arrays) if self._pairs else core.run(arrays, None)
        return _track(request, self._device), functools.partial(self._results[held].finish, bits, raw, by_name)


def _by_name(inputs):
    """Whether the arguments of a run are a dict of arrays."""
    return len(inputs) == 1 and isinstance(inputs[0], dict)


class _Results:
    """What is made of the arrays that a run has written: of all outputs, but for those of `held`, which stay on the device."""

    def __init__(self, recipe, held):
        left = [index for index in range(len(recipe._outputs)) if index not in held]
        places = {index: place for place, index in enumerate(left)}
        sizes = recipe._core.data_sizes()
        infos = [recipe._outputs[index] for index in left]
        # (place, name, dimension, which element of the last array is its size) of sizes that depend on data.
        self._sizes = [(places[output], recipe._outputs[output].name, dim, element) for output, dim, element in sizes
                       if output in places]
        self._has_sizes = bool(sizes)
        self._alone = not held and bool(recipe._core.states())  # The arrays of states are read when a run is done.
        infos = infos[:-1] if sizes else infos
        self.names = [info.name for info in infos]
        # The element types that numpy lacks; None for all others.
        self._types = [info.dtype if info.bits_dtype != info.numpy_dtype else None for info in infos]
        self._plain = not any(self._types)

    def finish(self, bits, raw, by_name):
        """The outputs, of the arrays of a run that is done, or functions that give them."""
        values = self.bits(bits)
        if not (raw or self._plain):
            values = [array if dtype is None else from_bits(array, dtype) for array, dtype in zip(values, self._types)]
        return dict(zip(self.names, values)) if by_name else values

    def bits(self, arrays):
        """As the device has them, without what is beyond sizes that depend on data."""
        if self._alone:
            arrays = [array() if callable(array) else array for array in arrays]
        if not self._has_sizes:
            return arrays
        *results, sizes = arrays
        for place, name, dim, element in self._sizes:
            size, most = int(sizes[element]), results[place].shape[dim]
            if not 0 <= size <= most:
                raise OutOfRangeError(f"dimension {dim} of output '{name}' has {most} elements at most, and its size is {size}")
            results[place] = results[place][(slice(None),) * dim + (slice(size),)]
        return [np.ascontiguousarray(result).reshape(result.shape) for result in results]


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
