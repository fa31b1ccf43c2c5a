"""A pass of the compiler of node programs that refuses variables that may be unset where they are used.

Python raises UnboundLocalError there; machine code would read whatever is in memory.  Only
`gridsim.scheduling.nodes.numba_checks` imports this module, since it needs the extra ``jit``.
"""

from __future__ import annotations

from typing import Any

from numba.core import ir
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.compiler_machinery import FunctionPass, register_pass

from gridsim.scheduling.nodes.compilable import NotCompiled


@register_pass(mutates_CFG=False, analysis_only=True)
class RefuseUnsetPass(FunctionPass):
    """Pass that raises NotCompiled if a path leads to the use of a variable without setting it."""

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
    """Return, for each block that can be reached, the variables that are set on all paths to it."""
    graph = compute_cfg_from_blocks(blocks)
    order = [label for label in graph.topo_order() if label not in graph.dead_nodes()]
    own = {label: {each.target.name for each in blocks[label].find_insts(ir.Assign)} for label in order}
    all_names = set().union(*own.values())
    at_begin = {label: set(all_names) for label in order}
    at_begin[graph.entry_point()] = set()
    is_changed = True
    while is_changed:
        is_changed = False
        for label in order:
            before = [at_begin[each] | own[each] for each, _ in graph.predecessors(label) if each in own]
            if before and label != graph.entry_point():
                now = set.intersection(*before)
                is_changed |= now != at_begin[label]
                at_begin[label] = now
    return at_begin
