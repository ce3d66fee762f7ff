# SPDX-License-Identifier: Apache-2.0
"""Tensors that stay on the device, and that runs change in place."""

import threading
import weakref

import numpy as np

from ._errors import InvalidArgumentError
from ._tensors import device_array, from_bits, shape_text


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
        self._shapes = list(self._first)
        if shapes is not None:  # Else all of it is assigned before anything reads it.
            self.reset()

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
        self._shapes = list(self._first)

    def numpy(self, name, *, raw=False):
        """A copy of the state of this input's name, as it is when all runs so far are done."""
        index = self._index(name)
        self._settle()
        rows = self._buffers[index].numpy(raw=True)[tuple(slice(size) for size in self._shapes[index])]
        dtype = self._infos[index].dtype
        return np.array(rows) if raw or self._infos[index].bits_dtype == self._infos[index].numpy_dtype \
            else from_bits(np.ascontiguousarray(rows), dtype)

    def assign(self, name, array):
        """Makes the state of this input's name a copy of an array."""
        index = self._index(name)
        self._assign(name, device_array(array, self._infos[index]))

    def _assign(self, name, rows):
        index, shape = self._index(name), rows.shape
        room = self._buffers[index].shape
        if any(size > most for size, most in zip(shape, room)):
            raise InvalidArgumentError(f"the state '{name}' is {shape_text(self._infos[index].shape)} with room for "
                                       f"{shape_text(room)}, but an array of {shape_text(shape)} was given")
        memory = np.zeros(room, dtype=self._infos[index].bits_dtype)
        memory[tuple(slice(size) for size in shape)] = rows
        self._settle()
        self._buffers[index]._core.write(memory, None)
        self._shapes[index] = shape

    def _index(self, name):
        for index, info in enumerate(self._infos):
            if info.name == name:
                return index
        raise InvalidArgumentError(f"there is no state '{name}'; the states are {', '.join(info.name for info in self._infos)}")

    def _settle(self):
        """Copies are in no order with runs."""
        if self._last is not None:
            self._last.wait(None)

    def _grow(self, request, outputs):
        """After a run that is enqueued: its outputs are what the next one reads."""
        self._last = request
        self._shapes = [tuple(outputs[other].shape) for _, other in self._pairs]

    def __repr__(self):
        return f"<openhpu.State: {', '.join(f'{name} {shape_text(shape)}' for name, shape in self.shapes.items())}>"
