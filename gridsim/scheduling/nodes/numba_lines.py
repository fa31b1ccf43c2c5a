"""Lowering of the methods of nodes, which records the line at which a method ends with an error.

Errors of Numba's own code and of the core have no line of the program in their traceback.  Each return with
an error therefore writes the place into the field ``place`` of the context; paths without an error do not
change.

Only `gridsim.scheduling.nodes.numba_checks` imports this module, since it needs the extra ``jit``.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir as llvm

from gridcore.nodes.compiled_calls import CONTEXT
from gridsim.scheduling.nodes.compile_errors import place_number
from gridsim.scheduling.nodes.numba_internals import (
    BaseNativeLowering,
    NativeLowering,
    ir,
    lowering,
    register_pass,
)
from gridsim.scheduling.nodes.numba_types import I64, NodeType

__all__ = ["record_lines"]


class _LocatingLower(lowering.Lower):  # type: ignore[misc]  # Numba has no types
    """Lowering of one function."""

    def lower_inst(self, inst: Any) -> None:
        node = self.fndesc.argtypes[0] if self.fndesc.argtypes else None
        if not isinstance(node, NodeType) or isinstance(inst, ir.Return):
            super().lower_inst(inst)
            return
        present = {block for block in self.function.blocks if _returns(block)}
        calls = node.program.calls
        super().lower_inst(inst)
        place = place_number(node.program.policy, self.func_ir.func_id.func, inst.loc.line)
        if not place or node.program.calls != calls:  # the called method has recorded its own line
            return
        for block in self.function.blocks:
            if block not in present and _returns(block):
                self._record(node, block, place)

    def _record(self, node: Any, block: Any, place: int) -> None:
        builder = llvm.IRBuilder(block)
        builder.position_before(block.terminator)
        field = self.context.data_model_manager[node].get_field_position("context")
        # no proxy, which would allocate in the entry block without the knowledge of Numba's builder
        pointer = builder.extract_value(self.fnargs[0], field)
        words = builder.bitcast(pointer, I64.as_pointer())
        at = builder.gep(words, [llvm.Constant(I64, CONTEXT.index("place"))])
        builder.store(llvm.Constant(I64, place), at)


def _returns(block: Any) -> bool:
    return isinstance(block.terminator, llvm.Ret)


@register_pass(mutates_CFG=True, analysis_only=False)
class _LocatingLowering(BaseNativeLowering):  # type: ignore[misc]  # Numba has no types
    """Pass that lowers a function with `_LocatingLower`."""

    _name = "gridsim_lowering"

    @property
    def lowering_class(self) -> Any:
        return _LocatingLower


def record_lines(passes: Any) -> None:
    """Replace the lowering of a pass manager by one that records the lines of errors."""
    passes.passes = [
        (_LocatingLowering if cls is NativeLowering else cls, text) for cls, text in passes.passes
    ]
