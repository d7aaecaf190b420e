"""Counting live tensor storages while a program runs, by category and by instant.

A dispatch mode sees every operation; each new storage counts from its creation until it is freed,
which Python's weak references report. The same idea as torch.distributed._tools.mem_tracker.
"""

import weakref
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

# Bytes that an operation's kernel takes for itself while it runs.
Workspace = Callable[[Any, tuple[Any, ...]], int]


@dataclass(slots=True)
class Instant:
    """The highest sum seen under one label, and what it was made of (bytes)."""

    peak_bytes: int = 0
    categories: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Live:
    num_bytes: int
    category: str
    reference: Any


class StorageTracker(TorchDispatchMode):
    """Live bytes by category; `phase` and `label` name the instant, `category` new storages."""

    def __init__(self, workspace: Workspace, rules: Mapping[Any, tuple[str, str]]) -> None:
        """rules: operation → (where, category): "result", "arg0", "arg1", …, or a keyword."""
        super().__init__()  # type: ignore[no-untyped-call]  # torch gives it no types
        self.instants: dict[str, Instant] = {}
        self.phase = ""
        self.label = "start"
        self.category = "other"
        self._workspace = workspace
        self._rules = rules
        self._live: WeakIdKeyDictionary = WeakIdKeyDictionary()
        self._sums: Counter[str] = Counter()
        self._total = 0
        self._mode: Any = None
        self._resize = torch.UntypedStorage.resize_

    @property
    def total_bytes(self) -> int:
        return self._total

    def forget_instants(self) -> None:
        """Start the peaks anew; live storages stay counted."""
        self.instants = {}

    def assign(self, tensor: Tensor, category: str) -> None:
        """Count a tensor's storage under a category, from now if it was not counted yet."""
        if isinstance(tensor, DTensor):
            tensor = tensor.to_local()
        storage = tensor.untyped_storage()
        live = self._live.get(storage)
        if live is None:
            self._add(storage, category)
        elif live.category != category:
            self._sums[live.category] -= live.num_bytes
            self._sums[category] += live.num_bytes
            live.category = category

    def __enter__(self) -> "StorageTracker":
        self._mode = torch._guards.active_fake_mode()
        resize = self._resize

        @wraps(resize)
        def resize_and_count(storage: torch.UntypedStorage, size: int) -> Any:
            result = resize(storage, size)
            live = self._live.get(storage)
            if live is not None:
                self._change(live, storage.nbytes())
            return result

        # Freeing a gathered parameter resizes its storage, which is no dispatched operation.
        torch.UntypedStorage.resize_ = resize_and_count  # type: ignore[method-assign,assignment]
        super().__enter__()  # type: ignore[no-untyped-call]  # torch gives it no types
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]  # torch gives it no types
        torch.UntypedStorage.resize_ = self._resize  # type: ignore[method-assign]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented
        kwargs = kwargs or {}
        if func is torch.ops._c10d_functional.wait_tensor.default:
            return args[0]
        result = func(*args, **kwargs)
        # The sharding rules of DTensor run operations on shapes only, in a mode of their own.
        if torch._guards.active_fake_mode() is not self._mode:
            return result
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                self._see(tensor)
        rule = self._rules.get(func)
        if rule is not None:
            self._reassign(rule, args, kwargs, result)
        self._note(self._workspace(func, args))
        return result

    def _reassign(self, rule: tuple[str, str], args: Any, kwargs: Any, result: Any) -> None:
        side, category = rule
        where = result if side == "result" else kwargs.get(side)
        if side.startswith("arg"):
            where = args[int(side[3:])]
        for tensor in tree_leaves(where):
            if isinstance(tensor, Tensor):
                self.assign(tensor, category)

    def _see(self, tensor: Tensor) -> None:
        if isinstance(tensor, DTensor):
            return
        inner = getattr(tensor, "__tensor_flatten__", None)
        if inner is not None:
            for name in inner()[0]:
                self._see(getattr(tensor, name))
            return
        storage = tensor.untyped_storage()
        live = self._live.get(storage)
        if live is None:
            self._add(storage, self.category)
        elif live.num_bytes != storage.nbytes():
            self._change(live, storage.nbytes())

    def _add(self, storage: torch.UntypedStorage, category: str) -> None:
        live = _Live(storage.nbytes(), category, None)
        live.reference = weakref.ref(storage, partial(self._freed, live))
        self._live[storage] = live
        self._sums[category] += live.num_bytes
        self._total += live.num_bytes
        self._note(0)

    def _freed(self, live: _Live, _: Any) -> None:
        self._sums[live.category] -= live.num_bytes
        self._total -= live.num_bytes
        live.num_bytes = 0

    def _change(self, live: _Live, num_bytes: int) -> None:
        self._sums[live.category] += num_bytes - live.num_bytes
        self._total += num_bytes - live.num_bytes
        live.num_bytes = num_bytes
        self._note(0)

    def _note(self, workspace_bytes: int) -> None:
        instant = self.instants.setdefault(self.phase + self.label, Instant())
        if self._total + workspace_bytes > instant.peak_bytes:
            instant.peak_bytes = self._total + workspace_bytes
            instant.categories = {name: size for name, size in self._sums.items() if size}
            if workspace_bytes:
                instant.categories["workspace"] = workspace_bytes
