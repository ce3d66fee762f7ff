# SPDX-License-Identifier: Apache-2.0
"""Checking a model's results, reproducible inputs, traces."""

import contextlib
import itertools
import math
import os
import stat
import tempfile

import numpy as np

from . import _core
from ._errors import Error, integer, InvalidArgumentError, MissingFileError, NotFoundError, PermissionDeniedError
from ._recipe import Recipe, model_file, options
from ._recipe import compile as compile_model
from ._session import Session
from ._tensors import TensorInfo, device_array, from_bits, named


def _decoded(info, data, raw=False):
    bits = np.frombuffer(bytearray(data), dtype=info.bits_dtype).reshape(info.shape)
    return bits if raw or info.bits_dtype == info.numpy_dtype else from_bits(bits, info.dtype)


def random_inputs(recipe, seed=0, low=None, high=None, *, dims=None):
    """A dict of arrays for a recipe's inputs, the same on every machine and as `hpu-run --input rand:SEED`: floats in
    [-1, 1), integers and booleans 0 or 1, unless a range is given. dims: sizes of the recipe's free dimensions, by name."""
    seed = integer("seed", seed, high=(1 << 64) - 1) % (1 << 64)
    span = None if low is None and high is None else (-1.0 if low is None else low, 1.0 if high is None else high)
    sizes = {name: integer(name, size) for name, size in (dims or {}).items()}
    shapes = recipe._core.input_shapes(sizes)
    elements = recipe._core.input_values(sizes)
    infos = [info._replace(shape=tuple(shape)) for info, shape in zip(recipe.inputs, shapes)]
    random = {info.name: _decoded(info, _core.random(info.dtype, list(info.shape), seed, span)) for info in infos}
    for info, own in zip(infos, elements):
        if own:
            random[info.name] = np.array(own, dtype=info.numpy_dtype).reshape(info.shape)
    return random


def _interpreted(path, infos, inputs, given):
    """The interpreter's outputs by name, in the bits of their types."""
    arrays = [device_array(value, info) for value, info in zip(named(inputs, infos, "input"), infos)]
    packed = [(info.dtype, list(array.shape), array.tobytes()) for info, array in zip(infos, arrays)]
    return {name: (TensorInfo(name, dtype, shape), data)
            for name, dtype, shape, data in _core.interpret(path, given, packed)}


def verify(model, inputs=None, expected=None, *, rtol=None, atol=None, device=None, seed=0, **compile_options):
    """Compiles a model, runs it and compares, as hpu-verify does: {"passed", "outputs": [{"name", "passed", "max_abs",
    "max_rel", "wrong", "count", "pcc", "rms_ratio"}]}.

    inputs: as of Session.run, a dict or a sequence (None: random_inputs with `seed`). expected: outputs likewise; None:
    those of the reference interpreter. The tolerances are hpu-verify's for the precision unless they are given. The other
    arguments are those of compile(); sizes of free dimensions are taken from a dict of inputs when none are given."""
    compile_options = _sized_by(inputs, compile_options)
    with model_file(model) as path:
        recipe = compile_model(path, **compile_options)
        if inputs is None:
            inputs = random_inputs(recipe, seed)
        if expected is None:
            results = _interpreted(path, recipe.inputs, inputs, options(**compile_options))
            expected = {info.name: _decoded(*results[info.name]) for info in recipe.outputs}
        with Session(recipe, device) as session:
            return session.verify(inputs, expected, rtol=rtol, atol=atol,
                                  precision=compile_options.get("precision", "f32"))


def _sized_by(inputs, compile_options):
    """The options of compile(), with the sizes of free dimensions from a dict of inputs when they give none."""
    if not isinstance(inputs, dict) or compile_options.get("shapes") or compile_options.get("dims"):
        return compile_options
    return dict(compile_options, shapes={name: np.shape(value) for name, value in inputs.items()})


def calibrate(model, samples, *, device=None, **compile_options):
    """The ranges that compile(precision="fp8", ranges=...) takes: the largest magnitude of each activation that a matrix
    product reads, by name, over all samples, as `hpu-compile --calibrate` finds them.

    samples: typical inputs, each as of Session.run (a dict, or a sequence in order); at least one, any iterable. The model
    runs on them in f32. The other arguments are those of compile(), and should be those of the compilation that follows
    (precision: fp8 unless it is given); sizes of free dimensions are taken from the first sample when that is a dict and none
    are given."""
    samples = iter(samples)
    first = next(samples, None)
    if first is None:
        raise InvalidArgumentError("calibrate() finds ranges on samples, and none was given")
    given = options(**dict({"precision": "fp8"}, **_sized_by(first, compile_options)))
    with model_file(model) as path:
        recipe = Recipe(_core.calibration_recipe(path, given))
    ranges = {info.name: 0.0 for info in recipe.outputs}
    with Session(recipe, device) as session:
        for number, sample in enumerate(itertools.chain((first,), samples)):
            found = session.run(sample) if isinstance(sample, dict) else dict(zip(ranges, session.run(*sample)))
            for name, value in found.items():
                largest = float(np.ravel(value)[0])
                if not math.isfinite(largest):  # max() would drop a NaN, and the ranges of all behind it.
                    raise InvalidArgumentError(f"on samples[{number}] the activation '{name}' is "
                                               f"{'NaN' if math.isnan(largest) else 'infinite'}, of which no range can be made; "
                                               "correct the sample's inputs or leave it out")
                ranges[name] = max(ranges[name], largest)
    return ranges


@contextlib.contextmanager
def trace(path):
    """Records what host threads and devices do inside of `with`, to a file for hpu-trace (.json: Chrome's format,
    .pftrace: Perfetto's). An exception in the body goes on, and the file has what was recorded until then. A file that cannot
    be written is an error before the body; one that cannot be written behind it any more is written to the folder for temporary
    files, and the error says where."""
    path = os.fspath(path)
    _check_writable(path)
    _core.trace_start()
    try:
        yield
    except BaseException as error:
        try:
            _write_trace(path)
        except Error as unwritten:
            if hasattr(error, "add_note"):  # Of Python 3.11.
                error.add_note(f"the trace '{path}' was not written: {unwritten}")
        raise
    _write_trace(path)


_ERRORS_OF_FILES = ((FileNotFoundError, MissingFileError), (NotADirectoryError, NotFoundError),
                    (PermissionError, PermissionDeniedError))


def _check_writable(path):
    """Tries as the trace will be written: a file beside it, which is removed again."""
    if not path:
        raise InvalidArgumentError("trace() needs the name of a file")
    try:
        try:
            mode = os.stat(path).st_mode
        except FileNotFoundError:
            mode = 0
        if stat.S_ISDIR(mode):
            raise InvalidArgumentError(f"trace(): cannot write '{os.fsdecode(path)}': it is a directory")
        if mode and not stat.S_ISREG(mode):  # Opening a pipe would wait for its reader.
            if not os.access(path, os.W_OK):
                raise PermissionDeniedError(f"trace(): cannot write '{os.fsdecode(path)}': Permission denied")
            return
        with tempfile.NamedTemporaryFile(prefix=".hpu-", dir=os.path.dirname(os.path.realpath(os.fsdecode(path)))) as file:
            file.write(b"x")
    except OSError as error:
        if isinstance(error, Error):
            raise
        kind = next((ours for theirs, ours in _ERRORS_OF_FILES if isinstance(error, theirs)), InvalidArgumentError)
        raise kind(f"trace(): cannot write '{os.fsdecode(path)}': {error.strerror}") from None


def _write_trace(path):
    try:
        _core.trace_stop(path)
    except BaseException as error:
        # Recording goes on, so that another path can be tried.
        kept = None
        try:
            handle, kept = tempfile.mkstemp(prefix="openhpu-", suffix=os.path.splitext(os.fsdecode(path))[1] or ".hputrace")
            os.close(handle)
            _core.trace_stop(kept)
            fate = f"the recording is in '{kept}' instead"
        except BaseException:  # pylint: disable=broad-except
            _core.trace_cancel()  # The next trace is not in the way of this one.
            with contextlib.suppress(OSError, TypeError):
                os.unlink(kept)
            fate = "the recording is lost"
        if isinstance(error, Error):
            error.message = f"{error.message}; {fate}"
        raise
