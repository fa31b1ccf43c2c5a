"""The parts of Numba without a promise of stability that the compiler of node programs uses.

Numba may change them in any minor version, so the extra ``jit`` has an upper bound, which is raised after the
tests of compiled programs have passed with the new version.  The other modules ``numba_...`` import from
here, and from the public `numba`, `numba.extending` and llvmlite, which do not replace the following:

- ``templates``: attributes and methods whose types depend on the program, such as the fields of a message,
  with keyword arguments and an error that lists the known names.  `numba.extending.overload_attribute` and
  ``overload_method`` compile a function for each attribute that a program uses, so a program that reads 20
  attributes compiles ten times as long.  They define attributes that are few and the same for all programs.
- ``lower_constant``, ``iternext_impl``: objects of the module, and iterators over containers.
- ``arrayobj``, ``listobj``, ``cgutils``: arrays and lists on the memory of the core, without a copy.
- Compiler passes and ``ir``: errors where Python raises them, rejected constructs, and lines of errors.
- ``cpu_target``: loads machine code that was stored, and types a function outside a compilation.

Only the modules ``numba_...`` and `gridsim.scheduling.nodes.compiled` import this module, since it needs the
extra ``jit``.
"""

from __future__ import annotations

from numba.core import cgutils, ir, lowering
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.errors import ConstantInferenceError
from numba.core.imputils import RefType, impl_ret_new_ref, iternext_impl, lower_constant
from numba.core.inline_closurecall import length_of_iterator
from numba.core.ir_utils import build_definitions, get_definition, guard, mk_unique_var
from numba.core.registry import cpu_target
from numba.core.typed_passes import BaseNativeLowering, NativeLowering, NopythonTypeInference
from numba.core.typing import signature, templates
from numba.core.unsafe import eh
from numba.core.untyped_passes import LiteralUnroll
from numba.cpython import listobj
from numba.np import arrayobj
from numba.np.numpy_support import as_dtype

__all__ = [
    "BaseNativeLowering",
    "CompilerBase",
    "ConstantInferenceError",
    "DefaultPassBuilder",
    "FunctionPass",
    "LiteralUnroll",
    "NativeLowering",
    "NopythonTypeInference",
    "RefType",
    "arrayobj",
    "as_dtype",
    "build_definitions",
    "cgutils",
    "compute_cfg_from_blocks",
    "cpu_target",
    "eh",
    "get_definition",
    "guard",
    "impl_ret_new_ref",
    "ir",
    "iternext_impl",
    "length_of_iterator",
    "listobj",
    "lower_constant",
    "lowering",
    "mk_unique_var",
    "register_pass",
    "signature",
    "templates",
]
