"""Former names of modules and classes: third parties import them for one more version, with a warning that names the new ones."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from warnings import warn


def former(owner: object, name: str, names: Mapping[str, str]) -> object:
    """Return a renamed attribute; to be called by the `__getattr__` of a module or class.

    Args:
        owner: the module or object.
        name: name of an attribute that it lacks.
        names: former name → present name.

    Raises:
        AttributeError: the name is no former one.
    """
    label = owner.__name__ if isinstance(owner, ModuleType) else type(owner).__name__
    if name not in names:
        raise AttributeError(f"{label} has no attribute {name!r}", name=name, obj=owner)
    warn(f"{label}.{name} is now {label}.{names[name]}", DeprecationWarning, stacklevel=3)
    return getattr(owner, names[name])


def install(modules: Mapping[str, str], names: Mapping[str, Mapping[str, str]]) -> None:
    """Make former modules importable: they hold the contents of the present ones.

    Args:
        modules: former name → present name; a package stands before its modules.
        names: former module → former name in it → present name.
    """
    sys.meta_path.append(_FormerModules(modules, names))


class _FormerModules(MetaPathFinder, Loader):
    """Finder of former module names, appended to `sys.meta_path`."""

    def __init__(self, modules: Mapping[str, str], names: Mapping[str, Mapping[str, str]]) -> None:
        self._modules = modules
        self._names = names

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        del path, target
        present = self._modules.get(fullname)
        if present is None:
            return None
        return ModuleSpec(fullname, self, is_package=any(name.startswith(f"{fullname}.") for name in self._modules))

    def exec_module(self, module: ModuleType) -> None:
        present, names = self._modules[module.__name__], self._names.get(module.__name__, {})
        renamed = "".join(f", {old} is {new}" for old, new in names.items())
        if not hasattr(module, "__path__"):  # a package warns with its modules
            warn(f"{module.__name__} is now {present}{renamed}", DeprecationWarning, stacklevel=2)
        contents = vars(import_module(present))
        vars(module).update({name: value for name, value in contents.items() if not name.startswith("__")})
        vars(module).update({old: contents[new] for old, new in names.items()})
