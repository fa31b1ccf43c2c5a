"""Rewrites of the source of functions in node programs, for features that Numba lacks or gets wrong.

``super().name`` in a method becomes ``self.name@k``, an attribute with the name `base_name`: the member found
from class number k of the method resolution order on.

In a ``try`` statement Numba loses the names of keyword arguments, since its blocks end after each instruction
there.  A call with keywords, such as ``view.send(3, "task", tasks=n)``, is replaced by a positional call of a
new function: ``send_0(view, n)`` with ``return a0.send(3, "task", tasks=a1)``.  A list or dict such as
``[self.weigh(k) for k in places]``, in which an error would end the method, is also replaced by a call.

Machine code cannot be interrupted, so each ``while`` loop calls `check_loop` after every `STRIDE` iterations.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Callable
from dis import get_instructions
from typing import Any

__all__ = [
    "MAX_ITERATIONS",
    "base_name",
    "calls_by_position",
    "check_loop",
    "count_iterations",
    "has_super",
    "has_try",
    "local_names",
    "method_text",
    "replace_super",
    "split_base_name",
    "with_source",
]


# -- super() -------------------------------------------------------------------------------------------------


def base_name(name: str, start: int) -> str:
    """Return the attribute name for `super().name`, which is looked up from class number `start` on."""
    return f"{name}@{start}"


def split_base_name(name: str) -> tuple[str, int]:
    """Return the arguments of `base_name`, or (name, 0) for a plain name."""
    name, _, start = name.partition("@")
    return name, int(start or 0)


def method_text(name: str) -> str:
    """Return ``self.name``, or ``super().name`` for a name from `base_name`."""
    name, start = split_base_name(name)
    return f"super().{name}" if start else f"self.{name}"


def has_super(function: Any) -> bool:
    """Return whether a method calls ``super()``."""
    return "super" in function.__code__.co_names and "__class__" in function.__code__.co_freevars


def replace_super(function: Any, policy: type, tree: ast.Module) -> None:
    """Replace ``super().name`` in `tree`, the source of a method of `policy`."""
    owner = _free_variables(function)["__class__"].cell_contents
    _SuperCalls(function.__code__.co_varnames[0], policy.__mro__.index(owner) + 1).visit(tree)


class _SuperCalls(ast.NodeTransformer):
    def __init__(self, node_name: str, start: int) -> None:
        self.node_name, self.start = node_name, start

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        match node.value:
            case ast.Call(func=ast.Name(id="super"), args=[], keywords=[]):
                node.value = ast.copy_location(ast.Name(self.node_name, ast.Load()), node.value)
                node.attr = base_name(node.attr, self.start)
        return node


# -- calls in try statements ---------------------------------------------------------------------------------


def has_try(function: Any) -> bool:
    """Return whether a function has a ``try`` statement that handles errors."""
    return any(step.opname == "PUSH_EXC_INFO" for step in get_instructions(function))


def calls_by_position(function: Any, tree: ast.Module) -> list[ast.FunctionDef]:
    """Replace calls with keywords, lists and dicts in ``try`` statements of `tree`, the source of a function.

    Returns
    -------
    list of ast.FunctionDef
        The functions that the new calls invoke.
    """
    calls = _CallsInTry(local_names(function.__code__))
    calls.visit(tree)
    return calls.functions


class _CallsInTry(ast.NodeTransformer):
    def __init__(self, names: set[str]) -> None:
        self.names, self.depth = names, 0
        self.functions: list[ast.FunctionDef] = []

    def visit_Try(self, node: ast.Try) -> ast.AST:
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not (self.depth and node.keywords):
            return node
        arguments: list[ast.expr] = []

        def parameter(value: ast.expr) -> ast.expr:
            """Return the expression with which the new function reads `value`."""
            if self._is_constant(value):
                return value
            if isinstance(value, ast.Starred):
                return ast.Starred(parameter(value.value), ast.Load())
            arguments.append(value)
            return ast.Name(f"a{len(arguments) - 1}", ast.Load())

        target = node.func
        if isinstance(target, ast.Attribute):
            target = ast.Attribute(parameter(target.value), target.attr, ast.Load())
        else:
            target = parameter(target)
        call = ast.Call(
            target,
            [parameter(value) for value in node.args],
            [ast.keyword(each.arg, parameter(each.value)) for each in node.keywords],
        )
        name = getattr(target, "attr", "call").partition("@")[0].strip("_")
        parameters = [f"a{k}" for k in range(len(arguments))]
        return self._call_of(node, name, call, parameters, arguments)

    def visit_ListComp(self, node: ast.ListComp | ast.DictComp) -> ast.AST:
        if not self.depth:
            return self.generic_visit(node)
        names = [part for part in ast.walk(node) if isinstance(part, ast.Name) and part.id in self.names]
        own_names = {part.id for part in names if isinstance(part.ctx, ast.Store)}
        # the first iterable is evaluated outside the brackets
        own_names -= {part.id for part in ast.walk(node.generators[0].iter) if isinstance(part, ast.Name)}
        parameters = sorted({part.id for part in names} - own_names)
        return self._call_of(
            node, "list", node, parameters, [ast.Name(each, ast.Load()) for each in parameters]
        )

    visit_DictComp = visit_ListComp

    def _call_of(
        self, node: ast.expr, name: str, result: ast.expr, parameters: list[str], arguments: list[Any]
    ) -> ast.AST:
        """Return the call of a new function that replaces `node`, with the line of `node` for errors."""
        function: Any = ast.parse("def call(): pass").body[0]
        function.name, function.body = f"{name}_{len(self.functions)}@try", [ast.Return(result)]
        function.args.args = [ast.arg(parameter) for parameter in parameters]
        self.functions.append(ast.fix_missing_locations(ast.copy_location(function, node)))
        call = ast.Call(ast.Name(function.name, ast.Load()), arguments, [])
        return ast.fix_missing_locations(ast.copy_location(call, node))

    def _is_constant(self, value: ast.expr) -> bool:
        """Return whether a value is a literal, or a name of the module or an attribute of one."""
        match value:
            case ast.Constant() | ast.UnaryOp(operand=ast.Constant()):
                return True
            case ast.Name(id=name):
                return name not in self.names
            case ast.Attribute(value=owner):
                return self._is_constant(owner)
        return False


def local_names(code: types.CodeType) -> set[str]:
    """Return the names of the local variables of a function, and of functions in it."""
    inner = [local_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return {*code.co_varnames, *code.co_cellvars, *code.co_freevars}.union(*inner)


# -- while loops ---------------------------------------------------------------------------------------------

#: Maximum number of iterations of a ``while`` loop of a compiled method; a longer loop counts as endless.
MAX_ITERATIONS = 10**9
#: Number of iterations between two calls of `check_loop`; a power of 2, for speed.
STRIDE = 2**20
#: The statements added before a ``while`` loop, and at the beginning of its body.
_COUNTING = f"""
count = 0
while True:
    count += 1
    if count % {STRIDE} == 0:
        check(count)
"""
#: The name of `check_loop` in changed source.
_CHECK = "check_loop@while"


def check_loop(count: int) -> None:
    """Raise an error after too many iterations of a loop, or on a signal such as Ctrl-C.

    Only compiled methods call it; `gridsim.scheduling.nodes.numba_checks` has its code.
    """
    raise NotImplementedError


def count_iterations(tree: ast.Module) -> bool:
    """Make the ``while`` loops in `tree`, the source of a function, call `check_loop`.

    Returns
    -------
    bool
        Whether there are any.
    """
    loops = _WhileLoops()
    loops.visit(tree)
    return loops.count > 0


class _WhileLoops(ast.NodeTransformer):
    def __init__(self) -> None:
        self.count = 0

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        self.generic_visit(node)
        counting: Any = ast.parse(_COUNTING)
        for part in ast.walk(counting):
            ast.copy_location(part, node)
            if isinstance(part, ast.Name):
                part.id = _CHECK if part.id == "check" else f"{part.id}@{self.count}"
        self.count += 1
        start, loop = counting.body
        node.body[:0] = loop.body
        return [start, node]


# -- functions with changed source ---------------------------------------------------------------------------


def with_source(
    function: Any, policy: type, tree: ast.Module, callees: list[ast.FunctionDef], jit: Callable[[Any], Any]
) -> Any:
    """Return `function` with the code of `tree`, its changed source.

    Parameters
    ----------
    policy
        The class of the method, or the class that uses the function.
    callees
        Further functions that `tree` calls.
    jit
        Function that returns a version of one of them that Numba compiles when it is called.
    """
    definition: Any = tree.body[0]
    definition.decorator_list = []
    cells = _free_variables(function)
    # private names depend on the class, and free variables on an outer function
    owner = next((cls.__name__ for cls in policy.__mro__ if function in _functions_of(cls)), policy.__name__)
    outer: Any = ast.parse(f"def outer({', '.join(cells.keys() - {'__class__'})}):\n class {owner}: pass")
    outer.body[0].body[0].body = [definition, *callees]
    module = compile(outer, function.__code__.co_filename, "exec", dont_inherit=True)
    body = _code_in(_code_in(module, "outer"), owner)
    names = {**function.__globals__, _CHECK: check_loop}
    for each in callees:
        names[each.name] = jit(types.FunctionType(_code_in(body, each.name), names, each.name))
    code = _code_in(body, definition.name)
    closure = tuple(cells[name] for name in code.co_freevars)
    return types.FunctionType(code, names, function.__name__, function.__defaults__, closure)


def _functions_of(cls: type) -> list[Any]:
    return [entry.fget if isinstance(entry, property) else entry for entry in vars(cls).values()]


def _code_in(code: types.CodeType, name: str) -> types.CodeType:
    """Return the code of the function or class `name` that is defined in `code`."""
    inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
    return next(each for each in inner if each.co_name == name)


def _free_variables(function: Any) -> dict[str, Any]:
    return dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
