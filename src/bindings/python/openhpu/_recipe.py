# SPDX-License-Identifier: Apache-2.0
"""Compiling models, and recipes."""

import contextlib
import json
import operator
import os
import tempfile

from . import _core
from ._errors import MissingFileError, NotFoundError
from ._tensors import TensorInfo


class Recipe:
    """A compiled model: compile() and load() make them. Immutable; any thread may use it. Recipes can be pickled (they
    are native code: take none from strangers)."""

    def __init__(self, core, report=None):
        self._core = core
        self._report = report
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
        return list(self._outputs)

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


@contextlib.contextmanager
def model_file(model):
    """The path of a model that is a path, the bytes of one, or an onnx.ModelProto."""
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    if isinstance(model, (bytes, bytearray, memoryview)):
        with tempfile.TemporaryDirectory(prefix="openhpu-") as folder:
            path = os.path.join(folder, "model.onnx")
            with open(path, "wb") as file:
                file.write(model)
            yield path
        return
    path = os.fspath(model)
    with missing_file(path):
        yield path


@contextlib.contextmanager
def missing_file(path):
    """NotFoundError of a path that is not there is a FileNotFoundError, too."""
    try:
        yield
    except NotFoundError as error:
        if os.path.exists(path):
            raise
        raise MissingFileError(error.message) from None


def options(target="gaudi2", shapes=None, dims=None, precision="f32", opt_level=2, keep_f32=(), ranges=None, reports=(),
            explain=None, cache=None, cpu=""):
    """The options of compile() as the extension takes them."""
    size = operator.index
    return {"target": target, "precision": precision, "opt_level": size(opt_level),
            "shapes": {name: [size(dim) for dim in shape] for name, shape in (shapes or {}).items()},
            "dims": {name: size(dim) for name, dim in (dims or {}).items()},
            "keep_f32": [keep_f32] if isinstance(keep_f32, str) else list(keep_f32),
            "ranges": {name: float(value) for name, value in (ranges or {}).items()},
            "reports": [reports] if isinstance(reports, str) else list(reports), "explain": explain or "",
            "cache": os.environ.get("HPU_CACHE", "") if cache is None else os.fspath(cache), "cpu": cpu}


def compile(model, *, target="gaudi2", shapes=None, dims=None, precision="f32", opt_level=2, keep_f32=(), ranges=None,
            reports=(), explain=None, cache=None, cpu=""):
    """Compiles a model: the path of an ONNX file (or .mlir), its bytes, or an onnx.ModelProto.

    shapes: sizes of inputs with free dimensions, {"image": (8, 3, 224, 224)}; dims: of named free dimensions,
    {"batch": 8}. precision: f32, bf16, f16, fp8, fp8_e5m2. opt_level: 0 to 3. keep_f32: ops and nodes that keep f32.
    ranges: of fp8, the largest magnitude of each activation. reports: any of precision, fusion, layout, tile, memory,
    schedule, time. explain: a node to follow through the phases. cache: a folder of compiled recipes (default:
    HPU_CACHE; "" for none). cpu: "native" for smaller recipes.

    Other Python threads go on meanwhile, and Ctrl-C ends the wait."""
    given = options(target, shapes, dims, precision, opt_level, keep_f32, ranges, reports, explain, cache, cpu)
    with model_file(model) as path:
        core, report = _core.compile(path, given)
    figures = json.loads(report)
    figures["recipe_bytes"] = len(core.to_bytes())
    return Recipe(core, figures)


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
