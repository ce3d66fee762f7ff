# SPDX-License-Identifier: Apache-2.0
"""Tensors that stay on the device, and that runs change in place."""

import threading
import weakref

import numpy as np

from . import _core
from ._errors import InvalidArgumentError, integer
from ._tensors import HostTensor, device_array, from_bits, shape_text

_COPY_BYTES = 16384  # A copy of its own takes as long as so many bytes of a larger one.


def state_array(value, info):
    """As device_array(), and f32 as an f16 that it is converted to: the model may have said so."""
    if info.dtype == "f16" and not isinstance(value, HostTensor) and hasattr(value, "dtype"):
        array = np.asarray(value)
        value = array.astype(np.float16) if array.dtype == np.float32 else array
    return device_array(value, info)


def _shapes_beyond(recipe, others, sizes):
    """Shapes of the inputs. A state may be longer than a launch can say, after one that has filled it: sizes above their
    bounds count as far as these let shapes grow with them."""
    within = {name: min(size, recipe.dims[name][1]) if name in recipe.dims else size for name, size in sizes.items()}
    shapes = recipe._core.input_shapes({**others, **within})
    for name, most in within.items():
        if sizes[name] == most or recipe.dims[name][0] == most:
            continue
        less = recipe._core.input_shapes({**others, **within, name: most - 1})
        shapes = [tuple(size + (sizes[name] - most) * (size - one) for size, one in zip(shape, other))
                  for shape, other in zip(shapes, less)]
    return shapes


class State:
    """The states of a recipe (compile(states=...)), a KV cache: memory on the device that runs change in place.
    Session.state() makes it, run(..., state=...) uses it, and each run appends to it what its outputs have more than its
    inputs. Of one sequence, or one batch: as many States as are generated at once. Runs with one State are in order."""

    def __init__(self, session, shapes):
        recipe = session.recipe
        self._session = weakref.ref(session)
        self._lock = threading.Lock()
        self._last = None  # The run that uses it last.
        self._pairs = [(one, other) for one, other, _ in recipe._core.states()]
        self._infos = [recipe.inputs[one] for one, _ in self._pairs]
        self._buffers = [session.device.allocate(tuple(capacity), recipe.inputs[one].dtype, label=recipe.inputs[one].name)
                         for one, _, capacity in recipe._core.states()]
        self._first = [() if shapes is None else tuple(shapes[one]) for one, _ in self._pairs]
        self._core = _core.StateMemory([buffer._core for buffer in self._buffers], self._first)  # The lock orders its uses.
        if shapes is not None:  # Else all of it is assigned before anything reads it.
            self.reset()

    @property
    def _shapes(self):
        """What is in the memory now, in the order of the recipe's states."""
        return self._core.shapes()

    @_shapes.setter
    def _shapes(self, shapes):
        self._core.set_shapes(shapes)

    @property
    def shapes(self):
        """{input's name: the shape that it has now}."""
        return {info.name: shape for info, shape in zip(self._infos, self._shapes)}

    @property
    def nbytes(self):
        """On the device, for the largest sizes."""
        return sum(buffer.nbytes for buffer in self._buffers)

    def reset(self):
        """As it was made: of the first shapes, with zeros. Also after a run that has failed."""
        if self._last is not None:
            try:
                self._last.wait(None)
            except Exception:  # pylint: disable=broad-except
                pass  # The run's own failure, of which its caller has heard.
        self._last = None
        for buffer in self._buffers:
            buffer._core.clear()
        self._shapes = self._first

    def crop(self, **sizes):
        """Forgets rows at the end: crop(past=12) leaves the first 12, as after a guess of tokens that was wrong. Sizes of free
        dimensions as of Session.state(); what they do not say stays. Nothing is copied. Not longer than it is."""
        session = self._session()
        if session is None:
            raise InvalidArgumentError("crop: the state's session is gone")
        sizes = {name: integer(name, size) for name, size in sizes.items()}
        # What follows from them shows in sizes that the others leave as they are.
        ends = [_shapes_beyond(session.recipe, {name: bounds[end] for name, bounds in session.recipe.dims.items()}, sizes)
                for end in (0, 1)]
        with self._lock:
            shapes = []
            for (one, _), info, now in zip(self._pairs, self._infos, self._shapes):
                shape = tuple(size if low == high else size_now
                              for low, high, size, size_now in zip(*(end[one] for end in ends), ends[0][one], now))
                if any(size > size_now for size, size_now in zip(shape, now)):
                    raise InvalidArgumentError(f"crop: the state '{info.name}' is {shape_text(now)} now, which cannot become "
                                               f"{shape_text(shape)}")
                shapes.append(shape)
            self._shapes = shapes

    def numpy(self, name, *, raw=False):
        """A copy of the state of this input's name, as it is when all runs so far are done."""
        index = self._index(name)
        self._settle()
        info, shape = self._infos[index], self._shapes[index]
        runs = self._runs(index, shape)
        if runs is None:
            rows = np.array(self._buffers[index].numpy(raw=True)[tuple(slice(size) for size in shape)])
        else:
            rows = np.empty(shape, dtype=info.bits_dtype)
            self._buffers[index]._core.read(rows, None, *runs)
        return rows if raw or info.bits_dtype == info.numpy_dtype else from_bits(np.ascontiguousarray(rows), info.dtype)

    def assign(self, name, array):
        """Makes the state of this input's name a copy of an array. A state that is narrower than the model says takes an
        array of the model's type, too."""
        index = self._index(name)
        self._assign(name, state_array(array, self._infos[index]))

    def _assign(self, name, rows):
        index, shape = self._index(name), rows.shape
        room = self._buffers[index].shape
        if any(size > most for size, most in zip(shape, room)):
            raise InvalidArgumentError(f"the state '{name}' is {shape_text(self._infos[index].shape)} with room for "
                                       f"{shape_text(room)}, but an array of {shape_text(shape)} was given")
        runs = self._runs(index, shape)
        memory = rows
        if runs is None:
            memory, runs = np.zeros(room, dtype=self._infos[index].bits_dtype), ()
            memory[tuple(slice(size) for size in shape)] = rows
        self._settle()
        self._buffers[index]._core.write(np.ascontiguousarray(memory), None, *runs)
        shapes = self._shapes
        shapes[index] = shape
        self._shapes = shapes

    def _runs(self, index, shape):
        """Where the rows of a dense array of this shape lie in the state's memory: offsets and the length of each, in bytes;
        None when all of the memory is copied sooner than so many."""
        room, item = self._buffers[index].shape, np.dtype(self._infos[index].bits_dtype).itemsize
        strides = [item * int(np.prod(room[axis + 1:], dtype=np.int64)) for axis in range(len(room))]
        outer = next((axis for axis in reversed(range(len(room))) if shape[axis] != room[axis]), 0)
        run = item * int(np.prod(shape[outer:], dtype=np.int64))
        count = int(np.prod(shape[:outer], dtype=np.int64))
        if count * max(run, _COPY_BYTES) > item * int(np.prod(room, dtype=np.int64)) and count > 1:
            return None
        offsets = np.zeros(1, np.int64)
        for axis in range(outer):
            offsets = (offsets[:, None] + strides[axis] * np.arange(shape[axis])).reshape(-1)
        return [int(offset) for offset in offsets], run

    def _index(self, name):
        for index, info in enumerate(self._infos):
            if info.name == name:
                return index
        raise InvalidArgumentError(f"there is no state '{name}'; the states are {', '.join(info.name for info in self._infos)}")

    def _settle(self):
        """Copies are in no order with runs."""
        if self._last is not None:
            self._last.wait(None)

    def __repr__(self):
        return f"<openhpu.State: {', '.join(f'{name} {shape_text(shape)}' for name, shape in self.shapes.items())}>"
