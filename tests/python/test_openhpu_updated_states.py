# SPDX-License-Identifier: Apache-2.0
"""States that scatters update in place, beside numpy, over several runs."""

import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from openhpu_cases import model_of, openhpu
from unusual_scatters import scatter_elements, scatter_nd, tensor_scatter
from updated_states import Updates

FLOAT, INT32, INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64
RANDOM = np.random.default_rng(17)


def rows(*shape):
    return (RANDOM.integers(-64, 64, shape) / 8).astype(np.float32)


def layout(recipe):
    return recipe.report["reports"]["layout"]


class Random(unittest.TestCase):
    """Several updates of several states, with readers of all that a state is in between."""

    def check(self, seed):
        random = np.random.default_rng(seed + 1000)
        dtype = (np.float32, np.float32, np.float16, np.int32)[random.integers(4)]
        target = ("gaudi1", "gaudi2", "gaudi3")[random.integers(3)]
        precision = ("f32", "f32", "bf16", "bf16" if target == "gaudi1" else "f16")[random.integers(4)]
        made = Updates(seed, dtype, exact=precision != "f32" or dtype != np.float32)
        recipe = openhpu.compile(made.model(), cache="", states=made.states, dims=made.dims, precision=precision,
                                 opt_level=int(random.integers(4)), reports="layout", target=target)
        sizes = made.sizes()
        states = {name: made.array(name, sizes) for name in made.states.values()}
        with openhpu.Session(recipe) as session:
            state = session.state(**sizes)
            for name, value in states.items():
                state.assign(name, value)
            for _ in range(3):
                given = {name: made.array(name, sizes) for name in made.inputs if name not in states}
                wanted = made.compute({**given, **states})
                for name, value in session.run(given, state=state).items():
                    np.testing.assert_array_equal(value, wanted[name], name)
                states = {past: wanted[present] for present, past in made.states.items()}
                for name, value in states.items():
                    np.testing.assert_array_equal(state.numpy(name), value, name)
        return layout(recipe).count("is updated in place"), len(states)

    def test_models(self):
        in_place, states = 0, 0
        for seed in range(60):
            with self.subTest(seed=seed):
                found = self.check(seed)
                in_place, states = in_place + found[0], states + found[1]
        # Others are permuted on the way, or updated with all of what they were.
        self.assertGreater(in_place, 0.9 * states)


class Places(unittest.TestCase):
    """Where positions point to."""

    def check(self, nodes, inputs, shape, values, expected, in_place=True, **options):
        model = model_of(nodes, [("past", FLOAT, shape), *inputs], [("present", FLOAT, shape)])
        model.opset_import[0].version = options.pop("opset", 18)
        recipe = openhpu.compile(model, cache="", states={"present": "past"}, reports="layout", **options)
        self.assertEqual("past is updated in place" in layout(recipe), in_place, layout(recipe))
        past = rows(*values.pop("shape"))
        with openhpu.Session(recipe) as session:
            state = session.state(**{name: size for name, size in zip(shape, past.shape) if isinstance(name, str)})
            state.assign("past", past)
            for _ in range(2):
                session.run(values, state=state)
                past = expected(past)
                np.testing.assert_array_equal(state.numpy("past"), past)
            # The same without a state of the caller's.
            [present] = session.run({"past": past, **values}).values()
            np.testing.assert_array_equal(present, expected(past))

    def test_from_the_end_outside_and_twice(self):
        for kind, number in ((np.int32, INT32), (np.int64, INT64)):
            for at in ([3], [-1], [-7, 6], [0, 0, 0], [7], [-8], [2, 9, 2], [2**31 - 1, -2**31]):
                update = rows(2, len(at), 4)
                indices = np.broadcast_to(np.array(at, kind)[:, None], update.shape).copy()
                with self.subTest(at=at, kind=kind):
                    self.check([helper.make_node("ScatterElements", ["past", "i", "u"], ["present"], axis=1)],
                               [("i", number, update.shape), ("u", FLOAT, update.shape)], (2, 7, 4),
                               {"shape": (2, 7, 4), "i": indices, "u": update},
                               lambda past, i=indices, u=update: scatter_elements(past, i, u, 1))

    def test_no_updates(self):
        shape = ("b", "cap", 4)
        for seq in (0, 2):
            update, indices = rows(seq, 4), np.arange(2 * seq).reshape(seq, 2) % 2
            with self.subTest(seq=seq):
                self.check([helper.make_node("ScatterND", ["past", "i", "u"], ["present"])],
                           [("i", INT64, ("seq", 2)), ("u", FLOAT, ("seq", 4))], shape,
                           {"shape": (3, 5, 4), "i": indices, "u": update},
                           lambda past, i=indices, u=update: scatter_nd(past, i, u),
                           dims={"b": (1, 4), "cap": (2, 9), "seq": (0, 3)})

    def test_a_cache_that_is_a_ring(self):
        update, start = rows(2, 3, 2, 4), np.array([6, 2])
        for wraps in (False, True):
            with self.subTest(wraps=wraps):
                self.check([helper.make_node("TensorScatter", ["past", "u", "at"], ["present"],
                                             mode="circular" if wraps else "linear")],
                           [("u", FLOAT, update.shape), ("at", INT64, (2,))], (2, 3, 7, 4),
                           {"shape": (2, 3, 7, 4), "u": update, "at": start},
                           lambda past, w=wraps: tensor_scatter(past, update, start, 2, w), opset=24)

    def test_the_update_is_what_was_there(self):
        model = model_of([helper.make_node("Gather", ["past", "from"], ["r"], axis=0),
                          helper.make_node("ScatterND", ["past", "i", "r"], ["present"])],
                         [("past", FLOAT, (5, 8)), ("from", INT64, (3,)), ("i", INT64, (3, 1))],
                         [("present", FLOAT, (5, 8))])
        recipe = openhpu.compile(model, cache="", states={"present": "past"}, reports="layout")
        self.assertIn("past is updated in place", layout(recipe))
        with openhpu.Session(recipe) as session:
            state, past = session.state(), rows(5, 8)
            state.assign("past", past)
            for _ in range(3):
                session.run({"from": np.array([0, 1, 2]), "i": np.array([[1], [2], [3]])}, state=state)
                past[1:4] = past[0:3].copy()
                np.testing.assert_array_equal(state.numpy("past"), past)

    def test_rows_move_by_one(self):
        """Through views alone: what is read lies where is written."""
        model = model_of([helper.make_node("Slice", ["past", "zero", "three", "zero"], ["r"]),
                          helper.make_node("ScatterND", ["past", "i", "r"], ["present"]),
                          helper.make_node("Slice", ["past", "zero", "three", "zero"], ["old"]),
                          helper.make_node("Add", ["present", "past"], ["sum"])],
                         [("past", FLOAT, (5, 8)), ("i", INT64, (3, 1))],
                         [("present", FLOAT, (5, 8)), ("old", FLOAT, (3, 8)), ("sum", FLOAT, (5, 8))])
        for name, value in (("zero", 0), ("three", 3)):
            model.graph.initializer.append(numpy_helper.from_array(np.array([value]), name))
        for level in range(4):
            recipe = openhpu.compile(model, cache="", states={"present": "past"}, reports="layout", opt_level=level)
            self.assertIn("past is updated in place", layout(recipe))
            with self.subTest(level=level), openhpu.Session(recipe) as session:
                state, past = session.state(), rows(5, 8)
                state.assign("past", past)
                for _ in range(3):
                    got = session.run({"i": np.array([[1], [2], [3]])}, state=state)
                    before = past.copy()
                    past[1:4] = before[0:3]
                    np.testing.assert_array_equal(got["old"], before[:3])
                    np.testing.assert_array_equal(got["sum"], before + past)
                    np.testing.assert_array_equal(state.numpy("past"), past)


if __name__ == "__main__":
    unittest.main()
