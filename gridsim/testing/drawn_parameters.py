"""A Hypothesis strategy for schedulers with drawn parameters."""

from __future__ import annotations

import math
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from gridcore.common.names import listed
from gridsim.errors import ScenarioError
from gridsim.scheduling.contract import Scheduler
from gridsim.support.parameters import Limits

__all__ = ["parameters"]

_S = TypeVar("_S", bound=Scheduler)
#: The range of drawn numbers without an upper limit, above their lower limit.
_RANGE = 10


def parameters(scheduler: type[_S], /, **values: Any) -> st.SearchStrategy[_S]:
    """Draw schedulers of a class with various parameters, for `check_scheduler`.

    Numbers are drawn within their `gridsim.Limits`, near the lower one, since small limits are reached most
    often; bools, literals and None are drawn as annotated.  Parameters of other types keep their defaults.

    Parameters
    ----------
    scheduler
        The class of the schedulers.
    **values
        Parameters with a fixed value, or with a strategy that draws it.

    Raises
    ------
    ScenarioError
        If the class has no parameter of a given name.

    Examples
    --------
    >>> import gridsim as gs
    >>> from hypothesis import strategies as st
    >>> drawn = parameters(gs.Sparrow, ratio=st.sampled_from([1.0, 2.0]))
    """
    hints = get_type_hints(scheduler, include_extras=True)
    names = scheduler.__struct_fields__
    for name in values:
        if name not in names:
            raise ScenarioError(f"{scheduler.__name__} has no parameter {name!r}; {listed(names, name)}")
    strategies: dict[str, st.SearchStrategy[Any]] = {}
    for name in names:
        if name in values:
            value = values[name]
            strategies[name] = value if isinstance(value, st.SearchStrategy) else st.just(value)
        elif (drawn := _strategy(hints.get(name), Limits())) is not None:
            strategies[name] = drawn
    schedulers = st.builds(_make, st.just(scheduler), st.fixed_dictionaries(strategies))
    return cast("st.SearchStrategy[_S]", schedulers.filter(lambda candidate: candidate is not None))


def _make(scheduler: type[_S], values: dict[str, Any]) -> _S | None:
    """Return the scheduler; None if these parameters do not fit together."""
    try:
        return scheduler(**values)
    except ScenarioError:
        return None


def _strategy(annotation: Any, limits: Limits) -> st.SearchStrategy[Any] | None:
    """Return a strategy for values of an annotation; None if the type is not supported."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        limits = next((extra for extra in arguments[1:] if isinstance(extra, Limits)), limits)
        return _strategy(arguments[0], limits)
    if origin in (Union, UnionType):
        parts = [_strategy(part, limits) for part in arguments]
        supported = [part for part in parts if part is not None]
        return st.one_of(supported) if supported else None
    if origin is Literal:
        return st.sampled_from(arguments)
    if annotation is NoneType or annotation is None:
        return st.none()
    if annotation is bool:
        return st.booleans()
    if annotation not in (int, float):
        return None
    return _numbers(annotation, limits)


def _numbers(kind: type, limits: Limits) -> st.SearchStrategy[Any]:
    low = limits.low if limits.low is not None else limits.above if limits.above is not None else 0.0
    high = low + _RANGE if limits.high is None else min(limits.high, low + _RANGE)
    if kind is int:
        first = math.floor(low) + 1 if limits.low is None and limits.above is not None else math.ceil(low)
        return st.integers(first, max(first, math.floor(high)))
    is_exclusive = limits.low is None and limits.above is not None
    steps = [low + (high - low) * part for part in (0.0, 0.01, 0.1, 0.5, 1.0)]
    return st.sampled_from(steps[is_exclusive:]) | st.floats(low, high, exclude_min=is_exclusive)
