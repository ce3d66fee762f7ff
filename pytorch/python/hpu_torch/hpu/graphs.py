# SPDX-License-Identifier: Apache-2.0
"""HPU graphs: the work of some code, captured once and replayed at the cost of its launches.

What is captured does not run until it is replayed. Each replay reads and writes the memory that the capture has seen, so new
values go into the same tensors (`static.copy_(new)`), and results are in the same ones. Numbers of the program (a learning
rate) are those of the capture; random numbers are drawn anew by each replay. Between begin and end nothing may wait for the
device or read it (`item()`, printing, an op without a kernel on the device): that is an error, which names what it was."""
import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from .. import _C
from . import streams


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


def _places(module):
    """Where a module's parameters and buffers lie: others in their places are another graph's."""
    if not isinstance(module, torch.nn.Module):
        return ()
    return tuple(t.data_ptr() for members in (module.parameters(), module.buffers()) for t in members)


def _value(leaf):
    """An argument that is no tensor, so that what computes otherwise differs: numbers by their bits and types."""
    return (float, leaf.hex()) if isinstance(leaf, float) else (type(leaf), leaf)


def _sharing(tensors):
    """Which tensors are the same object, and which lie in the same memory."""
    first, memory = {}, {}
    return tuple((first.setdefault(id(t), i), memory.setdefault(t.storage().data_ptr(), i) if _is_hpu(t) and t.numel() else -1)
                 for i, t in enumerate(tensors))


class _Captured:
    """A forward pass of fixed inputs."""

    def __init__(self, function, leaves, spec):
        self.graph = HPUGraph()
        copies = {}  # One for each tensor, however often it is given.
        with torch.inference_mode(False):
            for leaf in leaves:
                if _is_hpu(leaf) and id(leaf) not in copies:
                    copies[id(leaf)] = torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device=leaf.device).copy_(leaf.detach())
        self.inputs = [copies.get(id(leaf), leaf) for leaf in leaves]
        versions = [leaf._version if _is_hpu(leaf) else None for leaf in self.inputs]
        args, kwargs = tree_unflatten(self.inputs, spec)
        with torch.inference_mode(False), torch.no_grad(), graph(self.graph):
            outputs, self.spec = tree_flatten(function(*args, **kwargs))
        self.outputs = outputs
        self.written = [i for i, leaf in enumerate(self.inputs) if _is_hpu(leaf) and leaf._version != versions[i]]

    def __call__(self, leaves):
        for static, leaf in zip(self.inputs, leaves):
            if _is_hpu(static):
                static.copy_(leaf)
        self.graph.replay()
        for i in self.written:
            leaves[i].copy_(self.inputs[i])
        results = []
        for output in self.outputs:
            same = next((i for i, static in enumerate(self.inputs) if static is output), None)
            if same is not None:
                output = leaves[same]
            elif _is_hpu(output):
                output = output.clone(memory_format=torch.preserve_format)
            results.append(output)
        return tree_unflatten(results, self.spec)


def _is_hpu(leaf):
    return isinstance(leaf, torch.Tensor) and leaf.device.type == "hpu"


def wrap_in_hpu_graph(module, asynchronous=True, disable_tensor_cache=False, hash_with_views=True, dry_run=False, max_graphs=None,
                      verbose=False):
    """For inference: the module's forward (or the function) captures a graph for each kind of inputs (sizes, types, numbers,
    train or eval) and replays it from then on. Results are new tensors; inputs that the module writes are written. At most
    `max_graphs` graphs: other kinds of inputs run as they are, and so does each call that gradients are asked of, and one with
    bypass_hpu_graphs=True. The other arguments are there for existing callers: replays wait for nothing."""
    function = module.forward if isinstance(module, torch.nn.Module) else module
    cache = {}

    def forward(*args, bypass_hpu_graphs=False, **kwargs):
        leaves, spec = tree_flatten((args, kwargs))
        wants_gradients = torch.is_grad_enabled() and (
            any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves)
            or isinstance(module, torch.nn.Module) and any(p.requires_grad for p in module.parameters()))
        leaf_key = None if bypass_hpu_graphs or wants_gradients or is_current_stream_capturing() else _key(leaves)
        if leaf_key is None or not any(_is_hpu(leaf) for leaf in leaves):
            return function(*args, **kwargs)
        key = (leaf_key, str(spec), _modes(module), _places(module))
        if key not in cache:
            if max_graphs is not None and len(cache) >= max_graphs:
                return function(*args, **kwargs)
            with torch.no_grad():
                cache[key] = _Captured(function, leaves, spec)
            if verbose:
                print(f"captured graph {len(cache)} of {type(module).__name__}: {cache[key].graph.memory()}")
        with torch.no_grad():
            return cache[key](leaves)

    forward.hpu_graphs = cache
    if not isinstance(module, torch.nn.Module):
        return forward
    module.forward = forward
    module.clear_cache = cache.clear
    return module


def make_graphed_callables(callables, sample_args, warmup=0, num_warmup_iters=0, allow_unused_input=False, asynchronous=True,
                           disable_tensor_cache=False, dry_run=False):
    """Callables (modules or functions of tensors), forward and backward each as a graph; for sizes and types of `sample_args`
    (a tuple of tensors, or one for each callable), on which gradients are asked as they say. Gradients of parameters are
    accumulated as ever. A module is changed in place: its forward replays in the mode (train, eval) in which it was captured, and
    runs as it is in the other."""
    single = not isinstance(callables, (tuple, list))
    if single:
        callables, sample_args = (callables,), (sample_args,)
    if len(callables) != len(sample_args):
        raise ValueError(f"{len(callables)} callables need as many tuples of sample arguments, not {len(sample_args)}")
    results = []
    for function, args in zip(callables, sample_args):
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
    with torch.enable_grad(), graph(forward_graph):
        outputs, spec = tree_flatten(run(*inputs))
    if not all(_is_hpu(o) for o in outputs):
        raise ValueError("a graphed callable gives tensors of hpu")
    differentiable = [i for i, o in enumerate(outputs) if o.requires_grad]
    grads_out = [torch.empty_like(outputs[i]) for i in differentiable]
    grads_in = ()
    if differentiable and wanted:
        with graph(backward_graph):
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
    if not is_module:
        return graphed
    captured_mode = function.training

    def forward(*args, **kwargs):
        return run(*args, **kwargs) if function.training != captured_mode or kwargs else graphed(*args)

    function.forward = forward
    function.hpu_graphs = graphed.graphs
    return function


class ModuleCacher:
    """ModuleCacher(max_graphs=10)(model): for training. The model's forward and backward as graphs, one pair for each kind of
    inputs; the kinds that were used least often go when there are more than `max_graphs`."""

    def __init__(self, max_graphs=10):
        self.max_graphs = max_graphs

    def __call__(self, model, inplace=True, use_lfu=True, have_grad_accumulation=False, log_frequency=0, verbose=False):
        if not inplace:
            import copy
            model = copy.deepcopy(model)
        run, cache = model.forward, {}

        def forward(*args, **kwargs):
            key = None if kwargs or is_current_stream_capturing() or not all(_is_hpu(a) for a in args) else _key(args)
            if key is None or not torch.is_grad_enabled():
                return run(*args, **kwargs)
            key += _modes(model) + tuple(p.requires_grad for p in model.parameters())
            if key not in cache:
                if len(cache) >= self.max_graphs:
                    del cache[min(cache, key=lambda k: cache[k][0])]
                model.forward = run  # What is captured is the model itself.
                try:
                    holder = _Holder(model, run)
                    cache[key] = [0, _graphed(holder, args, allow_unused=True)]
                finally:
                    model.forward = forward
            cache[key][0] += 1
            return cache[key][1](*args)

        model.forward, model.hpu_graphs = forward, cache
        return model


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
