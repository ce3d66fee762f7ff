# SPDX-License-Identifier: Apache-2.0
"""States: outputs that are inputs changed in place, beside numpy, over several runs."""

import unittest

import numpy as np
from onnx import helper, numpy_helper, TensorProto

from openhpu_cases import model_of, openhpu

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
RANDOM = np.random.default_rng(7)


def rows(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def appending(axis=1, shape=("batch", "past", 8), new=("batch", "seq", 8)):
    """A cache that grows along an axis, and what somebody reads of all of it."""
    whole = list(shape)
    whole[axis] = "all"
    return model_of([helper.make_node("Concat", ["past", "new"], ["present"], axis=axis),
                     helper.make_node("ReduceSum", ["present"], ["sum"], keepdims=0)],
                    [("past", FLOAT, shape), ("new", FLOAT, new)], [("sum", FLOAT, ()), ("present", FLOAT, whole)])


class Grows(unittest.TestCase):
    """Caches that a concatenation appends to."""

    def check(self, axis, shape, new, sizes):
        bounds = {"batch": (1, 4), "past": (0, 12), "seq": (0, 5)}
        recipe = openhpu.compile(appending(axis, shape, new), cache="", states={"present": "past"}, reports="layout",
                                 dims={name: bounds[name] for name in {*shape, *new} if name in bounds})
        self.assertEqual(recipe.states, {"past": "present"})
        self.assertNotIn("copied to its place", recipe.report["reports"]["layout"])
        with openhpu.Session(recipe) as session:
            state = session.state(past=0, **({"batch": sizes[0]} if "batch" in shape else {}))
            expected = np.zeros([{"batch": sizes[0], "past": 0}.get(dim, dim) for dim in shape], np.float32)
            for seq in sizes[1:]:
                part = rows(*[{"batch": sizes[0], "seq": seq}.get(dim, dim) for dim in new])
                expected = np.concatenate([expected, part], axis)
                total = session.run({"new": part}, state=state)
                self.assertEqual(list(total), ["sum"])
                np.testing.assert_allclose(total["sum"], expected.sum(), rtol=1e-5, atol=1e-5)
                self.assertEqual(state.shapes["past"], expected.shape)
                np.testing.assert_array_equal(state.numpy("past"), expected)
            self.assertRaisesRegex(openhpu.InvalidArgumentError, "past", session.run,
                                   {"new": rows(*[{"batch": sizes[0], "seq": 5}.get(dim, dim) for dim in new])}, state=state)
            np.testing.assert_array_equal(state.numpy("past"), expected)
            state.reset()
            self.assertEqual(state.numpy("past").size, 0)

    def test_along_each_axis(self):
        for axis in range(3):
            shape, new = ["batch", 3, 8], ["batch", 3, 8]
            if axis == 0:
                shape, new = [2, 3, 8], [2, 3, 8]
            shape[axis], new[axis] = "past", "seq"
            with self.subTest(axis=axis):
                self.check(axis, tuple(shape), tuple(new), (2, 3, 1, 0, 5, 4))

    def test_a_state_is_full_at_its_bound(self):
        recipe = openhpu.compile(appending(), cache="", states={"present": "past"},
                                 dims={"batch": 2, "past": (0, 6), "seq": (1, 2)})
        with openhpu.Session(recipe) as session:
            state = session.state(past=0)
            self.assertEqual(state.nbytes, 2 * 8 * 8 * 4)
            parts = [rows(2, 2, 8) for _ in range(4)]
            for part in parts:
                session.run({"new": part}, state=state)
            np.testing.assert_array_equal(state.numpy("past"), np.concatenate(parts, 1))
            with self.assertRaisesRegex(openhpu.InvalidArgumentError, "'past'.*6"):
                session.run({"new": parts[0]}, state=state)

    def test_without_a_state_of_the_caller_it_is_an_input_and_an_output(self):
        recipe = openhpu.compile(appending(), cache="", states={"present": "past"},
                                 dims={"batch": (1, 4), "past": (0, 9), "seq": (1, 3)})
        past, new = rows(3, 7, 8), rows(3, 2, 8)
        with openhpu.Session(recipe) as session:
            outputs = session.run({"past": past, "new": new})
            np.testing.assert_array_equal(outputs["present"], np.concatenate([past, new], 1))
            state = session.state(batch=3, past=0)
            state.assign("past", past)
            session.run({"new": new}, state=state)
            np.testing.assert_array_equal(state.numpy("past"), outputs["present"])
            self.assertTrue(session.verify({"past": past, "new": new}, outputs)["passed"])

    def test_fixed_sizes(self):
        recipe = openhpu.compile(appending(), cache="", states={"present": "past"}, dims={"batch": 2, "past": 5, "seq": 1})
        past, new = rows(2, 5, 8), rows(2, 1, 8)
        with openhpu.Session(recipe) as session:
            state = session.state()
            state.assign("past", past)
            session.run({"new": new}, state=state)
            np.testing.assert_array_equal(state.numpy("past"), np.concatenate([past, new], 1))

    def test_states_are_as_narrow_as_what_is_computed(self):
        model = model_of([helper.make_node("MatMul", ["x", "w"], ["new"]),
                          helper.make_node("Concat", ["past", "new"], ["present"], axis=0),
                          helper.make_node("MatMul", ["present", "w"], ["y"])],
                         [("past", FLOAT, ("past", 16)), ("x", FLOAT, (1, 16))],
                         [("y", FLOAT, ("all", 16)), ("present", FLOAT, ("all", 16))])
        model.graph.initializer.append(numpy_helper.from_array(rows(16, 16), "w"))
        recipe = openhpu.compile(model, cache="", states={"present": "past"}, dims={"past": (0, 9)}, precision="bf16")
        self.assertEqual([info.dtype for info in recipe.inputs], ["bf16", "f32"])
        with openhpu.Session(recipe) as session:
            state = session.state(past=0)
            self.assertEqual(state.nbytes, 10 * 16 * 2)
            for count in range(1, 11):
                self.assertEqual(session.run({"x": rows(1, 16)}, state=state)["y"].shape, (count, 16))
            self.assertEqual(state.numpy("past").shape, (10, 16))


class Changes(unittest.TestCase):
    """States that are computed anew."""

    def steps(self, model, states, first, inputs, count, step):
        """`count` runs from the states `first`, beside step(states, inputs) -> (states, outputs) of numpy."""
        recipe = openhpu.compile(model, cache="", states=states)
        with openhpu.Session(recipe) as session:
            state = session.state()
            for name, value in first.items():
                state.assign(name, value)
            expected = dict(first)
            for _ in range(count):
                given = {name: rows(*shape) for name, shape in inputs.items()}
                expected, wanted = step(expected, given)
                actual = session.run(given, state=state)
                self.assertEqual(set(actual), set(wanted))
                for name, value in wanted.items():
                    np.testing.assert_allclose(actual[name], value, rtol=1e-5, atol=1e-5)
                for name, value in expected.items():
                    np.testing.assert_allclose(state.numpy(name), value, rtol=1e-5, atol=1e-5)

    def test_what_is_read_after_the_new_state_is_known_is_the_old_one(self):
        model = model_of([helper.make_node("Add", ["h", "x"], ["t"]), helper.make_node("Tanh", ["t"], ["g"]),
                          helper.make_node("MatMul", ["g", "h"], ["m"]), helper.make_node("Sub", ["m", "h"], ["y"])],
                         [("h", FLOAT, (6, 6)), ("x", FLOAT, (6, 6))], [("g", FLOAT, (6, 6)), ("y", FLOAT, (6, 6))])

        def step(states, given):
            g = np.tanh(states["h"] + given["x"])
            return {"h": g}, {"y": g @ states["h"] - states["h"]}
        self.steps(model, {"g": "h"}, {"h": rows(6, 6)}, {"x": (6, 6)}, 4, step)

    def test_a_window_slides(self):
        model = model_of([helper.make_node("Slice", ["past", "one", "end", "axis"], ["kept"]),
                          helper.make_node("Concat", ["kept", "x"], ["present"], axis=1),
                          helper.make_node("Relu", ["present"], ["y"])],
                         [("past", FLOAT, (2, 5, 4)), ("x", FLOAT, (2, 1, 4))],
                         [("y", FLOAT, (2, 5, 4)), ("present", FLOAT, (2, 5, 4))])
        for name, value in (("one", 1), ("end", 5), ("axis", 1)):
            model.graph.initializer.append(numpy_helper.from_array(np.array([value], np.int64), name))

        def step(states, given):
            present = np.concatenate([states["past"][:, 1:], given["x"]], 1)
            return {"past": present}, {"y": np.maximum(present, 0)}
        self.steps(model, {"present": "past"}, {"past": rows(2, 5, 4)}, {"x": (2, 1, 4)}, 7, step)

    def test_what_is_put_in_front(self):
        model = appending(1, (2, "past", 8), (2, "seq", 8))
        model.graph.node[0].input[:] = ["new", "past"]
        recipe = openhpu.compile(model, cache="", states={"present": "past"}, dims={"past": (0, 9), "seq": (1, 3)})
        with openhpu.Session(recipe) as session:
            state, expected = session.state(past=0), np.zeros((2, 0, 8), np.float32)
            for seq in (1, 3, 2, 1):
                new = rows(2, seq, 8)
                expected = np.concatenate([new, expected], 1)
                session.run({"new": new}, state=state)
                np.testing.assert_array_equal(state.numpy("past"), expected)

    def test_states_change_places(self):
        model = model_of([helper.make_node("Identity", ["a"], ["b2"]), helper.make_node("Identity", ["b"], ["a2"]),
                          helper.make_node("Add", ["a", "x"], ["y"])],
                         [("a", FLOAT, (3, 4)), ("b", FLOAT, (3, 4)), ("x", FLOAT, (3, 4))],
                         [("a2", FLOAT, (3, 4)), ("b2", FLOAT, (3, 4)), ("y", FLOAT, (3, 4))])
        self.steps(model, {"a2": "a", "b2": "b"}, {"a": rows(3, 4), "b": rows(3, 4)}, {"x": (3, 4)}, 3,
                   lambda states, given: ({"a": states["b"], "b": states["a"]}, {"y": states["a"] + given["x"]}))

    def test_a_state_may_stay_as_it_is_and_be_an_output_elsewhere(self):
        model = model_of([helper.make_node("Identity", ["a"], ["a2"]), helper.make_node("Add", ["b", "x"], ["b2"]),
                          helper.make_node("Identity", ["b2"], ["y"])],
                         [("a", FLOAT, (3, 4)), ("b", FLOAT, (3, 4)), ("x", FLOAT, (3, 4))],
                         [("a2", FLOAT, (3, 4)), ("b2", FLOAT, (3, 4)), ("y", FLOAT, (3, 4))])
        self.steps(model, {"*2": "*"}, {"a": rows(3, 4), "b": rows(3, 4)}, {"x": (3, 4)}, 3,
                   lambda states, given: ({"a": states["a"], "b": states["b"] + given["x"]},
                                          {"y": states["b"] + given["x"]}))

    def test_a_counter_of_no_dimensions(self):
        model = model_of([helper.make_node("Add", ["n", "x"], ["m"]), helper.make_node("Mul", ["n", "n"], ["y"])],
                         [("n", FLOAT, ()), ("x", FLOAT, ())], [("m", FLOAT, ()), ("y", FLOAT, ())])
        self.steps(model, {"m": "n"}, {"n": np.float32(2)}, {"x": ()}, 4,
                   lambda states, given: ({"n": states["n"] + given["x"]}, {"y": states["n"] ** 2}))


    def test_other_outputs_may_be_the_new_state_or_the_old_one(self):
        for first in (False, True):
            outputs = [("present", FLOAT, (2, 6, 4)), ("copy", FLOAT, (2, 6, 4)), ("old", FLOAT, (2, 5, 4)),
                       ("row", FLOAT, (2, 20))]
            model = model_of([helper.make_node("Concat", ["past", "x"], ["present"], axis=1),
                              helper.make_node("Identity", ["present"], ["copy"]),
                              helper.make_node("Identity", ["past"], ["old"]),
                              helper.make_node("Flatten", ["past"], ["row"])],
                             [("past", FLOAT, (2, 5, 4)), ("x", FLOAT, (2, 1, 4))], outputs[::-1] if first else outputs)
            past, x = rows(2, 5, 4), rows(2, 1, 4)
            recipe = openhpu.compile(model, cache="", states={"present": "past"})
            with self.subTest(first=first), openhpu.Session(recipe) as session:
                state = session.state()
                state.assign("past", past)
                got = session.run({"x": x}, state=state)
                np.testing.assert_array_equal(got["copy"], np.concatenate([past, x], 1))
                np.testing.assert_array_equal(got["old"], past)
                np.testing.assert_array_equal(got["row"], past.reshape(2, 20))
                np.testing.assert_array_equal(state.numpy("past"), got["copy"])
                # The state has grown, and the recipe's sizes are fixed.
                self.assertRaisesRegex(openhpu.InvalidArgumentError, "'past' is 2x6x4 now, and the recipe takes 2x5x4",
                                       session.run, {"x": x}, state=state)

    def test_the_row_that_leaves_a_window_is_an_output(self):
        model = model_of([helper.make_node("Slice", ["past", "one", "end", "axis"], ["kept"]),
                          helper.make_node("Slice", ["past", "zero", "one", "axis"], ["gone"]),
                          helper.make_node("Concat", ["kept", "x"], ["present"], axis=1)],
                         [("past", FLOAT, (2, 5, 4)), ("x", FLOAT, (2, 1, 4))],
                         [("gone", FLOAT, (2, 1, 4)), ("present", FLOAT, (2, 5, 4))])
        for name, value in (("zero", 0), ("one", 1), ("end", 5), ("axis", 1)):
            model.graph.initializer.append(numpy_helper.from_array(np.array([value], np.int64), name))
        self.steps(model, {"present": "past"}, {"past": rows(2, 5, 4)}, {"x": (2, 1, 4)}, 7,
                   lambda states, given: ({"past": np.concatenate([states["past"][:, 1:], given["x"]], 1)},
                                          {"gone": states["past"][:, :1]}))

    def test_casts_of_the_model_stay(self):
        model = model_of([helper.make_node("Cast", ["h"], ["f"], to=FLOAT), helper.make_node("Add", ["f", "x"], ["s"]),
                          helper.make_node("Cast", ["s"], ["h2"], to=INT64)],
                         [("h", INT64, (3,)), ("x", FLOAT, (3,))], [("h2", INT64, (3,))])
        for precision in ("f32", "bf16"):
            recipe = openhpu.compile(model, cache="", states={"h2": "h"}, precision=precision)
            self.assertEqual(recipe.inputs[0].dtype, "i64")
            with self.subTest(precision=precision), openhpu.Session(recipe) as session:
                state = session.state()
                np.testing.assert_array_equal(state.numpy("h"), [0, 0, 0])
                state.assign("h", np.array([5, 7, -3]))
                session.run({"x": np.full(3, 0.75, np.float32)}, state=state)
                session.run({"x": np.full(3, 0.75, np.float32)}, state=state)
                np.testing.assert_array_equal(state.numpy("h"), [5, 7, -1])
                state.reset()
                np.testing.assert_array_equal(state.numpy("h"), [0, 0, 0])


class Uses(unittest.TestCase):
    """What is done with states beside runs."""

    BOUNDS = {"batch": (1, 4), "past": (0, 40), "seq": (0, 5)}

    def test_cropped(self):
        recipe = openhpu.compile(appending(), cache="", states={"present": "past"}, dims=self.BOUNDS)
        with openhpu.Session(recipe) as session:
            state = session.state(batch=3, past=0)
            one, two, three = rows(3, 5, 8), rows(3, 4, 8), rows(3, 2, 8)
            session.run({"new": one}, state=state)
            session.run({"new": two}, state=state)
            state.crop(past=6)
            self.assertEqual(state.shapes, {"past": (3, 6, 8)})
            np.testing.assert_array_equal(state.numpy("past"), np.concatenate([one, two], 1)[:, :6])
            total = session.run({"new": three}, state=state)["sum"]
            expected = np.concatenate([one, two[:, :1], three], 1)
            np.testing.assert_array_equal(state.numpy("past"), expected)
            np.testing.assert_allclose(total, expected.sum(), rtol=1e-5, atol=1e-5)
            state.crop(past=8)  # As it is.
            self.assertRaisesRegex(openhpu.InvalidArgumentError, "crop: the state 'past' is 3x8x8 now, which cannot become "
                                   "3x9x8", state.crop, past=9)
            self.assertRaisesRegex(openhpu.InvalidArgumentError, "pst", state.crop, pst=3)
            self.assertRaisesRegex(openhpu.InvalidArgumentError, "'past'", state.crop, past=41)
            np.testing.assert_array_equal(state.numpy("past"), expected)
            state.crop(past=0, batch=2)
            self.assertEqual(state.shapes, {"past": (2, 0, 8)})
            state.assign("past", rows(2, 40, 8))
            session.run({"new": rows(2, 5, 8)}, state=state)
            state.crop(past=45)  # As it is, though no launch can say 45.
            state.crop(past=43)
            self.assertEqual(state.shapes, {"past": (2, 43, 8)})
            state.crop(past=40)
            self.assertEqual(state.shapes, {"past": (2, 40, 8)})
            state.reset()
            state.crop(past=0, batch=2)
            state.reset()
            self.assertEqual(state.shapes, {"past": (3, 0, 8)})

    def test_rows_are_copied_from_and_to_their_places(self):
        # Of three axes, each may be the one that has room; few rows, all of them, none.
        for axis, shape in ((0, (3, 9, 700)), (1, (3, 9, 700)), (2, (3, 9, 700)), (1, (40, 40, 5))):
            free, new = list(shape), list(shape)
            free[axis], new[axis] = "past", "seq"
            recipe = openhpu.compile(appending(axis, free, new), cache="", states={"present": "past"},
                                     dims={"past": (0, 40), "seq": (0, 3)})
            with openhpu.Session(recipe) as session:
                state = session.state(past=0)
                for size in (7, 0, 1, 40, 43, 12):
                    given = list(shape)
                    given[axis] = size
                    value = rows(*given)
                    with self.subTest(axis=axis, size=size):
                        if size <= 40:
                            state.assign("past", value)
                            np.testing.assert_array_equal(state.numpy("past"), value)
                            more = list(shape)
                            more[axis] = 2
                            # What lies behind an axis that is cut is not overwritten: it is read again.
                            got = session.run({"past": value, "new": np.ones(more, np.float32)})
                            np.testing.assert_array_equal(got["present"], np.concatenate([value, np.ones(more)], axis))
                        else:
                            state.assign("past", value)
                            self.assertRaises(openhpu.InvalidArgumentError, session.run,
                                              {"new": np.ones([2 if d == axis else n for d, n in enumerate(shape)],
                                                              np.float32)}, state=state)

    def test_launches_on_buffers(self):
        recipe = openhpu.compile(appending(), cache="", states={"present": "past"}, dims=self.BOUNDS)
        with openhpu.Session(recipe) as session:
            state, total = session.state(batch=2, past=0), session.device.allocate((), "f32")
            parts = [rows(2, seq, 8) for seq in (3, 1, 2)]
            for part in parts:
                new = session.device.allocate(part.shape, "f32")
                new.write(part)
                result = session.launch({"new": new}, [total], state=state).result()
                self.assertEqual(result, [total])
            expected = np.concatenate(parts, 1)
            np.testing.assert_array_equal(state.numpy("past"), expected)
            np.testing.assert_allclose(total.numpy(), expected.sum(), rtol=1e-5, atol=1e-5)
            self.assertRaisesRegex(openhpu.InvalidArgumentError, "2 inputs|1 inputs", session.launch, [new, new], [total],
                                   state=state)
            with openhpu.Session(recipe) as other:
                self.assertRaisesRegex(openhpu.InvalidArgumentError, "this session's", other.launch, {"new": new}, [total],
                                       state=state)

    def test_a_narrow_state_takes_the_models_own_type(self):
        model = model_of([helper.make_node("MatMul", ["x", "w"], ["new"]),
                          helper.make_node("Concat", ["past", "new"], ["present"], axis=0),
                          helper.make_node("MatMul", ["present", "w"], ["y"])],
                         [("past", FLOAT, ("past", 16)), ("x", FLOAT, (1, 16))],
                         [("y", FLOAT, ("all", 16)), ("present", FLOAT, ("all", 16))])
        model.graph.initializer.append(numpy_helper.from_array(np.eye(16, dtype=np.float32), "w"))
        past = np.round(rows(3, 16) * 4) / 4
        for precision in ("bf16", "f16"):
            recipe = openhpu.compile(model, cache="", states={"present": "past"}, dims={"past": (0, 9)}, precision=precision)
            self.assertEqual(recipe.inputs[0].dtype, precision)
            with self.subTest(precision=precision), openhpu.Session(recipe) as session:
                state = session.state(past=0)
                state.assign("past", past)
                np.testing.assert_array_equal(state.numpy("past").astype(np.float32), past)
                got = session.run({"x": past[:1], "past": past})
                np.testing.assert_array_equal(got["present"].astype(np.float32), np.concatenate([past, past[:1]]))


class Refusals(unittest.TestCase):
    def compile_error(self, states, dims=None, model=None):
        with self.assertRaises(openhpu.InvalidArgumentError) as caught:
            openhpu.compile(model or appending(), cache="", states=states,
                            dims=dims or {"batch": 1, "past": (0, 4), "seq": (1, 2)})
        return str(caught.exception)

    def test_what_cannot_be_a_state(self):
        for states, words in (({"presnt": "past"}, r"no output 'presnt'.*did you mean 'present'"),
                              ({"present": "pst"}, r"no input 'pst'.*did you mean 'past'"),
                              ({"sum": "past"}, "cannot be one tensor"),
                              ({"present": "past", "*t": "*t"}, "no input|another state"),
                              ({"pres*": "past"}, r"'\*' in one name"),
                              ({"pr*e*": "p*s*"}, r"'\*' in one name, or several")):
            with self.subTest(states=states):
                self.assertRegex(self.compile_error(states), words)

    def test_states_are_names(self):
        for states in ({"present": 5}, ["present"], "present=past"):
            self.assertRaisesRegex(TypeError, "states is a dict", openhpu.compile, appending(), states=states)

    def test_a_state_needs_bounds(self):
        self.assertRegex(self.compile_error({"present": "past"}, {"batch": (1, 2)}), r"'present=past' of states: .*no bound for the size past.*give bounds to 'past' and 'seq' \(dims\)")

    def test_a_state_is_of_its_session(self):
        recipe = openhpu.compile(appending(), cache="", states={"present": "past"},
                                 dims={"batch": (1, 2), "past": (0, 4), "seq": (1, 2)})
        with openhpu.Session(recipe) as one, openhpu.Session(recipe) as other:
            state = one.state(batch=1, past=0)
            self.assertRaisesRegex(openhpu.InvalidArgumentError, "this session's", other.run, {"new": rows(1, 1, 8)},
                                   state=state)
            self.assertRaisesRegex(openhpu.InvalidArgumentError, "give sizes of.*batch", one.state, past=0)
            self.assertRaisesRegex(openhpu.InvalidArgumentError, "room for", state.assign, "past", rows(1, 7, 8))
            self.assertRaisesRegex(openhpu.InvalidArgumentError, "no state 'new'", state.numpy, "new")
            self.assertRaisesRegex(openhpu.InvalidArgumentError, "nput", one.run, {"new": rows(1, 1, 8), "past": rows(1, 1, 8)},
                                   state=state)
        plain = openhpu.compile(appending(), cache="", dims={"batch": 1, "past": 2, "seq": 1})
        with openhpu.Session(plain) as session:
            self.assertRaisesRegex(openhpu.InvalidArgumentError, "has no states", session.state)


if __name__ == "__main__":
    unittest.main()
