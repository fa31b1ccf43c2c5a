"""Constructors of platforms, workloads, faults and background load, made from their recipes.

A parameter is declared in its recipe alone: its type, limits, default and description.  The stub of this
module has the signatures of the constructors for editors and type checkers; ``python -m
tests.invariants.test_constructors`` writes it.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

from gridsim.model.distributions import Range, amount_of
from gridsim.support.arguments import listed
from gridsim.support.columns import FloatColumn, IntColumn, NumbersColumn, RaggedColumn, TextColumn
from gridsim.support.docstrings import parameter_entries
from gridsim.support.parameters import CheckedStruct, FilePath, Text, fields_of

_Kind = TypeVar("_Kind", bound=type)

#: Type of a field of a recipe -> type of the argument.
_ARGUMENTS: dict[Any, str] = {
    FloatColumn: "float | Iterable[float] | NDArray[Any]",
    IntColumn: "int | Iterable[int] | NDArray[Any]",
    TextColumn: "str | Iterable[str] | NDArray[Any]",
    NumbersColumn: "Iterable[int | Iterable[int]] | NDArray[Any]",
    RaggedColumn: "Iterable[Iterable[float]] | NDArray[Any]",
    Text: "str",
    FilePath: "str | os.PathLike[str]",
}
#: Name of a class -> the class that its constructors return.
_NOUNS = {
    "Platform": "a platform",
    "Workload": "a workload",
    "Faults": "faults",
    "Fluctuation": "background load",
}


class PlatformConstructors:
    """Constructors of `gridsim.Platform`."""


class WorkloadConstructors:
    """Constructors of `gridsim.Workload`."""


class FaultsConstructors:
    """Constructors of `gridsim.Faults`."""


class FluctuationConstructors:
    """Constructors of `gridsim.Fluctuation`."""


class Constructor(NamedTuple):
    """How a class method makes an object from a recipe.

    Parameters
    ----------
    recipe
        The recipe.
    positional
        Its fields, separated by blanks, that may be given by position, in this order; the others must be
        given by name.
    """

    recipe: type[CheckedStruct]
    positional: str = ""

    @property
    def parameters(self) -> list[inspect.Parameter]:
        """The parameters of the constructor."""
        fields = {field.encode_name: field for field in fields_of(self.recipe).values()}
        positional = self.positional.split()
        keywords = [name for name in fields if name not in positional]
        return [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY
                if name in keywords
                else inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=inspect.Parameter.empty if (field := fields[name]).required else field.default,
                annotation=argument_type(field.type),
            )
            for name in (*positional, *keywords)
        ]

    def make(self, arguments: dict[str, Any]) -> CheckedStruct:
        """Return the recipe with these arguments.

        A tuple (low, high) becomes a `Range` where the field allows one.
        """
        fields = {field.encode_name: field for field in fields_of(self.recipe).values()}
        values = {}
        for name, argument in arguments.items():
            field = fields[name]
            if Range in members_of(field.type) and argument is not None:
                argument = amount_of(f"{self.recipe.part}.{name}", argument)
            values[field.name] = argument
        return self.recipe(**values)

    def docstring(self, noun: str) -> str:
        """Return the docstring of a function that returns a `noun` made from the recipe."""
        text = inspect.cleandoc(self.recipe.__doc__ or "")
        head, _, raised = text.partition("Raises\n------\n")
        head = head.partition("Parameters\n----------\n")[0].rstrip()
        names = {parameter.name for parameter in self.parameters}
        entries = [
            f"{heading}\n{description.rstrip()}"
            for base in self.recipe.__mro__
            for heading, description in parameter_entries(base)
            if names & set(heading.split(", "))
        ]
        parts = [f"Return {noun}: {head[:1].lower()}{head[1:]}"]
        if entries:
            parts.append("\n".join(["Parameters\n----------", *dict.fromkeys(entries)]))
        if raised:
            parts.append(f"Raises\n------\n{raised.rstrip()}")
        return "\n\n".join(parts)


def members_of(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the type itself, without their annotations."""
    if get_origin(hint) is Annotated and hint not in (Text, FilePath):
        return members_of(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(member for part in get_args(hint) for member in members_of(part))
    return (hint,)


def argument_type(hint: Any) -> str:
    """Return the type of an argument, as text, for a field with this type hint."""
    members = members_of(hint)
    texts = []
    for member in members:
        if member in _ARGUMENTS:
            texts.append(_ARGUMENTS[member])
        elif member is Range:
            texts.append("tuple[float, float] | Sequence[float]")
        elif get_origin(member) is tuple:
            if Range not in members:
                texts.append(f"Iterable[{argument_type(get_args(member)[0])}]")
        elif get_origin(member) is Literal:
            texts.append(f"Literal[{', '.join(map(repr, get_args(member)))}]")
        else:
            texts.append("None" if member is type(None) else member.__name__)
    return " | ".join(texts)


def constructors(**by_name: Constructor) -> Callable[[_Kind], _Kind]:
    """Decorate a class so that it has these constructors, as class methods."""

    def decorate(kind: _Kind) -> _Kind:
        for name, constructor in by_name.items():
            setattr(kind, name, _LazyMethod(kind, name, constructor))
        kind.constructors = by_name  # type: ignore[attr-defined]
        return kind

    return decorate


class _LazyMethod:
    """A class method that is made at its first use, since its signature and docstring take long to make."""

    def __init__(self, kind: type, name: str, constructor: Constructor) -> None:
        self._kind, self._name, self._constructor = kind, name, constructor

    def __get__(self, instance: Any, owner: type | None = None) -> Callable[..., Any]:
        method = classmethod(_method(self._kind.__name__, self._name, self._constructor))
        setattr(self._kind, self._name, method)
        return method.__get__(instance, owner)


def _method(owner: str, name: str, constructor: Constructor) -> Callable[..., Any]:
    def make(cls: Any, *arguments: Any, **keywords: Any) -> Any:
        signature = inspect.signature(make)
        known = list(signature.parameters)[1:]
        for keyword in keywords:
            if keyword not in known:
                raise TypeError(f"{owner}.{name}() has no argument {keyword!r}; {listed(known, keyword)}")
        try:
            bound = signature.bind(cls, *arguments, **keywords)
        except TypeError as error:
            raise TypeError(f"{owner}.{name}(): {error}") from None
        del bound.arguments["cls"]
        return cls(constructor.make(bound.arguments))

    make.__name__, make.__qualname__ = name, f"{owner}.{name}"
    own = inspect.Parameter("cls", inspect.Parameter.POSITIONAL_ONLY)
    make.__signature__ = inspect.Signature([own, *constructor.parameters])  # type: ignore[attr-defined]
    make.__doc__ = constructor.docstring(_NOUNS[owner])
    return make
