# SPDX-License-Identifier: Apache-2.0
"""HPU graphs: the work of some code, captured once and replayed at the cost of its launches.

What is captured does not run until it is replayed. Each replay reads and writes the memory that the capture has seen, so new
values go into the same tensors (`static.copy_(new)`), and results are in the same ones. Numbers of the program (a learning
rate) are those of the capture; random numbers are drawn anew by each replay. Between begin and end nothing may wait for the
device or read it (`item()`, printing, an op without a kernel on the device): that is an error, which names what it was."""
import types

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from .. import _C, _tracing
from . import streams
from ._places import _Replaced, _members, _places


class HPUGraph:
    """A captured piece of work. It keeps the memory that it uses until reset(), or its end."""

    def __init__(self):
        self._graph = _C.CapturedGraph()

    def capture_begin(self, pool=None, dry_run=False):
        """Captures what the current stream is given from now on. `pool` and `dry_run` are there for existing callers: graphs
        share memory by themselves where they can, and a capture never runs."""
        self._graph.begin()

    def capture_end(self):
        """What was captured is compiled here, if it was not before."""
        self._graph.end()

    def replay(self, asynchronous=True):
        """Gives it to the current stream; waits for it when `asynchronous` is False."""
        self._graph.replay()
        if not asynchronous:
            streams.current_stream().synchronize()

    replayV2 = replayV3 = replay

    def reset(self):
        """Drops what was captured, and its memory."""
        self._graph.reset()

    destroy = reset

    def mark_user_inputs(self, tensors):
        """There for existing callers; memory is kept as long as a replay uses it."""

    mark_user_outputs = mark_user_inputs

    def pool(self):
        return (0, 0)

    def __reduce_ex__(self, protocol):
        raise TypeError("an HPU graph is neither copied nor pickled: it has the addresses of its device's memory. Capture the copy anew")

    @property
    def steps(self):
        """Launches, and draws of random numbers, of one replay."""
        return self._graph.steps()

    def memory(self):
        """Bytes: "kept" of tensors that nobody has but this graph, "workspace" of its programs."""
        return self._graph.memory()


class graph:
    """with torch.hpu.graph(g): captures the block, on the current stream or on `stream`."""

    def __init__(self, hpu_graph, pool=None, stream=None, dry_run=False):
        self._graph, self._stream = hpu_graph, streams.stream(stream) if stream is not None else None

    def __enter__(self):
        if self._stream is not None:
            side = self._stream.stream
            side.wait_stream(streams.current_stream())
            self._stream.__enter__()
        try:
            self._graph.capture_begin()
        except BaseException:
            if self._stream is not None:
                self._stream.__exit__(None, None, None)
            raise

    def __exit__(self, kind, *error):
        try:
            if kind is None:
                self._graph.capture_end()
            else:
                self._graph.reset()
        finally:
            if self._stream is not None:
                self._stream.__exit__(kind, *error)
        return False


def is_current_stream_capturing():
    return _C.is_capturing(_C.current_device())


graph_pool_handle = tuple


def _key(leaves):
    """What two calls must share to share a graph; None where a leaf is none that a graph can have."""
    key = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            if leaf.device.type == "hpu":
                key.append((leaf.shape, leaf.stride(), leaf.dtype, leaf.device, leaf.requires_grad, leaf.is_neg()))
            elif leaf.numel() <= 64:  # A value of the program, as a number is.
                key.append((leaf.shape, leaf.dtype, tuple(leaf.flatten().tolist())))
            else:
                return None
        else:
            try:
                hash(leaf)
            except TypeError:
                return None
            key.append(_value(leaf))
    return tuple(key) + _sharing([leaf for leaf in leaves if isinstance(leaf, torch.Tensor)])


def _modes(module):
    parts = tuple(part.training for part in module.modules()) if isinstance(module, torch.nn.Module) else ()
    return parts, _C.autocast_enabled() and _C.autocast_dtype(), torch.is_autocast_enabled(), torch.is_autocast_cpu_enabled()


def _refuse_hidden_tensors(result):
    """A result that is no tensor is what it was at the first call, and so would be tensors within it."""
    parts = list(result.values()) if isinstance(result, dict) else list(result) if isinstance(result, (list, tuple, set)) else []
    if any(isinstance(part, torch.Tensor) for part in parts + list(getattr(result, "__dict__", {}).values())):
        raise RuntimeError(f"the function returns a {type(result).__name__}, and tensors in it would stay those of the first call: return tensors, "
                           "or tuples, lists and dicts of them")


def _value(leaf):
    """An argument that is no tensor, so that what computes otherwise differs: numbers by their bits and types."""
    return (float, leaf.hex()) if isinstance(leaf, float) else (type(leaf), leaf)


def _sharing(tensors):
    """Which tensors are the same object, and which lie in the same memory."""
    first, memory = {}, {}
    return tuple((first.setdefault(id(t), i), memory.setdefault(t.storage().data_ptr(), i) if _is_hpu(t) and t.numel() else -1)
                 for i, t in enumerate(tensors))


def _overlap(leaves):
    """Whether two of the tensors are parts of one piece of memory."""
    different = {id(leaf): leaf.storage().data_ptr() for leaf in leaves if _is_hpu(leaf) and leaf.numel()}
    return len(set(different.values())) < len(different)


def _static(tensor):
    with torch.inference_mode(False):
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device).copy_(tensor.detach())


class _Captured:
    """A forward pass of fixed inputs. `replaced` (places, by id of their dict and name): which tensors of `module` each call
    replaces; more are added to it."""

    def __init__(self, function, leaves, spec, module, replaced):
        copies = {}  # One for each tensor, however often it is given.
        for leaf in leaves:
            if _is_hpu(leaf) and id(leaf) not in copies:
                copies[id(leaf)] = _static(leaf)
        self.inputs = [copies.get(id(leaf), leaf) for leaf in leaves]
        while not self._capture(function, spec, module, replaced):
            pass

    def _capture(self, function, spec, module, replaced):
        """False: a tensor of the module is replaced that was not known to be."""
        state = _Replaced(module)
        known_before = len(replaced)
        self.graph, self.fed, draws = HPUGraph(), [], _tracing.HostDraws()
        versions = [leaf._version if _is_hpu(leaf) else None for leaf in self.inputs]
        args, kwargs = tree_unflatten(self.inputs, spec)
        try:
            # What is replaced is read from memory of the graph's own, as its inputs are.
            for members, name, value in list(_members(module)):
                if (id(members), name) in replaced and _is_hpu(value):
                    members[name] = _static(value)
                    self.fed.append((members, name, members[name]))
            fed_versions = [static._version for _, _, static in self.fed]
            with torch.inference_mode(False), torch.no_grad(), graph(self.graph):
                outputs, self.spec = tree_flatten(function(*args, **kwargs))
            mine = {id(static) for _, _, static in self.fed}
            self.assigned = [(members, name, value) for members, name, _, value in state.changes() if id(value) not in mine]
            self.adds = any(not _is_hpu(before) for _, _, before, _ in state.changes())
            replaced.update((id(members), name) for members, name, _ in self.assigned)
        finally:
            state.undo()
        self.draws = draws.any()
        if self.draws:
            draws.undo()
        self.written = [i for i, leaf in enumerate(self.inputs) if _is_hpu(leaf) and leaf._version != versions[i]]
        if len(replaced) != known_before:
            return False
        fed = {(id(members), name): static for members, name, static in self.fed}
        self.places, known = [], list(self.inputs)
        for members, name, value in _members(module):
            self.places.append((members, name))
            known.append(fed.get((id(members), name), value))
        outer = len(known)
        self.results = [self._describe(output, known, outer) for output in outputs]
        self.renewed = [self._describe(value, known, outer) for _, _, value in self.assigned]
        used = max((step[1] for step in self.results + self.renewed if step[0] in ("same", "view", "alias")), default=-1)
        if used < len(self.inputs):  # None is one of the module's.
            self.places = []
        self.fed = [(members, name, static, static._version != version) for (members, name, static), version in zip(self.fed, fed_versions)
                    if self.graph._graph.uses(static)]
        return True

    def __call__(self, leaves):
        for static, leaf in zip(self.inputs, leaves):
            if _is_hpu(static):
                static.copy_(leaf)
        for members, name, static, _ in self.fed:
            static.copy_(members[name])
        self.graph.replay()
        for members, name, static, is_written in self.fed:
            if is_written:
                members[name].copy_(static)
        for i in self.written:
            leaves[i].copy_(self.inputs[i])
        values = [*leaves, *(members[name] for members, name in self.places)]
        results = [self._result(step, values) for step in self.results]
        for (members, name, _), step in zip(self.assigned, self.renewed):
            members[name] = self._result(step, values)
        return tree_unflatten(results, self.spec)

    def _describe(self, tensor, known, outer):
        """How a result is made of what the caller has (the first `outer` of `known`) and of results before it."""
        if not _is_hpu(tensor):
            _refuse_hidden_tensors(tensor)
            return "value", tensor
        for i, other in enumerate(known):
            if other is tensor:
                return "same", i
        for i, other in enumerate(known):
            if not _is_hpu(other) or other.dtype != tensor.dtype or other.storage().data_ptr() != tensor.storage().data_ptr() or not tensor.numel():
                continue
            is_view = tensor._is_view() and tensor._base is other
            if i < outer or is_view and other.is_contiguous():
                return "view" if is_view else "alias", i, tensor.shape, tensor.stride(), tensor.storage_offset() - other.storage_offset()
        known.append(tensor)
        return "clone", tensor

    @staticmethod
    def _result(step, values):
        kind, what = step[:2]
        if kind == "clone":
            values.append(what.clone(memory_format=torch.preserve_format))
            return values[-1]
        if kind == "value":
            return what
        if kind == "same":
            return values[what]
        base = values[what]
        view = base.as_strided(step[2], step[3], base.storage_offset() + step[4])
        return view if kind == "view" else view.detach()


def _is_hpu(leaf):
    return isinstance(leaf, torch.Tensor) and leaf.device.type == "hpu"


class _Forward:
    """What stands in for a module's forward (an attribute of the module) or for a function. A copy of the module, or one that
    is loaded, has its own: `_begin()` makes what it captures, empty."""

    def __init__(self, function, module):
        self._function, self._module = function, module
        self._begin()

    def _begin(self):
        raise NotImplementedError

    def __getstate__(self):
        state = {name: value for name, value in vars(self).items() if name not in self._own}
        # The class's own method is found by the class: what is loaded may have this object in its place.
        if self._module is not None and getattr(self._function, "__func__", None) is type(self._module).forward:
            state["_function"] = None
        return state

    def __setstate__(self, state):
        vars(self).update(state)
        if self._function is None:
            self._function = types.MethodType(type(self._module).forward, self._module)
        self._begin()


class _Wrapped(_Forward):
    _own = ("hpu_graphs", "_replaced", "_addresses", "_plain")

    def __init__(self, function, module, max_graphs, verbose):
        self._max_graphs, self._verbose = max_graphs, verbose
        super().__init__(function, module)

    def _begin(self):
        self.hpu_graphs, self._replaced, self._addresses = {}, set(), {}
        self._plain = set()  # Kinds of inputs that no graph does justice to.

    def clear(self):
        self.hpu_graphs.clear()

    def _moves(self):
        """Whether attributes of the module (no parameters or buffers) that lie elsewhere than before are found: these are copied from now on."""
        moved = False
        for members, name, value in _members(self._module):
            place = id(members), name
            if "_parameters" not in members or place in self._replaced or not _is_hpu(value):
                continue
            if self._addresses.setdefault(place, value.data_ptr()) != value.data_ptr():
                self._replaced.add(place)
                moved = True
        if moved:
            self.clear()
        return moved

    def __call__(self, *args, bypass_hpu_graphs=False, **kwargs):
        leaves, spec = tree_flatten((args, kwargs))
        wants_gradients = torch.is_grad_enabled() and (
            any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves)
            or self._module is not None and any(p.requires_grad for p in self._module.parameters()))
        leaf_key = None if bypass_hpu_graphs or wants_gradients or is_current_stream_capturing() else _key(leaves)
        if leaf_key is None or leaf_key in self._plain or not any(_is_hpu(leaf) for leaf in leaves):
            return self._function(*args, **kwargs)
        with _tracing.capturing:
            captured = self._captured(leaves, spec, leaf_key)
            if captured is not None:
                with torch.no_grad():
                    return captured(leaves)
        return self._function(*args, **kwargs)

    def _captured(self, leaves, spec, leaf_key):
        """A graph of these inputs; None: they run as they are."""
        key = (leaf_key, str(spec), _modes(self._module), _places(self._module, self._replaced))
        captured = self.hpu_graphs.get(key)
        if captured is None and self._moves():
            key = (leaf_key, str(spec), _modes(self._module), _places(self._module, self._replaced))
            captured = self.hpu_graphs.get(key)
        if captured is None:
            if self._max_graphs is not None and len(self.hpu_graphs) >= self._max_graphs:
                return None
            known = len(self._replaced)
            with torch.no_grad():
                captured = _Captured(self._function, leaves, spec, self._module, self._replaced)
            # Random numbers of the host would be the same at each replay, and a write be seen by no input that shares its memory.
            if captured.draws or captured.written and _overlap(leaves):
                self._plain.add(leaf_key)
                return None
            if len(self._replaced) != known:
                self.clear()  # Nothing would find these again.
            # The next call finds the tensors that this one adds to the module.
            if not captured.adds:
                self.hpu_graphs[leaf_key, str(spec), _modes(self._module), _places(self._module, self._replaced)] = captured
            if self._verbose:
                print(f"captured graph {len(self.hpu_graphs)} of {type(self._module or self._function).__name__}: {captured.graph.memory()}")
        return captured


def wrap_in_hpu_graph(module, asynchronous=True, disable_tensor_cache=False, hash_with_views=True, dry_run=False, max_graphs=None,
                      verbose=False):
    """For inference: the module's forward (or the function) captures a graph for each kind of inputs (sizes, types, numbers,
    train or eval) and replays it from then on. Results are new tensors, or the caller's where they are inputs or views of
    these; inputs that the module writes are written, and tensors that it replaces are replaced. At most
    `max_graphs` graphs: other kinds of inputs run as they are, and so does each call that gradients are asked of, and one with
    bypass_hpu_graphs=True. The other arguments are there for existing callers: replays wait for nothing. A copy of the module, and
    one that is loaded, captures graphs of its own."""
    if not isinstance(module, torch.nn.Module):
        return _Wrapped(module, None, max_graphs, verbose)
    module.forward = _Wrapped(module.forward, module, max_graphs, verbose)
    module.clear_cache = module.forward.clear
    return module


def make_graphed_callables(callables, sample_args, warmup=0, num_warmup_iters=0, allow_unused_input=False, asynchronous=True,
                           disable_tensor_cache=False, dry_run=False):
    """Callables (modules or functions of tensors), forward and backward each as a graph; for sizes and types of `sample_args`
    (a tuple of tensors, or one for each callable), on which gradients are asked as they say. Gradients of parameters are
    accumulated as ever. A module is changed in place: its forward replays in the mode (train, eval) in which it was captured, and
    runs as it is in the other; a copy of it, and one that is loaded, captures at its first call."""
    single = not isinstance(callables, (tuple, list))
    if single:
        callables, sample_args = (callables,), (sample_args,)
    if len(callables) != len(sample_args):
        raise ValueError(f"{len(callables)} callables need as many tuples of sample arguments, not {len(sample_args)}")
    results = []
    for function, args in zip(callables, sample_args):
        if isinstance(function, torch.nn.Module):
            function.forward = _GraphedModule(function, args, allow_unused_input)
            results.append(function)
        else:
            results.append(_graphed(function, args, allow_unused_input))
    return results[0] if single else tuple(results)


def _graphed(function, sample_args, allow_unused):
    if not all(_is_hpu(a) for a in sample_args):
        raise ValueError("sample arguments of a graphed callable are tensors of hpu")
    is_module = isinstance(function, torch.nn.Module)
    if is_module and (function._forward_hooks or function._forward_pre_hooks or function._backward_hooks):
        raise RuntimeError("a module with hooks cannot be captured: hooks would run once, at the capture. Register them afterwards")
    parameters = tuple(p for p in function.parameters() if p.requires_grad) if is_module else ()
    inputs = tuple(a.detach().clone(memory_format=torch.preserve_format).requires_grad_(a.requires_grad) for a in sample_args)
    surface = inputs + parameters
    wanted = tuple(t for t in surface if t.requires_grad)
    forward_graph, backward_graph = HPUGraph(), HPUGraph()
    run = function.forward if is_module else function
    state, draws = _Replaced(function._module if isinstance(function, _Holder) else function), _tracing.HostDraws()
    try:
        with _tracing.capturing, torch.enable_grad(), graph(forward_graph):
            outputs, spec = tree_flatten(run(*inputs))
        if draws.any():
            raise RuntimeError("the captured code draws random numbers on the host, which replays would repeat: draw them on hpu (device='hpu')")
    except BaseException:
        state.undo()
        raise
    for _, name, before, _ in state.changes():
        if _is_hpu(before) and forward_graph._graph.uses(before):
            state.undo()
            raise RuntimeError(f"the captured code puts another tensor in the place of '{name}', which it reads: replays would read the old one. "
                               f"Write into it ({name}.copy_(...), {name}.add_(...))")
    if not all(_is_hpu(o) for o in outputs):
        raise ValueError("a graphed callable gives tensors of hpu")
    differentiable = [i for i, o in enumerate(outputs) if o.requires_grad]
    grads_out = [torch.empty_like(outputs[i]) for i in differentiable]
    grads_in = ()
    if differentiable and wanted:
        with _tracing.capturing, graph(backward_graph):
            grads_in = torch.autograd.grad([outputs[i] for i in differentiable], wanted, grads_out, only_inputs=True,
                                           allow_unused=allow_unused)
    by_tensor = iter(grads_in)
    static_grads = [next(by_tensor) if t.requires_grad and grads_in else None for t in surface]
    statics = [o.detach() for o in outputs]
    replayed = [0]

    class Graphed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *tensors):
            for static, given in zip(inputs, tensors):
                if static.data_ptr() != given.data_ptr() or static.stride() != given.stride():
                    static.detach().copy_(given)
            forward_graph.replay()
            replayed[0] += 1
            ctx.replay = replayed[0]
            results = tuple(s.clone(memory_format=torch.preserve_format) for s in statics)
            ctx.mark_non_differentiable(*(r for i, r in enumerate(results) if i not in differentiable))
            return results

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, *grads):
            if ctx.replay != replayed[0]:
                raise RuntimeError("this graphed callable was called again before the backward of this call, and has the activations of "
                                   "the later one: run each backward before the next forward")
            for static, i in zip(grads_out, differentiable):
                static.zero_() if grads[i] is None else static.copy_(grads[i])
            if static_grads and grads_in:
                backward_graph.replay()
            return tuple(None if g is None else g.clone(memory_format=torch.preserve_format) for g in static_grads)

    def graphed(*args):
        if len(args) != len(inputs) or any(not _is_hpu(a) or (a.shape, a.dtype, a.device) != (s.shape, s.dtype, s.device)
                                           for a, s in zip(args, inputs)):
            raise ValueError("a graphed callable takes tensors as its sample arguments were: "
                             + ", ".join(f"{s.dtype}{list(s.shape)}" for s in inputs))
        return tree_unflatten(list(Graphed.apply(*args, *parameters)), spec)

    graphed.graphs = (forward_graph, backward_graph)
    return graphed


class _GraphedModule(_Forward):
    """Captures when it is made; a copy at its first call. (Samples are kept without their memory.)"""
    _own = ("_graphed",)

    def __init__(self, module, sample_args, allow_unused):
        self._samples = [(a.shape, a.stride(), a.dtype, a.device, a.requires_grad) for a in sample_args]
        self._allow_unused, self._mode = allow_unused, module.training
        super().__init__(module.forward, module)
        self._graphed = _graphed(module, sample_args, allow_unused)

    def _begin(self):
        self._graphed = None

    @property
    def graphs(self):
        return self._graphed.graphs if self._graphed else ()

    def __call__(self, *args, **kwargs):
        if self._module.training != self._mode or kwargs:
            return self._function(*args, **kwargs)
        if self._graphed is None:
            samples = [torch.empty_strided(shape, stride, dtype=dtype, device=device).zero_().requires_grad_(requires_grad)
                       for shape, stride, dtype, device, requires_grad in self._samples]
            holder = _Holder(self._module, self._function)
            self._graphed = _graphed(holder, samples, self._allow_unused)
        return self._graphed(*args)


class ModuleCacher:
    """ModuleCacher(max_graphs=10)(model): for training. The model's forward and backward as graphs, one pair for each kind of
    inputs; the kinds that were used least often go when there are more than `max_graphs`."""

    def __init__(self, max_graphs=10):
        self.max_graphs = max_graphs

    def __call__(self, model, inplace=True, use_lfu=True, have_grad_accumulation=False, log_frequency=0, verbose=False):
        if not inplace:
            import copy
            model = copy.deepcopy(model)
        model.forward = _Cached(model.forward, model, self.max_graphs)
        return model


class _Cached(_Forward):
    _own = ("hpu_graphs",)

    def __init__(self, function, module, max_graphs):
        self._max_graphs = max_graphs
        super().__init__(function, module)

    def _begin(self):
        self.hpu_graphs = {}

    def __call__(self, *args, **kwargs):
        key = None if kwargs or is_current_stream_capturing() or not all(_is_hpu(a) for a in args) else _key(args)
        if key is None or not torch.is_grad_enabled():
            return self._function(*args, **kwargs)
        key += _modes(self._module) + tuple(p.requires_grad for p in self._module.parameters())
        cache = self.hpu_graphs
        if key not in cache:
            if len(cache) >= self._max_graphs:
                del cache[min(cache, key=lambda k: cache[k][0])]
            cache[key] = [0, _graphed(_Holder(self._module, self._function), args, allow_unused=True)]
        cache[key][0] += 1
        return cache[key][1](*args)


class _Holder(torch.nn.Module):
    """A module's parameters with a forward of its own, so that capturing does not change the module."""

    def __init__(self, module, run):
        super().__init__()
        object.__setattr__(self, "_module", module)
        self._run = run

    def parameters(self, recurse=True):
        return self._module.parameters(recurse)

    def forward(self, *args):
        return self._run(*args)
