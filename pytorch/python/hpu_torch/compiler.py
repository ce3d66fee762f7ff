# SPDX-License-Identifier: Apache-2.0
"""Compiled mode: a module or function as graphs of its forward and backward passes (AOT autograd), each one launch.

    net = hpu_torch.compile(net)              # torch.compile's shape; backend "hpu_backend"
    step = hpu_torch.compile(optimiser.step)  # The updates of all parameters as one graph, in place.

There are no guards beyond the signature: tensors' sizes, strides and types, which of them ask gradients, other arguments by value,
train or eval, autocast. A call of a new signature is traced anew; what Python code decides otherwise (globals, attributes that
change) is as it was at the trace. Sizes that change share their programs, so that tracing anew compiles no more."""
import contextlib
import functools
import types

import torch
import torch.fx.traceback as _traceback
from functorch import compile as _functorch_compile
from torch.utils._pytree import tree_flatten, tree_unflatten

from . import _C, _tracing
from .fp8 import is_fp8_enabled
from .profiler import names_of_parts
from .hpu._places import _members, _put_back
from .hpu.graphs import _Forward, _is_hpu, _modes, _refuse_hidden_tensors, _sharing, _value


class _Traced(Exception):
    """Tracing is done, and nothing has run."""


def _autograd_nodes(values):
    return [t.grad_fn for t in tree_flatten(values)[0] if isinstance(t, torch.Tensor) and t.grad_fn is not None]


class _Parts:
    """Which part of a module each op of its trace is of, for the profiler: the "stack traces" of the graphs' nodes are "@layer1.conv" and
    "@gradient/layer1.conv", since these go through all that AOT autograd does to a graph, and from autograd's nodes to what they compute."""

    def __init__(self, module):
        self._module, self._outside = module, set()
        self.names = None  # names_of_parts() in the forward: the backward has the same.

    def _mark(self, values, name):
        """What has computed the values in the trace, and has no name, has this one."""
        todo = _autograd_nodes(values)
        while todo:
            node = todo.pop()
            if node not in self._outside and "traceback_" not in node.metadata:
                node.metadata["traceback_"] = ["@gradient/" + name]
                todo += [above for above, _ in node.next_functions if above is not None]

    @contextlib.contextmanager
    def recorded(self, tensors):
        """While it is entered, the module is traced with these tensors. Gives what is called with the results."""
        handles, stack, self._outside = [], [""], set(_autograd_nodes(tensors))

        def enter(name):
            def hook(module, inputs):
                self._mark(inputs, stack[-1])
                stack.append(name)
                _traceback.current_stack = ["@" + name]
            return hook

        def leave(module, inputs, outputs):
            self._mark(outputs, stack.pop())
            _traceback.current_stack = ["@" + stack[-1]]

        for name, part in self._module.named_modules() if self._module is not None else ():
            if name and not isinstance(part, torch.jit.ScriptModule):
                handles += [part.register_forward_pre_hook(enter(name)), part.register_forward_hook(leave)]
        before, _traceback.current_stack = _traceback.current_stack, ["@"]
        try:
            with _traceback.override_stack_trace():
                yield lambda results: self._mark(results, "")
        finally:
            _traceback.current_stack, self._outside = before, set()
            for handle in handles:
                handle.remove()

    def scope(self, node):
        beginning, own = self.names
        path = next((line[1:] for line in (node.stack_trace or "").split("\n") if line.startswith("@")), "")
        kind = "gradient/" if path.startswith("gradient/") else ""
        path = path[len(kind):]
        return kind + (beginning + path if path else own)


class _WithNames(torch.fx.Interpreter):
    """Runs a graph whose ops carry the names of modules."""

    def __init__(self, graph_module, parts):
        super().__init__(graph_module)
        self._parts = parts

    def run_node(self, node):
        _C.set_scope(self._parts.scope(node))
        return super().run_node(node)


class _Executor:
    """An aten graph: captured once, then launched on the tensors that it is given. `writes`: pairs of a result and the argument
    that it is written to."""

    def __init__(self, graph_module, writes=(), is_backward=False, parts=None):
        self._module, self._writes, self._relocated, self._records = graph_module, writes, {}, False
        self._is_backward, self._parts, self.is_traced = is_backward, parts, True

    def _run(self, args):
        if self._names() is None:
            outputs = self._module(*args)
        else:
            outputs = _WithNames(self._module, self._parts).run(*args)
            _C.set_scope(("gradient/" if self._is_backward else "") + self._parts.names[1])
        for i, argument in self._writes:
            if outputs[i] is not args[argument]:
                args[argument].copy_(outputs[i])
        return outputs

    def _names(self):
        return self._parts.names if self._parts is not None else None

    def __call__(self, *args):
        if not self.is_traced:
            raise _Traced
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        if self._is_backward and torch.is_grad_enabled():
            raise RuntimeError("gradients of gradients (create_graph=True) do not go through a compiled graph: leave this part uncompiled")
        if len(tensors) != len(args) or not tensors or not all(_is_hpu(t) for t in tensors) or _C.is_capturing(tensors[0].device.index):
            return self._record(args)
        for relocated, single, present, count in self._relocated.get(self._names(), ()):
            if relocated.fits(tensors):
                return self._results(relocated.run(tensors), single, present, count)
        with _tracing.capturing:
            if not any(relocated.fits(tensors) for relocated, *_ in self._relocated.get(self._names(), ())):
                self._records = self._records or not self._capture(tensors)
        if self._records:
            return self._record(args)
        return self(*args)

    def _capture(self, tensors):
        graph, draws = _C.CapturedGraph(), _tracing.HostDraws()
        graph.begin()
        try:
            outputs = self._run(tensors)
            graph.end()
            if draws.any():  # As an op of the graph that runs on the CPU: another number at each call.
                draws.undo()
                graph.reset()
                self._records = True
                return False
        except BaseException as error:
            graph.reset()
            # An op that runs on the CPU, or a copy through host memory: what is around it is recorded in parts at each call.
            if isinstance(error, NotImplementedError) or (isinstance(error, RuntimeError) and "being captured" in str(error)):
                self._records = True
                return False
            raise
        single = not isinstance(outputs, (tuple, list))
        outputs = [outputs] if single else list(outputs)
        present = [i for i, o in enumerate(outputs) if isinstance(o, torch.Tensor)]
        if not all(_is_hpu(outputs[i]) for i in present):
            self._records = True
            return False
        self._relocated.setdefault(self._names(), []).append(
            (_C.RelocatedGraph(graph, tensors, [outputs[i] for i in present]), single, present, len(outputs)))
        return True

    @staticmethod
    def _results(tensors, single, present, count):
        if single:
            return tensors[0]
        if len(present) == count:
            return tensors
        results = [None] * count
        for i, tensor in zip(present, tensors):
            results[i] = tensor
        return results

    def _record(self, args):
        scope = _C.RecordingScope()
        try:
            return self._run(args)
        finally:
            scope.end()


def hpu_backend(graph_module, example_inputs):
    """The backend as torch.compile calls one: an FX graph of aten ops, or of a module's calls, as a callable."""
    return _Executor(graph_module)


def _leaf_key(leaf):
    if isinstance(leaf, torch.Tensor):
        return leaf.shape, leaf.stride() if leaf.layout == torch.strided else None, leaf.dtype, leaf.device, leaf.requires_grad
    return _value(leaf)


_MOST_SIGNATURES = 256


class _Compiled(_Forward):
    """What is traced and compiled of a function, by signature."""
    _own = ("_by_signature",)

    def _begin(self):
        self._by_signature = {}

    def __call__(self, *args, **kwargs):
        if _C.is_capturing(-1):  # A part of what is traced, or captured.
            return self._function(*args, **kwargs)
        leaves, spec = tree_flatten((args, kwargs))
        where = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        state = _State(self._module)
        key = (tuple(_leaf_key(leaf) for leaf in leaves), str(spec), torch.is_grad_enabled(), _modes(self._module), state.key())
        tensors = [*state.tensors, *(leaves[i] for i in where)]
        key += _sharing(tensors)
        if not any(_is_hpu(t) for t in tensors):
            return self._function(*args, **kwargs)
        if is_fp8_enabled():
            # Scales of fp8 follow from step to step in Python code, which a trace would leave behind.
            return _recorded(self._function)(*args, **kwargs)
        try:
            entry = self._by_signature.get(key)
        except TypeError:  # An argument that has no hash is no part of a signature: recorded each time.
            return _recorded(self._function)(*args, **kwargs)
        if entry is None:
            with _tracing.capturing:
                entry = self._by_signature.get(key)
                if entry is None:
                    entry = self._by_signature[key] = _Trace(self._function, self._module, leaves, spec, where, tensors)
                    if len(self._by_signature) > _MOST_SIGNATURES:
                        del self._by_signature[next(iter(self._by_signature))]
        if entry.draws:
            return _recorded(self._function)(*args, **kwargs)
        return entry(tensors)


class _Trace:
    """The graphs of one signature, and how their outputs become the function's results."""

    def __init__(self, function, module, leaves, spec, where, tensors):
        self._function, self._module, self._spec, self._where = function, module, spec, where
        self._constants = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        index = {id(tensor): i for i, tensor in enumerate(dict.fromkeys(tensors))}
        self._places = [index[id(tensor)] for tensor in tensors]  # Each tensor is one argument, however often it is given.
        self._first = [self._places.index(i) for i in range(len(index))]
        self._constant, self._forward, self._parts = (), None, _Parts(module)
        self._parts.names = names_of_parts(module)
        unique = list(dict.fromkeys(tensors))
        attributes_before = [dict(tensor.__dict__) for tensor in unique]
        # What tracing runs is captured and dropped: nothing is computed, no buffer changes, no random number is drawn.
        tracing, draws = _C.CapturedGraph(), _tracing.HostDraws()
        tracing.begin()
        try:
            self._traced = self._trace(unique)
        except (NotImplementedError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and not isinstance(error, NotImplementedError) and "being captured" not in str(error):
                raise
            # An op that runs on the CPU, or a copy there, cannot be captured: what tracing changes is put back.
            tracing.reset()
            saved = [(t, t.detach().clone()) for t in unique if not t.requires_grad]
            random = torch.get_rng_state(), torch.hpu.get_rng_state_all()
            self._traced = self._trace(unique)
            with torch.no_grad():
                for tensor, value in saved:
                    tensor.copy_(value)
            torch.set_rng_state(random[0])
            torch.hpu.set_rng_state_all(random[1])
        finally:
            tracing.reset()
            for tensor, attributes in zip(unique, attributes_before):  # PyTorch leaves its notes on what it traces, which cannot be copied.
                tensor.__dict__.clear()
                tensor.__dict__.update(attributes)
        self._forward.is_traced = True
        self.draws = draws.any()  # Such a function is recorded at each call.
        if self.draws:
            draws.undo()

    def __call__(self, tensors):
        self._parts.names = names_of_parts(self._module)
        arguments = [tensors[i] for i in self._first]
        # Autograd would go into the histories of these without a gradient, also where that can be done only once.
        given = [t.detach() if i in self._constant else t for i, t in enumerate(arguments)]
        outputs = self._traced(*given)
        results = [self._result(step, arguments, outputs) for step in self._results]
        for (members, name), step in self._replaced:
            members[name] = self._result(step, arguments, outputs)
        return tree_unflatten(results, self._result_spec)

    def _trace(self, tensors):
        traced = _functorch_compile.aot_function(self._flat, fw_compiler=_functorch_compile.make_boxed_compiler(self._compile_forward),
                                                 bw_compiler=_functorch_compile.make_boxed_compiler(self._compile_backward),
                                                 partition_fn=self._partition)
        asks_gradients = torch.is_grad_enabled()
        with torch.inference_mode(False), torch.set_grad_enabled(asks_gradients):
            stand_ins = [_stand_in(tensor) for tensor in tensors]
            constant = [t for t in stand_ins if not t.requires_grad]
            try:
                traced(*stand_ins)
            except _Traced:
                pass
            finally:
                for tensor in constant:  # What is written without gradients gets a history from functorch, which knows no no_grad.
                    if tensor.requires_grad:
                        tensor.detach_()
        return traced

    def _partition(self, joint, inputs):
        """Both passes as one graph, whose last outputs are the gradients of the arguments: None where there is none."""
        outputs = tree_flatten(next(node for node in joint.graph.nodes if node.op == "output").args)[0]
        count = len(inputs[0])
        self._constant = frozenset(i for i, gradient in enumerate(outputs[len(outputs) - count:]) if gradient is None)
        return _functorch_compile.default_partition(joint, inputs)

    def _compile_forward(self, graph_module, example_inputs):
        _refuse_captured_tensors(graph_module, self._module)
        self._forward = _Executor(graph_module, [(self._count + k, i) for k, i in enumerate(self._written)], parts=self._parts)
        self._forward.is_traced = False
        return self._forward

    def _compile_backward(self, graph_module, example_inputs):
        return _Executor(graph_module, is_backward=True, parts=self._parts)

    def _flat(self, *arguments):
        """The function, of tensors alone: gives those that a graph computes, then what it writes."""
        tensors = [arguments[i] for i in self._places]
        state = _State(self._module)
        count, values = len(state.tensors), list(self._constants)
        for i, tensor in zip(self._where, tensors[count:]):
            values[i] = tensor
        args, kwargs = tree_unflatten(values, self._spec)
        versions = [tensor._version for tensor in arguments]
        with state.replaced(tensors[:count]) as changes, _tracing.tracing(), self._parts.recorded(arguments) as mark:
            results, self._result_spec = tree_flatten(self._function(*args, **kwargs))
            mark(results)
        # What is written is a result, too: tracing would leave out a write whose result nobody reads.
        self._written = [i for i, version in enumerate(versions) if arguments[i]._version != version]
        if torch.is_grad_enabled() and any(arguments[i].requires_grad for i in self._written):
            raise RuntimeError("the compiled code writes in place to an argument that asks gradients, which autograd would not see: "
                               "write to a copy (x.clone()), or leave this part uncompiled")
        outputs = []
        self._results = [self._describe(result, arguments, outputs) for result in results]
        self._replaced = [((members, name), self._describe(tensor, arguments, outputs)) for members, name, tensor in changes]
        if not outputs:
            outputs.append(arguments[0].new_zeros(()))
        self._count = len(outputs)
        return outputs + [arguments[i] for i in self._written]

    def _describe(self, result, arguments, outputs):
        """What a result is: no tensor, an argument, a view of one, or an output of the graph (the same one twice, or not)."""
        if not isinstance(result, torch.Tensor):
            _refuse_hidden_tensors(result)
            return "value", result
        for i, argument in enumerate(arguments):
            if argument is result:
                return "argument", i
        for i, argument in enumerate(arguments):
            if result._is_view() and result._base is argument and result.dtype == argument.dtype and _is_hpu(result):
                return "view", i, result.shape, result.stride(), result.storage_offset() - argument.storage_offset()
        for i, output in enumerate(outputs):
            if output is result:
                return "output", i, result.requires_grad
        outputs.append(result)
        return "output", len(outputs) - 1, result.requires_grad

    @staticmethod
    def _result(step, arguments, outputs):
        kind, what = step[:2]
        if kind == "value":
            return what
        if kind == "argument":
            return arguments[what]
        if kind == "view":
            base = arguments[what]
            return base.as_strided(step[2], step[3], base.storage_offset() + step[4])
        output = outputs[what]
        # All outputs of a graph have its history, also those that have none in the function.
        return output.detach() if output.requires_grad and not step[2] else output


def _stand_in(tensor):
    """For tracing. What an argument was computed from is no part of the graph, even where that is an argument, too; tensors of
    inference mode do not say whether they are written. Sizes, strides and values are the same."""
    if tensor.is_leaf and not tensor.is_inference() and not tensor._is_view():
        return tensor
    alone = tensor.detach().requires_grad_(tensor.requires_grad)
    if tensor.is_inference():
        once = tensor  # Each element of memory once.
        for dim, stride in enumerate(tensor.stride()):
            once = once.narrow(dim, 0, 1) if stride == 0 and tensor.shape[dim] > 1 else once
        copy = torch.empty_strided(once.shape, once.stride(), dtype=tensor.dtype, device=tensor.device).copy_(once)
        return copy if once is tensor else copy.as_strided(tensor.shape, tensor.stride()).detach()
    copy = alone.clone() if tensor.requires_grad else alone
    return copy if copy.stride() == tensor.stride() else alone


def _refuse_captured_tensors(graph_module, module):
    """Tensors that are neither arguments nor parameters or buffers would stay what they are at the trace."""
    parts = module.modules() if module is not None else ()
    attributes = {id(value): f"attribute '{name}' of {type(part).__name__}" for part in parts
                  for name, value in vars(part).items() if isinstance(value, torch.Tensor)}
    for node in graph_module.graph.nodes:
        if node.op != "get_attr":
            continue
        tensor = getattr(graph_module, node.target, None)
        if isinstance(tensor, torch.Tensor) and (tensor.requires_grad or id(tensor) in attributes):
            what = attributes.get(id(tensor), f"a tensor {list(tensor.shape)} that asks gradients")
            raise RuntimeError(f"the compiled code reads {what}, which is neither an argument nor a parameter or buffer of the compiled module, "
                               "and would stay as it is now: compile the module that has it, make it a buffer, or give it as an argument")


class _State:
    """The parameters, buffers and other tensors of a module, each once, with all of their places."""

    def __init__(self, module):
        self.tensors, self._places = [], []
        self._module = module
        index = {}
        for members, name, tensor in self._own_members():
            i = index.setdefault(id(tensor), len(index))
            if i == len(self.tensors):
                self.tensors.append(tensor)
            self._places.append((members, name, i))

    def _own_members(self):
        """Attributes of the CPU are numbers of the program."""
        return [place for place in _members(self._module) if place[2].device.type == "hpu" or "_parameters" not in place[0]]

    def key(self):
        return (tuple([(name, i) for _, name, i in self._places]),
                tuple([(t.shape, t.stride(), t.dtype, t.device, t.requires_grad) for t in self.tensors]))

    @contextlib.contextmanager
    def replaced(self, tensors):
        """Others in their places. Gives a list, which has at the end what was put into places meanwhile: (members, name, tensor)."""
        before = [(members, dict(members)) for part in (self._module.modules() if self._module is not None else ())
                  for members in (part._parameters, part._buffers, part.__dict__)]
        for members, name, i in self._places:
            members[name] = tensors[i]
        changes = []
        try:
            yield changes
            stand_ins = {(id(members), name): tensors[i] for members, name, i in self._places}
            changes += [(members, name, tensor) for members, name, tensor in self._own_members()
                        if stand_ins.get((id(members), name)) is not tensor]
        finally:
            for members, values in before:
                _put_back(members, values)


def _recorded(step):
    """What runs its Python code each time, as an optimiser's step does, whose numbers change: one graph, compiled once."""
    @functools.wraps(step)
    def run(*args, **kwargs):
        scope = _C.RecordingScope()
        try:
            return step(*args, **kwargs)
        finally:
            scope.end()
    return run


def compile(model=None, *, fullgraph=False, dynamic=None, backend="hpu_backend", mode=None, options=None, disable=False):
    """A compiled form of a module (in place: its forward), a function of tensors, or an optimiser's step. As a decorator, too. Of a
    DistributedDataParallel its module is compiled; its exchanges follow the backward as ever.

    backend: "hpu_backend". The other arguments are torch.compile's: graphs are always full, sizes may always change, and there are
    no modes."""
    if model is None:
        return functools.partial(compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable)
    if backend != "hpu_backend":
        raise ValueError(f"backend {backend!r} is not known here: 'hpu_backend' is")
    if disable:
        return model
    if isinstance(getattr(model, "__self__", None), torch.optim.Optimizer):
        return _recorded(model)
    if isinstance(model, torch.optim.Optimizer):
        if not hasattr(model.step, "_recorded"):
            # A method still: schedulers of the learning rate look at whose it is.
            model.step = types.MethodType(_recorded(type(model).step if not hasattr(model.step, "__func__") else model.step.__func__), model)
            model.step.__func__._recorded = True
        return model
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        # What it does around its module's passes is another thing in each step.
        compile(model.module)
        return model
    if isinstance(model, torch.nn.Module):
        if not isinstance(model.forward, _Compiled):
            model.forward = _Compiled(model.forward, model)
        return model
    return functools.wraps(model)(_Compiled(model, None))


def install():
    """Where torch.compile exists, "hpu_backend" is one of its backends. (Untested: PyTorch 1.13 has none.)"""
    try:
        from torch._dynamo import register_backend
    except ImportError:
        return
    from torch._dynamo.backends.common import aot_autograd
    register_backend(aot_autograd(fw_compiler=hpu_backend, bw_compiler=hpu_backend), name="hpu_backend")
