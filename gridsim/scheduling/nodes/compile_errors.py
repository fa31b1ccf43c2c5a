"""Explanations of why a node program cannot be compiled, from its source and Numba's errors."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import os
import re
import textwrap
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock
from typing import Any

from gridcore.common.names import closest
from gridcore.nodes.containers import Fifo, Heap, IntMap, IntSet
from gridsim.errors import CompileError, GridSimError
from gridsim.scheduling.nodes.program import NodeProgram
from gridsim.scheduling.nodes.rewrites import (
    calls_by_position,
    count_iterations,
    has_super,
    has_try,
    local_names,
    replace_super,
    with_source,
)

__all__ = ["NotCompiled", "compilable_function", "compile_error", "place_number", "place_of", "place_text"]


#: Parsing raises SystemError in Python 3.11 if two threads do it at once.
_PARSING = Lock()


class NotCompiled(Exception):
    """A construct of a program that cannot be compiled.

    Parameters
    ----------
    reason
        The construct that cannot be compiled, and its replacement.
    at
        File and line, if they are known.
    """

    def __init__(self, reason: str, at: tuple[str, int] | None = None) -> None:
        super().__init__(reason)
        self.at = at


# -- the source ----------------------------------------------------------------------------------------------

#: Syntax that cannot be compiled -> text with a replacement.
_UNSUPPORTED_SYNTAX: dict[type[ast.AST], str] = {
    ast.GeneratorExp: "a generator cannot be compiled; write a list in brackets, or a loop",
    ast.Yield: "a generator cannot be compiled; write a loop",
    ast.YieldFrom: "a generator cannot be compiled; write a loop",
    ast.Await: "await cannot be compiled",
    ast.Import: "an import in a method cannot be compiled; write it at the top of the file",
    ast.ImportFrom: "an import in a method cannot be compiled; write it at the top of the file",
    ast.Global: "a global name cannot be assigned to when compiled; keep the value in an attribute",
    ast.With: "with cannot be compiled",
    ast.ClassDef: "a class in a method cannot be compiled",
}


_CONTAINERS = {cls.__name__ for cls in (Fifo, Heap, IntMap, IntSet)}


def compilable_function(function: Any, policy: type, jit: Callable[[Any], Any]) -> Any:
    """Return a function, such as a method of `policy`, in a form that Numba can compile.

    Parameters
    ----------
    jit
        Function that returns a version of a function that Numba compiles when it is called.

    Raises
    ------
    NotCompiled
        For the first construct that cannot be compiled, with its line.
    """
    code = function.__code__
    if code.co_name == "<lambda>":  # the source of a lambda is the statement around it
        return function
    try:
        lines, first_line = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):  # Numba reports other constructs, less clearly
        for construct, is_used in (("super()", has_super(function)), ("try", has_try(function))):
            if is_used:
                at = code.co_filename, code.co_firstlineno
                raise NotCompiled(
                    f"{construct} can be compiled only if the method is in a file", at
                ) from None
        return function
    ast.increment_lineno(tree, first_line - 1)
    if has_super(function):
        replace_super(function, policy, tree)
    _check_source(function, tree)
    callees = calls_by_position(function, tree)
    has_loops = count_iterations(tree)
    if not (callees or has_loops or has_super(function)):
        return function
    return with_source(function, policy, tree, callees, jit)


def _check_source(function: Any, tree: ast.Module) -> None:
    """Raise NotCompiled for the first construct that cannot be compiled in `tree`, the function's source."""
    own_names = local_names(function.__code__)
    problems = (
        (node.lineno, node.col_offset, reason)
        for node in ast.walk(tree)
        for reason in _problems(node, function.__globals__, own_names)
        if isinstance(node, (ast.stmt, ast.expr, ast.arg, ast.keyword, ast.excepthandler))
    )
    line, _, reason = min(problems, default=(0, 0, ""))
    if reason:
        raise NotCompiled(reason, (function.__code__.co_filename, line))


def _problems(node: ast.AST, names: dict[str, Any], own_names: set[str]) -> Iterator[str]:
    """Yield the reasons why `node` cannot be compiled.

    Parameters
    ----------
    names
        The globals of the module.
    own_names
        The names of the method's local variables.
    """
    if type(node) in _UNSUPPORTED_SYNTAX:
        yield _UNSUPPORTED_SYNTAX[type(node)]
    match node:
        case ast.FunctionDef(args=ast.arguments(kwonlyargs=[first, *_])):
            yield f"{node.name} has the keyword-only argument {first.arg}; write it without the *"
        case ast.FormattedValue(format_spec=spec, conversion=conversion) if spec or conversion != -1:
            yield "a format in an f-string cannot be compiled; write {name} without : and !"
        case ast.Starred(ctx=ast.Store()):
            yield "a * in an assignment cannot be compiled; write one assignment for each name"
        case ast.NamedExpr(target=ast.Name(id=name)):
            yield f"{name} := ... cannot be compiled; write {name} = ... in a line of its own"
        case ast.keyword(arg=None):
            yield "** in a call cannot be compiled; write the arguments by their names"
        case ast.Delete(targets=targets) if not all(isinstance(each, ast.Subscript) for each in targets):
            yield "del of a name or an attribute cannot be compiled"
        case ast.ExceptHandler(type=kind) if kind is None or ast.unparse(kind) != "Exception":
            yield "only except Exception can be compiled; write that, or check before"
        case ast.Name(id="super") if "super" not in own_names:
            yield "super() can be compiled only as super().name, without arguments"
        case ast.Attribute(value=ast.Name(id=name), attr=attr) if name not in own_names:
            if isinstance(value := names.get(name), type) and issubclass(value, NodeProgram):
                yield f"{name}.{attr} cannot be compiled, as {name} is a class of nodes; write self.{attr}"
        case ast.Name(id=name) if name not in own_names and name not in names and not hasattr(builtins, name):
            yield f"the name {name} is not defined; {closest([*own_names, *names], name)}".rstrip("; ")
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _CONTAINERS:
            yield f"a {name} must be an attribute that __init__ sets, which clear() empties"
        case ast.Name(id=name) if name not in own_names and isinstance(
            value := names.get(name), (dict, list, set)
        ):
            yield (
                f"{name} is a {type(value).__name__} of the module, which cannot be compiled; write a tuple "
                "or an array there, or an attribute"
            )


def place_of(definition: Any) -> str:
    """Return ``"file:line: "`` of a function or class; "" if its source is not known."""
    try:
        code = getattr(definition, "__code__", None)
        if code is not None:
            return f"{code.co_filename}:{code.co_firstlineno}: "
        with _PARSING:
            return f"{inspect.getsourcefile(definition)}:{_class_line(definition)}: "
    except (OSError, TypeError):
        return ""


def _class_line(kind: type) -> int:
    """Return the first line of a class: above its first method, or where `inspect` finds it in the file."""
    codes = [code for each in vars(kind).values() if (code := getattr(each, "__code__", None)) is not None]
    own = [code for code in codes if code.co_qualname.startswith(f"{kind.__qualname__}.")]
    if own:
        first = min(own, key=lambda code: code.co_firstlineno)
        head = re.compile(rf"\s*class\s+{kind.__name__}\b")
        lines = linecache.getlines(first.co_filename)[: first.co_firstlineno]
        for number in range(len(lines), 0, -1):
            if head.match(lines[number - 1]):
                return number
    return inspect.getsourcelines(kind)[1]


# -- places of errors in compiled methods --------------------------------------------------------------------


def place_number(policy: type, function: Any, line: int) -> int:
    """Return the number of a line of a method, from which `place_text` gets the line; 0 if it is unknown.

    The number combines the index of the method in the class and the line in the method, so that machine code
    on disk stays valid if the method moves in its file.
    """
    for index, method in enumerate(_methods(policy), start=1):
        code = method.__code__
        if (code.co_filename, code.co_firstlineno) == (
            function.__code__.co_filename,
            function.__code__.co_firstlineno,
        ):
            return index << 32 | max(0, line - code.co_firstlineno)
    return 0


def place_text(policy: type, number: int) -> tuple[str, str, int]:
    """Return the method, the file and the line of a number of `place_number`."""
    method = _methods(policy)[(number >> 32) - 1]
    code = method.__code__
    return method.__name__, code.co_filename, code.co_firstlineno + (number & 0xFFFFFFFF)


def _methods(policy: type) -> list[types.FunctionType]:
    entries = [
        entry.fget if isinstance(entry, property) else entry
        for cls in policy.__mro__
        for entry in vars(cls).values()
    ]
    return [entry for entry in entries if isinstance(entry, types.FunctionType)]


# -- errors of Numba -----------------------------------------------------------------------------------------

#: Patterns of Numba's error messages, and the texts that replace them.
_REPLACEMENTS = {
    r"Untyped global name '(\w+)'.*<class 'function'>": r"\1 is a function of Python; make it a method of "
    "the node, or decorate it with numba.njit",
    r"Untyped global name '(\w+)'.*": r"Numba does not support \1 of Python",
    r"Unknown attribute '(\w+)' of type (SharedArray|SummaryGrid)\(.*": r"compiled nodes do not support "
    r"\2.\1",
    r"No implementation of function .*": r"Numba does not support \g<0> of Python or NumPy",
    r"Numba does not support setitem\(readonly .*": "the array is read-only; change a copy, np.array(...)",
    r"AssertionError: Implementation function .*": "Numba does not support this call of Python or NumPy",
    r"Cannot unify (.+?) and (.+?) for '([^.']+).*": r"\3 is \1 at one place and \2 at another",
    r"Can't unify return type from the following types: (.*)": r"it returns values of different types: \1",
    r"Cannot infer the type of variable .* list\(undefined\).*": "the numbers of an empty list have no type; "
    "write np.zeros(0), or np.zeros(0, np.int64) for ints",
    r"AttributeError: 'NoneType' .* 'args'": "an array cannot hold the values assigned to it",
}
#: Patterns of the names of Numba's types, and the texts that replace them.
_TYPES: dict[str, str] = {
    r"Literal\[(int|str|bool)\]\((.*?)\)": r"\2",
    r"NodeType\(.*?\(\)\)": "self",
    r"(View|Random|Application|Message|Request|Parameters)Type\(\S+@\d+, \(.*?\)\)": r"the \1",
    r"Enum<\w+>\((\w+)\)": r"\1, an enum",
    r"<iv=.*?>": "",
    r"Function\((<.*?>)\)": r"\1",
    r"(?<!np\.)float64": "float",
    r"(?<!np\.)\bint64": "int",
    r"(?:readonly )?array\((\w+), (\d)d, \w+\)": r"an array of \1",
    r"unicode_type": "text",
    r" Raised from .*": "",
}
_PACKAGE_FOLDER = Path(__file__).parent


def compile_error(program: Any, method: str, error: Exception) -> Exception:
    """Return the error to raise if a handler cannot be compiled, with the place and a remedy.

    Parameters
    ----------
    program
        A `gridsim.scheduling.nodes.numba_types.Program`.
    method
        The name of the handler.
    error
        The error that was raised while the handler was compiled.
    """
    if isinstance(error, (GridSimError, MemoryError)):
        return error
    location = _place(error) or _first_line(program, method)
    text = str(error)
    if not isinstance(error, NotCompiled):
        text = f"{linecache.getline(*location).strip()!r} cannot be compiled: {_cause(error)}"
    for pattern, replacement in _TYPES.items():
        text = re.sub(pattern, replacement, text)
    helper, name = _method_at(program, location), program.policy.__name__
    place = "" if helper in (None, method) else f"{helper}, which {name}.{method} calls"
    return CompileError(f"{location[0]}:{location[1]}: {name}.{place or method}: {text}")


def _cause(error: Exception) -> str:
    """Return the cause of a Numba error: the line of its message that helps users of gridsim."""
    lines = [line.strip() for line in re.sub(r"\x1b\[[\d;]*m", "", str(error)).splitlines() if line.strip()]
    causes = [
        line for line in lines if not re.match(r"(- |Failed in|Overload|During|File|There are|>>>)", line)
    ]
    text = (causes or lines or [""])[0]
    if not type(error).__module__.startswith("numba."):
        text = f"{type(error).__name__}: {text}"
    call = next((line[4:] for line in lines if line.startswith(">>> ")), "such function")
    for pattern, replacement in _REPLACEMENTS.items():
        text = re.sub(pattern, replacement.replace(r"\g<0>", call), text)
    return text


def _place(error: BaseException) -> tuple[str, int] | None:
    """Return the file and line of the user's program that `error` names or that Numba was compiling."""
    places = [getattr(error, "at", None)]
    for pattern in (r"Raised from (\S.*) \((\d+)\)", r'File "([^"]+)", line (\d+):'):
        places += [(os.path.abspath(file), int(line)) for file, line in re.findall(pattern, str(error))]
    trace, locations = error.__traceback__, []
    while trace is not None:
        for name in ("self", "inst", "loc"):
            location: Any = trace.tb_frame.f_locals.get(name)
            location = getattr(location, "loc", location)
            if isinstance(line := getattr(location, "line", None), int):
                locations.append((os.path.abspath(location.filename), line))
        trace = trace.tb_next
    return next(
        (at for at in (*places, *reversed(locations)) if at is not None and _is_users_file(at[0])), None
    )


def _is_users_file(file: str) -> bool:
    path = Path(file)
    return path.is_file() and path.parent != _PACKAGE_FOLDER and "numba" not in path.parts


def _first_line(program: Any, method: str) -> tuple[str, int]:
    code = getattr(inspect.getattr_static(program.policy, method), "__code__", None)
    return ("?", 0) if code is None else (code.co_filename, code.co_firstlineno)


def _method_at(program: Any, at: tuple[str, int]) -> str | None:
    """Return the name of the program's method at a file and line; None if there is no such method."""
    name: str
    for cls in program.policy.__mro__:
        for name, attribute in vars(cls).items():
            function = attribute.fget if isinstance(attribute, property) else attribute
            if isinstance(function, types.FunctionType) and _has_line(function.__code__, *at):
                return name
    return None


def _has_line(code: types.CodeType, file: str, line: int) -> bool:
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    lines = [number for *_, number in code.co_lines() if number is not None]
    within = os.path.abspath(code.co_filename) == os.path.abspath(file) and min(lines) <= line <= max(lines)
    return within or any(_has_line(code, file, line) for code in inner)
