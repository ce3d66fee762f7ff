# SPDX-License-Identifier: Apache-2.0
"""Compiling models, and recipes."""

import contextlib
import json
import os
import shutil
import tempfile
import threading
import weakref

import numpy as np

from . import _core
from ._awaiting import until_done
from ._errors import DeadlineExceededError, Error, integer, InvalidArgumentError, MissingFileError, NotFoundError, seconds
from ._tensors import TensorInfo


class Recipe:
    """A compiled model: compile() and load() make them. Immutable; any thread may use it. Recipes can be pickled (they
    are native code: take none from strangers)."""

    def __init__(self, core, report=None):
        self._core = core
        self._report = report
        self._defaults = None  # Read when they are first asked for.
        self._inputs = [TensorInfo(*one) for one in core.inputs()]
        self._outputs = [TensorInfo(*one) for one in core.outputs()]

    @property
    def name(self):
        return self._core.name()

    @property
    def target(self):
        return self._core.target()

    @property
    def inputs(self):
        return list(self._inputs)

    @property
    def outputs(self):
        """Those of the model. A size that depends on data (data_sizes) is the largest that there can be."""
        return self._outputs[:-1] if self._core.data_sizes() else list(self._outputs)

    @property
    def data_sizes(self):
        """The dimensions of outputs whose sizes depend on data, as of what NonZero finds: {output's name: [dimension, ...]}.
        run() returns arrays of the sizes that it has found."""
        names = {}
        for output, dim, _ in self._core.data_sizes():
            names.setdefault(self._outputs[output].name, []).append(dim)
        return names

    @property
    def dims(self):
        """The free dimensions, whose sizes each run takes from its inputs: {name: (least, most)}; empty: all are fixed."""
        return self._core.dims()

    @property
    def states(self):
        """The inputs that runs change in place, with their outputs: {input's name: output's name} (Session.state())."""
        return {self._inputs[one].name: self._outputs[other].name for one, other, _ in self._core.states()}

    @property
    def defaults(self):
        """What inputs are where a run gives nothing for them, by name: those of initializers that the model lists as inputs, too, and that
        compile(shapes=...) names. Arrays of bits where numpy has no such numbers."""
        if self._defaults is None:
            given = ((info, self._core.input_default(i)) for i, info in enumerate(self._inputs))
            self._defaults = {info.name: np.frombuffer(data, info.bits_dtype).reshape(info.shape) for info, data in given if data is not None}
        return self._defaults

    @property
    def report(self):
        """What the compiler said, with the keys of `hpu-compile --json`; None for a recipe from a file."""
        return self._report

    @property
    def workspace_bytes(self):
        return self._core.workspace_bytes()

    @property
    def constant_bytes(self):
        return self._core.constant_bytes()

    @property
    def estimated_device_time_us(self):
        return self._core.estimated_device_time_us()

    @property
    def signer(self):
        """The public key that has signed it, or None."""
        return self._core.signer() or None

    def save(self, path):
        self._core.save(os.fspath(path))

    def to_bytes(self):
        return self._core.to_bytes()

    def signed_with(self, secret_key):
        """The same recipe, signed with the key in a file that `hpu-compile --make-key` made."""
        return Recipe(self._core.signed_with(os.fspath(secret_key)), self._report)

    def __reduce__(self):
        return _unpickle, (self.to_bytes(), self._report)

    def __repr__(self):
        text = lambda infos: ", ".join(f"{one.name}: {one.dtype}{list(one.shape)}" for one in infos)
        return f"<openhpu.Recipe '{self.name}' for {self.target}: ({text(self._inputs)}) -> ({text(self._outputs)})>"


def _unpickle(data, report):
    return Recipe(_core.Recipe.from_bytes(data), report)


def _placed(model):
    """(the path of a model that is a path, the bytes of one, or an onnx.ModelProto; the folder that was made for it, or None)."""
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    if not isinstance(model, (bytes, bytearray, memoryview)):
        return os.fspath(model), None
    folder = tempfile.mkdtemp(prefix="openhpu-")
    path = os.path.join(folder, "model.onnx")
    try:
        with open(path, "wb") as file:
            file.write(model)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return path, folder


def _remove(folder, process):
    """In a forked child the folder is its parent's."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def model_file(model):
    """The path of a model, while it is used."""
    path, folder = _placed(model)
    try:
        with model_errors(path, None if folder is None else _kind_of(model)):
            yield path
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _kind_of(model):
    return "the model given as a proto" if hasattr(model, "SerializeToString") else "the model given as bytes"


@contextlib.contextmanager
def model_errors(path, given_as=None):
    """As missing_file(); errors of a model in a file of ours name what was given instead."""
    try:
        with missing_file(path):
            yield
    except Error as error:
        if given_as is not None:
            error.message = error.message.replace(f"'{path}'", given_as).replace(path, given_as)
        raise


@contextlib.contextmanager
def missing_file(path):
    """NotFoundError of a path that is not there is a FileNotFoundError, too."""
    try:
        yield
    except NotFoundError as error:
        if os.path.exists(path):
            raise
        raise MissingFileError(error.message) from None


def _sizes_and_bounds(dims):
    """dims of compile(): those of one size, and those of (LEAST, MOST)."""
    sizes, bounds = {}, {}
    for name, size in (dims or {}).items():
        if isinstance(size, (tuple, list)):
            if len(size) != 2:
                raise InvalidArgumentError(f"dims['{name}'] is a size, or (LEAST, MOST), not {len(size)} numbers")
            bounds[name] = tuple(integer(f"dims['{name}'][{end}]", bound) for end, bound in enumerate(size))
        else:
            sizes[name] = integer(f"dims['{name}']", size)
    return sizes, bounds


def _names(states):
    """states of compile(), as text."""
    states = {} if states is None else states
    if not isinstance(states, dict) or not all(isinstance(one, str) for pair in states.items() for one in pair):
        raise TypeError("states is a dict of an input's name for each output's: {'present.*': 'past_key_values.*'}")
    return dict(states)


def options(target="gaudi2", shapes=None, dims=None, precision="f32", opt_level=2, keep_f32=(), ranges=None, reports=(),
            explain=None, cache=None, cpu="", states=None, search_effort=100, plugins=()):
    """The options of compile() as the extension takes them."""
    sizes, bounds = _sizes_and_bounds(dims)
    return {"target": target, "precision": precision, "opt_level": integer("opt_level", opt_level, -1 << 31, (1 << 31) - 1),
            "shapes": {name: [integer(f"shapes['{name}'][{axis}]", dim) for axis, dim in enumerate(shape)]
                       for name, shape in (shapes or {}).items()},
            "dims": sizes, "bounds": bounds,
            "keep_f32": [keep_f32] if isinstance(keep_f32, str) else list(keep_f32),
            "ranges": {name: float(value) for name, value in (ranges or {}).items()},
            "reports": [reports] if isinstance(reports, str) else list(reports), "explain": explain or "",
            "cache": os.environ.get("HPU_CACHE", "") if cache is None else os.fspath(cache), "cpu": cpu,
            "states": _names(states), "search_effort": integer("search_effort", search_effort, -1 << 31, (1 << 31) - 1),
            "plugins": [os.fspath(plugins)] if isinstance(plugins, (str, os.PathLike)) else [os.fspath(one) for one in plugins]}


class Compilation:
    """A compilation that goes on beside the program: compile_async() starts it. Any thread may wait; `await` works in asyncio,
    any number of times. It is cancelled when nobody has this object any more."""

    def __init__(self, model, given):
        self._path, folder = _placed(model)
        self._given_as = _kind_of(model) if folder is not None else None
        # Its model is needed until it is done, or until nobody cares.
        self._forget_model = weakref.finalize(self, _remove, folder, os.getpid()) if folder is not None else lambda: None
        self._core = _core.Compilation(self._path, given)
        self._value = None
        self._lock = threading.Lock()

    def done(self):
        return self._core.done()

    @property
    def phase(self):
        """The name of the phase that runs, as in the report; "" when none does."""
        return self._core.phase()

    def cancel(self):
        """Returns at once; result() raises CancelledError soon, unless the compilation was done before."""
        self._core.cancel()

    def result(self, timeout=None):
        """The recipe; waits for at most `timeout` seconds (None: as long as it takes). Raises the compilation's failure, or
        DeadlineExceededError (a TimeoutError): it goes on then."""
        timeout = seconds(timeout)
        try:
            with model_errors(self._path, self._given_as):
                core, report = self._core.result(timeout)
        except DeadlineExceededError:
            if self.done():
                self._forget_model()
            raise
        except Error:
            self._forget_model()
            raise
        self._forget_model()
        with self._lock:
            if self._value is None:
                figures = json.loads(report)
                figures["recipe_bytes"] = len(core.to_bytes())
                self._value = Recipe(core, figures)
        return self._value

    def exception(self, timeout=None):
        """The compilation's failure, or None when it succeeded."""
        try:
            self.result(timeout)
        except Error as error:
            if isinstance(error, DeadlineExceededError) and not self.done():
                raise
            return error
        return None

    def __await__(self):
        if not self.done():
            yield from until_done(self._core)
        return self.result()

    def __repr__(self):
        return f"<openhpu.Compilation of {self._given_as or repr(self._path)}: {'done' if self.done() else self.phase or 'begins'}>"


def compile(model, *, target="gaudi2", shapes=None, dims=None, precision="f32", opt_level=2, keep_f32=(), ranges=None,
            reports=(), explain=None, cache=None, cpu="", states=None, search_effort=100, plugins=()):
    """Compiles a model: the path of an ONNX file (or .mlir), its bytes, or an onnx.ModelProto.

    shapes: sizes of inputs with free dimensions, {"image": (8, 3, 224, 224)}; dims: of named free dimensions,
    {"batch": 8}, or bounds, {"batch": (1, 64)}: the recipe then runs with any sizes between them. precision: f32, bf16, f16,
    fp8, fp8_e5m2. opt_level: 0 to 3. keep_f32: ops and nodes that keep f32. ranges: of fp8, the largest magnitude of each
    activation, as calibrate() finds them. reports: any of precision, fusion, layout, tile, memory, schedule, time, shapes.
    explain: a node to follow through the phases. cache: a folder of compiled recipes (default: HPU_CACHE; "" for none).
    cpu: "native" for smaller recipes. states: outputs that are inputs changed in place, {"present.*": "past_key_values.*"}
    (Session.state()). search_effort: how long to look for better slices of units, in percent of what is usual.
    plugins: files of custom ops (docs/custom-ops.md).

    Other Python threads go on meanwhile, and Ctrl-C cancels the compilation."""
    compilation = compile_async(model, target=target, shapes=shapes, dims=dims, precision=precision, opt_level=opt_level,
                                keep_f32=keep_f32, ranges=ranges, reports=reports, explain=explain, cache=cache, cpu=cpu,
                                states=states, search_effort=search_effort, plugins=plugins)
    try:
        return compilation.result()
    except BaseException:
        compilation.cancel()  # It may be in a traceback that somebody keeps.
        raise


def compile_async(model, *, target="gaudi2", shapes=None, dims=None, precision="f32", opt_level=2, keep_f32=(), ranges=None,
                  reports=(), explain=None, cache=None, cpu="", states=None, search_effort=100, plugins=()):
    """As compile(), but returns a Compilation at once, whose result is the recipe. Bytes and protos are copied; a file is
    not to be changed meanwhile."""
    return Compilation(model, options(target, shapes, dims, precision, opt_level, keep_f32, ranges, reports, explain, cache, cpu,
                                      states, search_effort, plugins))


def load(recipe):
    """A recipe from a file or from bytes. A recipe is native code: take none from strangers, or see HPU_RECIPE_KEYS."""
    if isinstance(recipe, (bytes, bytearray, memoryview)):
        return Recipe(_core.Recipe.from_bytes(bytes(recipe)))
    path = os.fspath(recipe)
    with missing_file(path):
        return Recipe(_core.Recipe.load(path))


def supported_ops():
    """The ONNX ops that compile, each "Op (opset a..b)"."""
    return _core.supported_onnx_ops()
