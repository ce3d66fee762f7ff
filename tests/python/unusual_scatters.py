# SPDX-License-Identifier: Apache-2.0
"""Unusual models: results that are stored where data says, and the largest elements."""

import numpy as np

from unusual_case import Case, f32, i64, node, noise

ROWS = noise(9, 70)
CACHE = noise(2, 3, 12, 16)
COMBINE = {"none": lambda old, new: new, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def scatter_nd(data, indices, updates, reduction="none"):
    """In the order of the tuples; those that are outside are left out."""
    result = data.copy()
    for row in np.ndindex(indices.shape[:-1]):
        at = [i + n if i < 0 else i for i, n in zip(indices[row], data.shape)]
        if all(0 <= i < n for i, n in zip(at, data.shape)):
            result[tuple(at)] = COMBINE[reduction](result[tuple(at)], updates[row]).astype(data.dtype)
    return result


def scatter_elements(data, indices, updates, axis, reduction="none"):
    result = data.copy()
    for at in np.ndindex(indices.shape):
        to = list(at)
        to[axis] = indices[at] + data.shape[axis] if indices[at] < 0 else indices[at]
        if 0 <= to[axis] < data.shape[axis]:
            result[tuple(to)] = COMBINE[reduction](result[tuple(to)], updates[at]).astype(data.dtype)
    return result


def tensor_scatter(cache, update, starts, axis, wraps):
    result = cache.copy()
    for batch, start in enumerate(starts):
        for k in range(update.shape[axis]):
            at = (start + k) % cache.shape[axis] if wraps else start + k
            if 0 <= at < cache.shape[axis]:
                to, what = [slice(None)] * cache.ndim, [slice(None)] * cache.ndim
                to[0], to[axis], what[0], what[axis] = batch, at, batch, k
                result[tuple(to)] = update[tuple(what)]
    return result


def top(x, count, axis, largest=True):
    """Values and positions; of equal elements the first one comes first."""
    at = np.argsort(-x.astype(np.float64) if largest else x.astype(np.float64), axis, "stable")
    at = np.take(at, range(count), axis)
    return np.take_along_axis(x, at, axis), at


def _nd(name, data, indices, updates, reduction="none"):
    """Of an input, which has to be copied; and of a result that nothing else reads, in its place."""
    more = {} if reduction == "none" else {"reduction": reduction}
    doubled = data + data
    return Case(name, [node("ScatterND", ["a", "i", "u"], ["b"], **more), node("Add", ["a", "a"], ["d"]),
                       node("ScatterND", ["d", "i", "u"], ["e"], **more), node("Neg", ["e"], ["c"])],
                {"a": data, "i": indices, "u": updates},
                [("b", scatter_nd(data, indices, updates, reduction)),
                 ("c", -scatter_nd(doubled, indices, updates, reduction))], opset=18)


MEETING = np.array([[4], [-9], [4], [2], [0], [4]])
PAIRS = np.array([[[0, 1], [2, -1]], [[-3, 0], [0, 1]]])
ELEMENTS = np.array([[0, -1, 2, 1], [0, 3, 2, -5]])
STARTS = np.array([3, 10])

SCATTERS = [_nd(f"scatter_nd_{mode}", ROWS, MEETING, noise(6, 70), mode) for mode in COMBINE] + [
    _nd(f"scatter_nd_of_pairs_{mode}", noise(3, 4, 5), PAIRS, noise(2, 2, 5), mode) for mode in ("none", "max")] + [
    _nd("scatter_nd_of_elements", noise(3, 4), np.array([[0, 0], [2, 3], [0, 0]]), noise(3)),
    _nd("scatter_nd_outside", ROWS, np.array([[9], [8], [-10], [10 ** 12]]), noise(4, 70)),
    _nd("scatter_nd_of_integers", np.arange(12).reshape(3, 4), np.array([[1], [1]]), np.arange(8).reshape(2, 4), "add"),
    Case("scatter_of_itself", [node("Relu", ["a"], ["r"]), node("ScatterND", ["r", "i", "r"], ["b"])],
         {"a": noise(4, 8), "i": np.array([[3], [2], [1], [0]])},
         [("b", np.maximum(noise(4, 8), 0)[::-1])]),
    Case("scatter_of_what_is_read_later", [node("Relu", ["a"], ["r"]), node("ScatterND", ["r", "i", "u"], ["s"]),
                                           node("Sub", ["s", "r"], ["b"])],
         {"a": ROWS, "i": MEETING, "u": noise(6, 70)},
         [("b", scatter_nd(np.maximum(ROWS, 0), MEETING, noise(6, 70)) - np.maximum(ROWS, 0))]),
    Case("scatter_through_views", [node("Transpose", ["a"], ["t"], perm=[1, 0]), node("Exp", ["t"], ["x"]),
                                   node("Transpose", ["x"], ["r"], perm=[1, 0]), node("ScatterND", ["r", "i", "u"], ["b"])],
         {"a": ROWS, "i": MEETING, "u": noise(6, 70)}, [("b", scatter_nd(np.exp(ROWS), MEETING, noise(6, 70)))]),
    Case("scatter_into_constants", [node("ScatterND", ["z", "i", "u"], ["b"])], {"i": MEETING, "u": noise(6, 70)},
         [("b", scatter_nd(np.zeros_like(ROWS), MEETING, noise(6, 70)))], {"z": np.zeros_like(ROWS)}),
    Case("scatter_elements_add", [node("ScatterElements", ["a", "i", "u"], ["b"], axis=0, reduction="add")],
         {"a": noise(5, 6), "i": ELEMENTS, "u": noise(2, 4)},
         [("b", scatter_elements(noise(5, 6), ELEMENTS, noise(2, 4), 0, "add"))], opset=16),
    Case("scatter_elements_of_a_part", [node("ScatterElements", ["a", "i", "u"], ["b"], axis=-1)],
         {"a": noise(5, 6), "i": ELEMENTS, "u": noise(2, 4)},
         [("b", scatter_elements(noise(5, 6), ELEMENTS, noise(2, 4), 1))]),
    Case("scatter_of_opset_9", [node("Scatter", ["a", "i", "u"], ["b"], axis=1)],
         {"a": noise(5, 6), "i": ELEMENTS, "u": noise(2, 4)},
         [("b", scatter_elements(noise(5, 6), ELEMENTS, noise(2, 4), 1))], opset=9),
    Case("scatter_with_an_unknown_reduction", [node("ScatterND", ["a", "i", "u"], ["b"], reduction="xor")],
         {"a": ROWS, "i": MEETING, "u": noise(6, 70)}, [("b", ROWS)], opset=18, refusal="unknown reduction 'xor'"),
    Case("scatter_of_a_known_index_outside", [node("ScatterND", ["a", "i", "u"], ["b"])], {"a": ROWS, "u": noise(1, 70)},
         [("b", ROWS)], {"i": np.array([[9]])}, refusal="ScatterND.*index 9"),
]

CACHES = [
    Case("cache_update", [node("TensorScatter", ["a", "u", "s"], ["b"])], {"a": CACHE, "u": noise(2, 3, 5, 16), "s": STARTS},
         [("b", tensor_scatter(CACHE, noise(2, 3, 5, 16), STARTS, 2, False))], opset=24),
    Case("cache_update_circular", [node("TensorScatter", ["a", "u", "s"], ["b"], mode="circular")],
         {"a": CACHE, "u": noise(2, 3, 5, 16), "s": STARTS},
         [("b", tensor_scatter(CACHE, noise(2, 3, 5, 16), STARTS, 2, True))], opset=24),
    Case("cache_update_from_the_start", [node("TensorScatter", ["a", "u"], ["b"], axis=1)],
         {"a": CACHE, "u": noise(2, 1, 12, 16)}, [("b", tensor_scatter(CACHE, noise(2, 1, 12, 16), [0, 0], 1, False))],
         opset=24),
    Case("cache_update_along_the_batch", [node("TensorScatter", ["a", "u"], ["b"], axis=0)],
         {"a": CACHE, "u": CACHE}, [("b", CACHE)], opset=24, refusal="axis 0 is the batch"),
]

REPEATED = np.floor(noise(6, 33) * 4).astype(np.float32)


def _top(name, x, count, axis, largest=True, opset=17):
    values, at = top(x, count, axis, largest)
    return Case(name, [node("TopK", ["a", "k"], ["b", "c"], axis=axis, largest=int(largest))], {"a": x},
                [("b", values), ("c", at)], {"k": np.array([count])}, opset=opset)


TOPS = [
    _top("top_of_equal_numbers", REPEATED, 7, -1), _top("least_of_equal_numbers", REPEATED, 7, -1, False),
    _top("top_along_the_first_axis", REPEATED, 4, 0), _top("all_in_order", REPEATED, 33, 1),
    _top("least_one", REPEATED, 1, 1, False), _top("top_of_bytes", (REPEATED * 9).astype(np.int8), 5, 1),
    _top("top_of_i64", np.arange(40).reshape(2, 20) % 7 * 2 ** 40, 6, 1, False),
    _top("top_of_halves", REPEATED.astype(np.float16), 5, 1),
    Case("top_of_opset_1", [node("TopK", ["a"], ["b", "c"], k=3)], {"a": REPEATED},
         list(zip("bc", top(REPEATED, 3, 1))), opset=1),
    Case("top_of_too_many", [node("TopK", ["a", "k"], ["b", "c"])], {"a": REPEATED},
         list(zip("bc", top(REPEATED, 33, 1))), {"k": i64([34])}, refusal="TopK.*k is 34 of 33"),
    Case("top_of_an_unknown_number", [node("TopK", ["a", "k"], ["b", "c"])], {"a": REPEATED, "k": i64([3])},
         list(zip("bc", top(REPEATED, 3, 1))), refusal="TopK.*--dim k=SIZE"),
    Case("top_without_numbers", [node("TopK", ["a", "k"], ["", "c"])], {"a": f32(1, 3, 2)}, [("c", i64(1, 2))],
         {"k": i64([2])}),
]

CASES = SCATTERS + CACHES + TOPS
