# SPDX-License-Identifier: Apache-2.0
"""One trace of what the program's threads did (PyTorch's ops, the runtime's calls) and what the devices did, slice by slice, with the names of modules.

    with hpu_torch.profiler.profile() as profiler:
        train_step()
    print(profiler.table())
    profiler.export_chrome_trace("step.json")     # or .pftrace, or .hputrace for hpu-trace

Times of the host are this machine's; times of a device are modelled, and on a clock of their own. With names, graphs are compiled once more: warm up with names
as well (schedule=), or leave them out (with_modules=False)."""
import collections
import enum
import threading

import torch

from . import _C


class ProfilerActivity(enum.Enum):
    CPU = 0
    HPU = 1


class ProfilerAction(enum.Enum):
    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def schedule(*, wait, warmup, active, repeat=0, skip_first=0):
    """As torch.profiler's: of wait + warmup + active steps the last ones are recorded; repeat times (0: for ever)."""
    if wait < 0 or warmup < 0 or active < 1 or repeat < 0 or skip_first < 0:
        raise ValueError(f"schedule: active is at least 1, the others are not negative; they are wait={wait}, warmup={warmup}, active={active}, "
                         f"repeat={repeat}, skip_first={skip_first}")

    def action(step):
        if step < skip_first:
            return ProfilerAction.NONE
        cycle, at = divmod(step - skip_first, wait + warmup + active)
        if (repeat and cycle >= repeat) or at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if at == wait + warmup + active - 1 else ProfilerAction.RECORD
    return action


def tensorboard_trace_handler(folder, worker_name=None):
    """on_trace_ready: a Chrome trace in the folder for each recording."""
    import os
    import socket
    import time
    os.makedirs(folder, exist_ok=True)
    name = worker_name or f"{socket.gethostname()}_{os.getpid()}"
    return lambda profiler: profiler.export_chrome_trace(os.path.join(folder, f"{name}.{time.time_ns() // 1000000}.pt.trace.json"))


_active = None  # The _ModuleNames that is entered.


def names_of_parts(module):
    """Of a module that is being called: (what the names of its parts begin with, its own name). None when ops carry no names."""
    state = _active._state() if _active is not None else None
    if state is None or not state.stack:
        return None
    own = state.stack[-1]
    return "" if state.names.get(id(module)) == "" else own + ".", own


class _ModuleNames:
    """While it is entered, ops carry the name of the module that they are called in: "layer1.0.conv1", and "gradient/layer1.0.conv1" in its backward."""

    def __init__(self):
        self.threads = threading.local()

    def _state(self):
        if not hasattr(self.threads, "stack"):
            self.threads.stack, self.threads.names, self.threads.will_clear = [], {}, False
        return self.threads

    def _enter_backward(self, name):
        def hook(gradient):
            state = self._state()
            _C.set_scope(name)
            if not state.will_clear:
                state.will_clear = True
                torch.autograd.Variable._execution_engine.queue_callback(self._leave_backward)
        return hook

    def _leave_backward(self):
        self._state().will_clear = False
        _C.set_scope("")

    @staticmethod
    def _hook(values, hook):
        for value in values if isinstance(values, (tuple, list)) else values.values() if isinstance(values, dict) else [values]:
            # What one module returns and the next one takes is the first one's; of nested modules it is the innermost one's.
            if isinstance(value, torch.Tensor) and value.requires_grad and not value.is_leaf and not getattr(value, "_hpu_has_name", False):
                value.register_hook(hook)
                value._hpu_has_name = True

    def __enter__(self):
        self.original = original = torch.nn.Module.__call__
        outer = self

        def __call__(self, *args, **options):
            state = outer._state()
            if not state.stack:
                state.names = {id(module): name for name, module in self.named_modules()}
            above = state.stack[-1] if state.stack else ""
            name = state.names.get(id(self)) or ".".join(filter(None, (above, type(self).__name__)))
            state.stack.append(name)
            _C.set_scope(name)
            try:
                if torch.is_grad_enabled():
                    outer._hook(args, outer._enter_backward("gradient/" + above if above else ""))
                result = original(self, *args, **options)
                if torch.is_grad_enabled():
                    outer._hook(result, outer._enter_backward("gradient/" + name))
                return result
            finally:
                state.stack.pop()
                _C.set_scope(above)

        global _active
        torch.nn.Module.__call__, _active = __call__, self
        return self

    def __exit__(self, *error):
        global _active
        torch.nn.Module.__call__, _active = self.original, None
        _C.set_scope("")
        return False


class profile:
    """activities, record_shapes, schedule, on_trace_ready and step() as torch.profiler.profile has them (whose own needs kineto, which Debian's PyTorch lacks).
    with_modules: names of modules on ops and on slices of devices. level: "slice", "node" or "api", from much to little.
    One recording at a time in a process: not while HPU_TRACE records."""

    def __init__(self, *, activities=None, schedule=None, on_trace_ready=None, record_shapes=False, with_modules=True, level="slice", **_others):
        levels = {"api": 0, "node": 1, "slice": 2}
        if level not in levels:
            raise ValueError(f"level is one of {', '.join(levels)}, not {level!r}")
        self.schedule, self.on_trace_ready, self.record_shapes, self.with_modules = schedule, on_trace_ready, record_shapes, with_modules
        self.level, self.activities, self.step_num = levels[level], activities, 0
        self._recording, self._names, self._is_on = None, None, False

    def _action(self):
        return ProfilerAction.RECORD if self.schedule is None else self.schedule(self.step_num)

    def _go(self, action):
        """Into the state of an action."""
        wants_names = self.with_modules and action != ProfilerAction.NONE
        if wants_names and self._names is None:
            self._names = _ModuleNames()
            self._names.__enter__()
        if action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE) and not self._is_on:
            _C.start_profile(self.level, self.record_shapes, self.with_modules)
            self._is_on = True
        if not wants_names and self._names is not None:
            self._names.__exit__()
            self._names = None

    def _stop(self):
        if not self._is_on:
            return
        self._is_on = False
        self._recording = _C.stop_profile()
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def start(self):
        try:
            self._go(self._action())
        except BaseException:
            self._go(ProfilerAction.NONE)
            raise

    def stop(self):
        self._go(ProfilerAction.NONE)
        self._stop()

    def step(self):
        """At the end of each step of the program, when there is a schedule."""
        done = self._action()
        self.step_num += 1
        if done == ProfilerAction.RECORD_AND_SAVE and self.schedule is not None:
            self._stop()
        self._go(self._action())

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *error):
        self.stop()
        return False

    # ---- what was recorded --------------------------------------------------------------------------
    def _recorded(self):
        if self._recording is None:
            raise RuntimeError("nothing has been recorded yet")
        return self._recording

    def export_chrome_trace(self, path):
        """Chrome's JSON; by the path's end also Perfetto's (.pftrace) or the SDK's own format (.hputrace)."""
        path = str(path)
        self._recorded().save(path if path.endswith((".json", ".pftrace", ".hputrace")) else path + ".json")

    def events(self):
        """Spans as dicts: name, category, device (-1: the host), track (a thread, or an engine), start_us, duration_us, arguments."""
        return self._recorded().events()

    def key_averages(self):
        """[{"name", "where" ("host" or "hpu"), "count", "total_us"}], the longest first. Spans hold those that they called."""
        totals = collections.defaultdict(lambda: [0, 0.])
        for event in self.events():
            entry = totals[event["name"], "host" if event["device"] < 0 else "hpu"]
            entry[0] += 1
            entry[1] += event["duration_us"]
        return sorted(({"name": name, "where": where, "count": count, "total_us": total} for (name, where), (count, total) in totals.items()),
                      key=lambda entry: -entry["total_us"])

    def device_time_by_module(self):
        """{module: microseconds of all engines of the devices}, the longest first. A slice of several modules (what the compiler has fused) counts for each by its
        share of names."""
        totals = collections.defaultdict(float)
        for event in self.events():
            if event["device"] < 0 or not _is_engine(event["track"]):
                continue
            parts = event["name"].split("+")
            for part in parts:
                totals[part.rsplit("/aten::", 1)[0] if "/aten::" in part else "(no module)"] += event["duration_us"] / len(parts)
        return dict(sorted(totals.items(), key=lambda item: -item[1]))

    def table(self, row_limit=20):
        lines = [f"{'name':<72}{'where':>6}{'calls':>8}{'total us':>12}"]
        for entry in self.key_averages()[:row_limit]:
            lines.append(f"{entry['name'][:71]:<72}{entry['where']:>6}{entry['count']:>8}{entry['total_us']:>12.1f}")
        return "\n".join(lines)


def _is_engine(track):
    return track.lower().startswith(("mme", "tpc", "dma"))
