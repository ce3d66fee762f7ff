# SPDX-License-Identifier: Apache-2.0
"""What runs take and give: arrays of all kinds by name and in order, sizes that change, threads, errors in between."""

import collections
import os
import tempfile
import threading
import unittest

import numpy as np
from onnx import helper, TensorProto

from openhpu_cases import model_of, openhpu

try:
    import torch
except ImportError:
    torch = None

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
RANDOM = np.random.default_rng(11)


def rows(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def sums():
    """y = x + x0, and the integers twice."""
    return model_of([helper.make_node("Add", ["x", "b"], ["y"]), helper.make_node("Add", ["n", "n"], ["m"])],
                    [("x", FLOAT, ("rows", 4)), ("b", FLOAT, ()), ("n", INT64, ("rows", "columns"))],
                    [("y", FLOAT, ("rows", 4)), ("m", INT64, ("rows", "columns"))])


def cache():
    return model_of([helper.make_node("Concat", ["past", "new"], ["present"], axis=0),
                     helper.make_node("ReduceSum", ["present"], ["sum"], keepdims=0)],
                    [("past", FLOAT, ("past", 8)), ("new", FLOAT, ("seq", 8))], [("present", FLOAT, ("all", 8)), ("sum", FLOAT, ())])


class Own(np.ndarray):
    """Somebody's subclass."""


class Holder:
    """What numpy makes an array of."""

    def __init__(self, array):
        self._array = array

    def __array__(self, dtype=None):
        return self._array if dtype is None else self._array.astype(dtype)


def in_threads(work, seeds):
    """work(seed) of all at a time."""
    threads = [threading.Thread(target=work, args=(seed,)) for seed in seeds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def apart(array):
    """The same elements, each of them alone."""
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::2] = array
    return wide[..., ::2]


def odd(array):
    """At an address that is no multiple of anything."""
    memory = np.zeros(array.nbytes + 1, np.uint8)
    result = memory[1:].view(array.dtype).reshape(array.shape)
    result[...] = array
    return result


def frozen(array):
    result = array.copy()
    result.flags.writeable = False
    return result


KINDS = {"an array": lambda a: a, "by columns": np.asfortranarray, "apart": apart, "backwards": lambda a: a[::-1].copy()[::-1],
         "the other byte order": lambda a: a.astype(a.dtype.newbyteorder()), "both": lambda a: apart(a.astype(a.dtype.newbyteorder())),
         "a subclass": lambda a: a.view(Own), "a matrix": lambda a: a.view(np.matrix), "masked": np.ma.array, "read-only": frozen,
         "odd": odd, "a list": lambda a: a.tolist(), "tuples": lambda a: tuple(map(tuple, a.tolist())), "held": Holder,
         "another type of this kind": lambda a: a.astype("q" if a.dtype == np.int64 else a.dtype),
         "with notes": lambda a: a.astype(np.dtype(a.dtype, metadata={"unit": "m"})),
         "shared": openhpu.HostTensor, "repeated": lambda a: np.broadcast_to(a, (2, *a.shape))[1]}
if torch is not None:
    KINDS["of PyTorch"] = torch.from_numpy


class Kinds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.sessions = [openhpu.Session(openhpu.compile(sums(), cache="", dims=dims)) for dims in
                        ({"rows": 3, "columns": 5}, {"rows": (0, 40), "columns": (0, 9)})]

    @classmethod
    def tearDownClass(cls):
        for session in cls.sessions:
            session.close()

    def test_every_kind_of_array_is_taken(self):
        x, b, n = rows(3, 4), np.float32(0.25), RANDOM.integers(-9, 9, (3, 5))
        for session in self.sessions:
            for name, kind in KINDS.items():
                given = {"x": kind(x.copy()), "b": b, "n": kind(n.copy())}
                with self.subTest(kind=name, dims=session.recipe.dims):
                    for run in (session.run, lambda *all, **more: session.run_async(*all, **more).result()):
                        got = run(given)
                        self.assertEqual(list(got), ["y", "m"])
                        np.testing.assert_array_equal(got["y"], x + b)
                        np.testing.assert_array_equal(got["m"], 2 * n)
                        got = run(given["x"], given["b"], given["n"])
                        self.assertIs(type(got), list)
                        np.testing.assert_array_equal(got[0], x + b)
                        np.testing.assert_array_equal(got[1], 2 * n)
                        self.assertEqual((got[0].dtype, got[1].dtype), (np.float32, np.int64))

    def test_files_in_memory(self):
        with tempfile.TemporaryDirectory(prefix="hpu-python-") as folder:
            x = np.memmap(os.path.join(folder, "x"), np.float32, "w+", shape=(3, 4))
            x[:] = rows(3, 4)
            for session in self.sessions:
                np.testing.assert_array_equal(session.run(x, 1.0, np.zeros((3, 5), np.int64))[0], np.asarray(x) + 1)
            del x

    def test_numbers_of_no_dimensions(self):
        x, n = rows(3, 4), np.ones((3, 5), np.int64)
        for session in self.sessions:
            for value in (2, 2.0, np.float32(2), np.array(2, np.float32), np.array(2, ">f4"), [[2.0]][0][0]):
                np.testing.assert_array_equal(session.run(x, value, n)[0], x + 2)
            for value in ([2.0], np.array([2], np.float32), np.ones((1, 1), np.float32)):
                self.assertRaisesRegex(openhpu.InvalidArgumentError, "input 'b' has the shape scalar, but an array of shape 1",
                                       session.run, x, value, n)

    def test_arrays_without_elements(self):
        for shape in ((0, 5), (0, 0), (3, 0)):
            x, n = rows(shape[0], 4), np.zeros(shape, np.int64)
            got = self.sessions[1].run(x, 1.0, n)
            self.assertEqual([one.shape for one in got], [x.shape, shape])
            np.testing.assert_array_equal(got[0], x + 1)

    def test_kinds_of_dicts(self):
        x, n = rows(3, 4), np.ones((3, 5), np.int64)
        for session in self.sessions:
            missing = collections.defaultdict(lambda: np.zeros(()), x=x, n=n)
            self.assertRaisesRegex(openhpu.InvalidArgumentError, "input 'b' is missing; the inputs are 'x', 'b', 'n'", session.run,
                                   missing)
            self.assertEqual(set(missing), {"x", "n"})
            for kind in (dict, collections.OrderedDict, lambda all: collections.defaultdict(None, all)):
                for order in ("xbn", "nbx"):
                    got = session.run(kind({name: {"x": x, "b": 1.0, "n": n}[name] for name in order}))
                    self.assertEqual(list(got), ["y", "m"])
                    np.testing.assert_array_equal(got["y"], x + 1)

    def test_what_is_wrong_is_said_and_the_next_run_is_right(self):
        x, b, n = rows(3, 4), np.float32(1), np.ones((3, 5), np.int64)
        wrong = [(({"x": x, "b": b, "n": n, "z": b},), "there is no input 'z'; the inputs are 'x', 'b', 'n'"),
                 (({"x": x, "b": b},), "input 'n' is missing"), (({"x": x, "b": b, 3: n},), "there is no input '3'"),
                 (({},), "input 'x' is missing"), ((), r"3 inputs \('x', 'b', 'n'\), but 0 were given"),
                 ((x, b), "but 2 were given"), ((x, b, n, n), "but 4 were given"),
                 ((x.astype(np.float64), b, n), r"input 'x' is f32 \(numpy float32\), but an array of float64 was given \(shape 3x4\)"),
                 ((x, b, n.astype(np.int32)), r"'n' is i64 \(numpy int64\), but an array of int32"),
                 ((x, b, n.astype(np.uint64)), "'n' is i64.*array of uint64"), ((x, b, n != 0), "'n' is i64.*array of bool"),
                 ((x, b, [["a"] * 5] * 3), r"'n' is i64 \(numpy int64\); list does not convert"),
                 ((x[0], b, n), "'x' has the shape (3|\\?)x4, but an array of shape 4 was given"),
                 ((rows(3, 5), b, n), "'x' has the shape (3|\\?)x4, but an array of shape 3x5 was given"),
                 ((rows(2, 4), b, n), "'x'|'n'|rows"), ((x, b, openhpu.HostTensor(x)), "'n' is i64.*a HostTensor of f32")]
        for session in self.sessions:
            for given, words in wrong:
                with self.subTest(words=words, dims=session.recipe.dims):
                    for run in (session.run, session.run_async):
                        self.assertRaisesRegex((openhpu.InvalidArgumentError, TypeError), words, run, *given)
                    np.testing.assert_array_equal(session.run(x, b, n)[0], x + 1)

    def test_results_are_arrays_of_their_own(self):
        x, n = rows(3, 4), np.ones((3, 5), np.int64)
        for session in self.sessions:
            first, second = session.run(x, 1.0, n)[0], session.run(x, 2.0, n)[0]
            self.assertFalse(np.shares_memory(first, second))
            first[:] = 7
            np.testing.assert_array_equal(second, x + 2)
            futures = []
            given = x.copy()
            for value in range(5):
                given[:] = value
                futures.append(session.run_async(given, 1.0, n))
            for value, future in enumerate(futures):
                self.assertTrue((future.result()[0] == value + 1).all())
                self.assertIs(future.result(), future.result())

    def test_sizes_that_change_from_run_to_run_and_thread_to_thread(self):
        session, failures = self.sessions[1], []

        def work(seed):
            random = np.random.default_rng(seed)
            try:
                for step in range(60):
                    # Sizes that come back, ones that alternate, and ones that have not been.
                    count, columns = ((1, 2), (40, 9), (seed, 3), (int(random.integers(0, 41)), int(random.integers(0, 10))))[step % 4]
                    x = random.standard_normal((count, 4)).astype(np.float32)
                    n = random.integers(-9, 9, (count, columns))
                    y, m = session.run(x, float(seed), n)
                    np.testing.assert_array_equal(y, x + np.float32(seed))
                    np.testing.assert_array_equal(m, 2 * n)
                    self.assertRaises(openhpu.InvalidArgumentError, session.run, x[:, :3], 0.0, n)
                    self.assertRaises(openhpu.Error, session.run, np.zeros((41, 4), np.float32), 0.0, np.zeros((41, 1), np.int64))
            except BaseException as error:  # pylint: disable=broad-except
                failures.append(error)
        in_threads(work, range(1, 5))
        self.assertEqual(failures, [])

    def test_closed_sessions(self):
        x, n = rows(3, 4), np.ones((3, 5), np.int64)
        for dims in ({"rows": 3, "columns": 5}, {"rows": (0, 40), "columns": (0, 9)}):
            session = openhpu.Session(openhpu.compile(sums(), cache="", dims=dims))
            future = session.run_async(x, 1.0, n)
            session.close()
            for call in (session.run, session.run_async, session.profile, lambda *all: session.verify(all, all)):
                self.assertRaisesRegex(openhpu.FailedPreconditionError, "is closed", call, x, 1.0, n)
            self.assertRaisesRegex(openhpu.FailedPreconditionError, "is closed", session.run, "nonsense")
            np.testing.assert_array_equal(future.result()[0], x + 1)

    def test_narrow_numbers(self):
        model = model_of([helper.make_node("MatMul", ["x", "x"], ["y"])], [("x", FLOAT, (4, 4))], [("y", FLOAT, (4, 4))])
        x = np.round(rows(4, 4) * 4) / 4
        with openhpu.Session(openhpu.compile(model, cache="", precision="bf16")) as session:
            [info] = session.inputs
            bits = openhpu.to_bits(x, "bf16") if info.dtype == "bf16" else x
            expected = session.run(x)[0]
            for given in (bits, apart(bits), apart(x), x.astype(">f4"), x.tolist()):
                np.testing.assert_array_equal(session.run(given)[0], expected)
            raw = session.run(x, raw=True)[0]
            dtype = session.outputs[0].dtype
            np.testing.assert_array_equal(openhpu.from_bits(raw, dtype) if raw.dtype != np.float32 else raw, expected)


class States(unittest.TestCase):
    BOUNDS = {"past": (0, 200), "seq": (0, 5)}

    @classmethod
    def setUpClass(cls):
        cls.recipe = openhpu.compile(cache(), cache="", states={"present": "past"}, dims=cls.BOUNDS)
        cls.session = openhpu.Session(cls.recipe)

    @classmethod
    def tearDownClass(cls):
        cls.session.close()

    def test_threads_with_states_of_their_own(self):
        failures = []

        def work(seed):
            random = np.random.default_rng(seed)
            try:
                state, expected = self.session.state(past=seed), np.zeros((seed, 8), np.float32)
                for _ in range(30):
                    new = random.standard_normal((int(random.integers(0, 6)), 8)).astype(np.float32)
                    expected = np.concatenate([expected, new])
                    got = self.session.run({"new": new}, state=state)
                    np.testing.assert_allclose(got["sum"], expected.sum(dtype=np.float64), rtol=1e-4, atol=1e-4)
                    self.assertEqual(state.shapes, {"past": expected.shape})
                    if len(expected) > 60:
                        state.crop(past=7)
                        expected = expected[:7]
                np.testing.assert_array_equal(state.numpy("past"), expected)
            except BaseException as error:  # pylint: disable=broad-except
                failures.append(error)
        in_threads(work, range(4))
        self.assertEqual(failures, [])

    def test_a_state_that_several_threads_append_to_has_every_row_once(self):
        state, failures = self.session.state(past=0), []

        def work(seed):
            try:
                for step in range(20):
                    futures = [self.session.run_async({"new": np.full((1, 8), 100 * seed + step, np.float32)}, state=state)]
                    if step % 2:
                        self.session.run({"new": np.zeros((0, 8), np.float32)}, state=state)
                    futures[0].result()
            except BaseException as error:  # pylint: disable=broad-except
                failures.append(error)
        in_threads(work, range(4))
        self.assertEqual(failures, [])
        numbers = state.numpy("past")
        self.assertEqual(numbers.shape, (80, 8))
        self.assertEqual(sorted(numbers[:, 7]), sorted(100 * seed + step for seed in range(4) for step in range(20)))
        for seed in range(4):  # Of each thread in order.
            own = [number for number in numbers[:, 0] if number // 100 == seed]
            self.assertEqual(own, sorted(own))

    def test_every_kind_of_array_is_appended(self):
        state, expected = self.session.state(past=0), np.zeros((0, 8), np.float32)
        for name, kind in KINDS.items():
            with self.subTest(kind=name):
                new = rows(2, 8)
                expected = np.concatenate([expected, new])
                given = kind(new.copy())
                self.assertEqual(list(self.session.run({"new": given}, state=state)), ["sum"])
                np.testing.assert_array_equal(state.numpy("past"), expected)

    def test_what_is_refused_leaves_a_state_as_it_is(self):
        state = self.session.state(past=0)
        first = rows(3, 8)
        self.session.run(first, state=state)
        refused = [({"new": rows(6, 8)},), ({"new": rows(1, 7)},), ({"new": first, "past": first},), ({},), (first, first),
                   ({"new": first.astype(np.float64)},)]
        for given in refused:
            for run in (self.session.run, self.session.run_async):
                self.assertRaises(openhpu.InvalidArgumentError, run, *given, state=state)
            self.assertEqual(state.shapes, {"past": (3, 8)})
        for wrong in (7, "state", object(), [state]):
            self.assertRaisesRegex(openhpu.InvalidArgumentError, "takes a State", self.session.run, first, state=wrong)
        state.assign("past", rows(201, 8))
        for _ in range(2):
            with self.assertRaisesRegex(openhpu.InvalidArgumentError, "'past'.*200"):
                self.session.run(first, state=state)
        state.assign("past", first)
        self.session.run(first[:1], state=state)
        np.testing.assert_array_equal(state.numpy("past"), np.concatenate([first, first[:1]]))

    def test_a_run_that_fails_on_the_device(self):
        device = openhpu.Device()
        with openhpu.Session(self.recipe, device) as session:
            state, new = session.state(past=0), rows(2, 8)
            session.run(new, state=state)
            device.inject("uncorrected_ecc")
            with self.assertRaises(openhpu.DataLossError):
                session.run(new, state=state)
            state.reset()
            self.assertEqual(state.shapes, {"past": (0, 8)})
            session.run(new, state=state)
            np.testing.assert_array_equal(state.numpy("past"), new)

    def test_a_state_outlives_its_session_and_is_of_no_other(self):
        session = openhpu.Session(self.recipe)
        state, new = session.state(past=0), rows(2, 8)
        future = session.run_async(new, state=state)
        session.close()
        self.assertRaisesRegex(openhpu.FailedPreconditionError, "is closed", session.run, new, state=state)
        future.result()
        np.testing.assert_array_equal(state.numpy("past"), new)
        self.assertRaisesRegex(openhpu.InvalidArgumentError, "takes a State", self.session.run, new, state=state)
        del session
        self.assertRaisesRegex(openhpu.InvalidArgumentError, "session is gone", state.crop, past=1)

    def test_shapes_are_not_to_be_changed_from_outside(self):
        state = self.session.state(past=4)
        state.shapes["past"] = (1, 8)
        self.assertEqual(state.shapes, {"past": (4, 8)})

    def test_without_a_state_its_arrays_are_of_all_kinds(self):
        for name, kind in KINDS.items():
            past, new = rows(7, 8), rows(2, 8)
            with self.subTest(kind=name):
                got = self.session.run({"past": kind(past.copy()), "new": kind(new.copy())})
                self.assertEqual(list(got), ["present", "sum"])
                np.testing.assert_array_equal(got["present"], np.concatenate([past, new]))
        profile = self.session.profile(past, new, iters=3)
        self.assertGreater(profile["device_time_us"], 0)
        self.assertTrue(self.session.verify([past, new], [np.concatenate([past, new]), np.concatenate([past, new]).sum()])["passed"])
        self.assertTrue(self.session.verify([{"past": past, "new": new}], got)["passed"])
        self.assertGreater(self.session.profile({"new": new, "past": past}, iters=2)["device_time_us"], 0)
        self.assertFalse(self.session.verify([past, new], [np.concatenate([new, past]), np.float32(0)])["passed"])


if __name__ == "__main__":
    unittest.main()
