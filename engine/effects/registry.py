"""Declaration and discovery of callbacks.

    @callback(level="job", to=["Completed", "Failed"])
    def ring(notice: Notice) -> None:
        print(notice)

Callbacks are found in the modules of the configuration and through the entry points of installed packages, never by a path or the
content of an event.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, wraps
from importlib.metadata import EntryPoint
from importlib.metadata import entry_points as installed_entry_points
from inspect import currentframe, isasyncgenfunction, iscoroutinefunction, isgeneratorfunction, signature
from math import isfinite
from pathlib import Path
from types import ModuleType
from typing import Any, Final, ParamSpec, TypeVar, get_type_hints

from engine.arguments import RequestError, must_fit
from engine.effects.errors import (
    CallbackError,
    CallbackModuleError,
    Disable,
    DuplicateCallbackError,
    RetryLater,
    UnknownCallbackError,
)
from engine.effects.modules import MODULE_NAME, import_named
from engine.effects.notice import BudgetNotice, Notice, Told
from engine.effects.receiver import DONE, Outcome, Receiver, describe, printable
from engine.events.times import SECOND
from statemachines.callbacks import BudgetSelector, Selector, parse_selector
from statemachines.errors import SelectorError
from statemachines.names import hint

ENTRY_POINTS: Final = "lahar.callbacks"
"""Group of entry points, each for a callback or a module that declares callbacks."""

TIME_LIMIT: Final = 30 * SECOND
"""Default time limit of a callable (microseconds)."""

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")

P = ParamSpec("P")
R = TypeVar("R")

Names = str | Sequence[str] | None


@dataclass(slots=True, frozen=True)
class Callback:
    """A Python callable as a `Receiver`. Calling it calls the function, for tests."""

    name: str
    selector: Selector | BudgetSelector
    function: Callable[[Any], object]
    """Function of one argument: the notice."""
    time_limit: int = TIME_LIMIT
    """Time limit of one call (microseconds)."""

    @property
    def origin(self) -> str:
        """Location of the function: `module:name`."""
        place: Any = self.function if hasattr(self.function, "__qualname__") else type(self.function)
        return f"{place.__module__}:{place.__qualname__}"

    def __call__(self, notice: Told) -> object:
        """Call the function."""
        return self.function(notice)

    def receive(self, notice: Told) -> Outcome:
        """Call the function; its exception determines the outcome, its return value is ignored."""
        try:
            self.function(notice)
        except RetryLater as later:
            return Outcome("retry", printable(str(later)), later.delay)
        except Disable as disable:
            return Outcome("disable", printable(str(disable)) or "asked to be disabled")
        return DONE


def _checked(declaration: Callable[P, R]) -> Callable[P, R]:
    """Check the arguments of a declaration; a mistake is a `CallbackError` with the location of the call."""
    known = signature(declaration).parameters
    wanted = get_type_hints(declaration)

    @wraps(declaration)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        frame = currentframe()
        caller = None if frame is None else frame.f_back
        name = declaration.__name__
        where = name if caller is None else f"{caller.f_globals.get('__name__')}, line {caller.f_lineno}: {name}"
        if args:
            raise CallbackError(f"{where} takes named arguments only: write @{name}(), or @{name}(…) with what it selects")
        if unknown := sorted(kwargs.keys() - known.keys()):
            raise CallbackError(f"{where} has no argument {unknown[0]!r}; it has {', '.join(known)}{hint(unknown[0], known)}")
        for argument, value in kwargs.items():
            try:
                must_fit(argument, value, wanted[argument])
            except RequestError as error:
                raise CallbackError(f"{where}: {error}") from None
        return declaration(*args, **kwargs)

    return call


@_checked
def callback(
    *,
    level: Names = None,
    from_: Names = None,
    to: Names = None,
    reason: Names = None,
    task: Names = None,
    labels: Mapping[str, str] | None = None,
    name: str | None = None,
    time_limit: float = TIME_LIMIT / SECOND,
) -> Callable[[Callable[[Notice], object]], Callback]:
    """Declare a function to be a callback.

    Args:
        level: `job`, `task`, `replica`, or several; `None` selects all, here and in the next four.
        from_: phases left.
        to: phases entered.
        reason: reasons.
        task: names of tasks.
        labels: labels that the job must have, all of them.
        name: name of its cursor; `None`: the function's name. A callback with a new name starts at the beginning.
        time_limit: time limit of one call (seconds).

    Raises:
        CallbackError: an argument is unknown or has a wrong type, the selection matches no transition, the name or the time limit
            is invalid, or the function is asynchronous, a generator, or does not take exactly one argument.
    """

    def declare(function: Callable[[Notice], object]) -> Callback:
        found, where = _declared(function, name, time_limit)
        content = {"level": level, "from": from_, "to": to, "reason": reason, "task": task}
        given = {field: _listed(value) for field, value in content.items() if value is not None}
        try:
            selector = parse_selector({**given, "labels": labels})
        except SelectorError as error:
            raise CallbackError(f"{where}: {error}") from None
        return replace(found, selector=selector)

    return declare


@_checked
def budget_callback(
    *, tenant: Names = None, name: str | None = None, time_limit: float = TIME_LIMIT / SECOND
) -> Callable[[Callable[[BudgetNotice], object]], Callback]:
    """Declare a function to be called when a threshold of a budget is crossed.

    Args:
        tenant: tenants; `None`: all.
        name: as in `callback`.
        time_limit: as in `callback`.

    Raises:
        CallbackError: as in `callback`.
    """

    def declare(function: Callable[[BudgetNotice], object]) -> Callback:
        found, _ = _declared(function, name, time_limit)
        tenants = [] if tenant is None else [tenant] if isinstance(tenant, str) else list(tenant)
        return replace(found, selector=BudgetSelector(frozenset(tenants)))

    return declare


def _declared(function: Callable[[Any], object], name: str | None, time_limit: float) -> tuple[Callback, str]:
    """Return a callback that selects everything, and its name for messages."""
    called: str = getattr(function, "__name__", "") if name is None else name
    found = Callback(called, Selector(), function)
    where = f"callback {called!r} ({found.origin})"
    if not _NAME.fullmatch(called):
        raise CallbackError(f"{where}: give it a `name` of up to 100 letters, digits, `_`, `-` and `.`")
    if not (isfinite(time_limit) and time_limit > 0):
        raise CallbackError(f"{where}: time_limit must be more than 0 seconds, not {time_limit}")
    _check_callable(where, function)
    return replace(found, time_limit=int(time_limit * SECOND)), where


def _listed(names: str | Sequence[str]) -> str | list[str]:
    return names if isinstance(names, str) else list(names)


def _check_callable(where: str, function: Callable[[Any], object]) -> None:
    if iscoroutinefunction(function) or isasyncgenfunction(function) or isgeneratorfunction(function):
        raise CallbackError(f"{where} is asynchronous or a generator; write a plain function, it is called in its own thread")
    try:
        taken = signature(function)
    except ValueError:
        return  # some functions written in C have no signature
    try:
        taken.bind(None)
    except TypeError:
        raise CallbackError(f"{where} cannot be called with one argument, the notice") from None


class Registry:
    """All receivers of a process, by name."""

    def __init__(self, receivers: Iterable[Receiver] = ()) -> None:
        """Register receivers.

        Raises:
            DuplicateCallbackError: two of them have the same name.
        """
        self._receivers: dict[str, Receiver] = {}
        for receiver in receivers:
            self.add(receiver)

    def add(self, receiver: Receiver) -> None:
        """Register a receiver; registering it again changes nothing.

        Raises:
            DuplicateCallbackError: another one has its name.
        """
        known = self._receivers.setdefault(receiver.name, receiver)
        if known is not receiver:
            raise DuplicateCallbackError(receiver.name, known.origin, receiver.origin)

    def get(self, name: str) -> Receiver:
        """Return the receiver of that name.

        Raises:
            UnknownCallbackError: there is none.
        """
        found = self._receivers.get(name)
        if found is None:
            raise UnknownCallbackError(name, self._receivers)
        return found

    def __iter__(self) -> Iterator[Receiver]:
        """Yield the receivers in order of registration."""
        return iter(self._receivers.values())

    def __len__(self) -> int:
        """Return the number of receivers."""
        return len(self._receivers)


def load(modules: Iterable[str] = (), beside: Path | None = None, *, entry_points: bool = True) -> Registry:
    """Find all callbacks.

    Args:
        modules: dotted names of modules to import; callbacks among their attributes are registered.
        beside: directory that is searched first; `None`: only Python's search path.
        entry_points: also register those of installed packages in the group `lahar.callbacks`.

    Raises:
        CallbackModuleError: a name is not that of a module, its import fails, or it declares no callback.
        CallbackError: a callback's declaration is invalid.
        DuplicateCallbackError: two callbacks have the same name.
    """
    registry = Registry()
    for name in modules:
        if not MODULE_NAME.fullmatch(name):
            raise CallbackModuleError(f"callbacks: {name!r} is not a module; write a dotted name: `import my_platform.callbacks`")
        _add(registry, f"module {name}", partial(import_named, name, beside))
    if entry_points:
        for entry in sorted(installed_entry_points(group=ENTRY_POINTS), key=lambda entry: (entry.name, entry.value)):
            _add(registry, _where(entry), entry.load)
    return registry


def _where(entry: EntryPoint) -> str:
    package = f" of {entry.dist.name}" if entry.dist else ""
    return f"entry point {entry.name} = {entry.value}{package}"


def _add(registry: Registry, where: str, find: Callable[[], object]) -> None:
    try:
        found = find()
    except CallbackError:
        raise
    except Exception as error:  # the import runs third-party code, which may raise anything
        raise CallbackModuleError(f"callbacks: {where} cannot be imported: {describe(error)}") from error
    if isinstance(found, Callback):
        registry.add(found)
        return
    declared = [value for value in vars(found).values() if isinstance(value, Callback)] if isinstance(found, ModuleType) else []
    if not declared:
        raise CallbackModuleError(f"callbacks: {where} declares no callback; put @callback(…) above a function")
    for one in declared:
        registry.add(one)
