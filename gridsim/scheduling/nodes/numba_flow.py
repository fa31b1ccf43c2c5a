"""Passes of the compiler of node programs on the flow of control.

One rejects variables that may be unset where they are used: Python raises UnboundLocalError there, and
machine code would read undefined memory.  The other one makes a ``try`` statement catch the errors of its
loops.

Only `gridsim.scheduling.nodes.numba_checks` imports this module, since it needs the extra ``jit``.
"""

from __future__ import annotations

from typing import Any

from gridsim.scheduling.nodes.compile_errors import NotCompiled
from gridsim.scheduling.nodes.numba_internals import (
    FunctionPass,
    build_definitions,
    compute_cfg_from_blocks,
    eh,
    ir,
    mk_unique_var,
    register_pass,
)

__all__ = ["CatchInLoopsPass", "RefuseUnsetPass"]


@register_pass(mutates_CFG=False, analysis_only=True)
class RefuseUnsetPass(FunctionPass):
    """Pass that raises NotCompiled if a variable may be used before it is set."""

    _name = "gridsim_refuse_unset"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        blocks = state.func_ir.blocks
        at_begin = _set_at_begin(blocks)
        for label, is_set in at_begin.items():
            for statement in blocks[label].body:
                if isinstance(statement, ir.Del):
                    continue
                target = statement.target if isinstance(statement, ir.Assign) else None
                for variable in _used(statement):
                    if not variable.startswith("$") and variable not in is_set:
                        name, loc = variable.partition(".")[0], statement.loc
                        text = f"{name!r} may be unset here; set it before the if or the loop"
                        raise NotCompiled(text, (loc.filename, loc.line))
                if target is not None:
                    is_set.add(target.name)
        return False


def _used(statement: Any) -> list[str]:
    """Return the names of the variables that a statement reads."""
    if isinstance(statement, ir.Assign):
        value = statement.value
        return [each.name for each in value.list_vars()] if hasattr(value, "list_vars") else []
    return [each.name for each in statement.list_vars()]


def _set_at_begin(blocks: dict[int, Any]) -> dict[int, set[str]]:
    """Return, for each reachable block, the variables that are set on all paths to it."""
    graph = compute_cfg_from_blocks(blocks)
    order = [label for label in graph.topo_order() if label not in graph.dead_nodes()]
    assigned_names = {
        label: {each.target.name for each in blocks[label].find_insts(ir.Assign)} for label in order
    }
    all_names = set().union(*assigned_names.values())
    at_begin = {label: set(all_names) for label in order}
    at_begin[graph.entry_point()] = set()
    is_changed = True
    while is_changed:
        is_changed = False
        for label in order:
            predecessors = [
                at_begin[each] | assigned_names[each]
                for each, _ in graph.predecessors(label)
                if each in assigned_names
            ]
            if predecessors and label != graph.entry_point():
                common_names = set.intersection(*predecessors)
                is_changed |= common_names != at_begin[label]
                at_begin[label] = common_names
    return at_begin


@register_pass(mutates_CFG=True, analysis_only=False)
class CatchInLoopsPass(FunctionPass):
    """Pass that adds a test for an error after each step of an iterator in a ``try`` statement.

    Numba adds such tests only to the other blocks of the statement.  Without this pass, an error of the
    iterator, as for a container that has changed, would end the method.
    """

    _name = "gridsim_catch_in_loops"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        blocks = state.func_ir.blocks
        loops = compute_cfg_from_blocks(blocks).loops()
        for label in [label for label in loops if any(blocks[label].find_exprs(op="iternext"))]:
            handlers = {_handler_after(blocks[entry]) for entry in loops[label].entries} - {None}
            if handlers:  # the loop begins in one `try` statement
                _test_for_error(blocks, label, handlers.pop())
        state.func_ir._definitions = build_definitions(blocks)
        return True


def _handler_after(block: Any) -> int | None:
    """Return the label of the handler to which a test for an error at the end of a block leads, if any."""
    values: dict[str, Any] = {each.target.name: each.value for each in block.find_insts(ir.Assign)}
    test: Any = values.get(block.terminator.cond.name) if isinstance(block.terminator, ir.Branch) else None
    function = values.get(test.func.name) if getattr(test, "op", "") == "call" else None
    is_test = isinstance(function, ir.Global) and function.value is eh.exception_check
    return block.terminator.truebr if is_test else None


def _test_for_error(blocks: dict[int, Any], label: int, handler: int | None) -> None:
    """Add a test for an error to the end of a block; its last statement moves to a new block."""
    block, rest = blocks[label], max(blocks) + 1
    end, scope, loc = block.body.pop(), block.scope, block.loc
    function, error = (ir.Var(scope, mk_unique_var(name), loc) for name in ("$check", "$is_error"))
    block.append(ir.Assign(ir.Global("exception_check", eh.exception_check, loc), function, loc))
    block.append(ir.Assign(ir.Expr.call(function, (), (), loc), error, loc))
    block.append(ir.Branch(error, handler, rest, loc))
    blocks[rest] = ir.Block(scope, loc)
    blocks[rest].append(end)
