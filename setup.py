"""Finds the kernels to compile, and has their directives; everything else is in pyproject.toml."""

import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

# the largest first: they take longest to compile
KERNELS = sorted(Path("gridcore").glob("*.pyx"), key=lambda path: (-path.stat().st_size, path.name))
CHECKED = os.environ.get("GRIDCORE_CHECKED") == "1"
# for clang, such as "address,undefined"; with "fuzzer-no-link" a fuzzer sees which branches are taken
SANITIZE = os.environ.get("GRIDCORE_SANITIZE", "")

# Results must not depend on the processor: no fused multiply-add, no fast-math, no -march.  A checked build
# is one without optimization too: the golden digests say that it makes no difference.  Without what debuggers
# want (Python's own flags ask for it) a wheel is a quarter as large, and does not tell where it was built.
OPTIMIZE = "-O0" if CHECKED else "-O3"
FLAGS = ["/O2"] if sys.platform == "win32" else [OPTIMIZE, "-ffp-contract=off", "-fno-math-errno", "-g0"]
if SANITIZE:
    FLAGS += [f"-fsanitize={SANITIZE}", "-fno-omit-frame-pointer", "-g", "-O1"]

setup(
    # one compiler for each processor: most of an installation is compiling
    options={"build_ext": {"parallel": os.cpu_count() or 1}},
    ext_modules=cythonize(
        [
            Extension(
                f"gridcore.{path.stem}",
                [path.as_posix()],
                extra_compile_args=FLAGS,
                depends=sorted(path.as_posix() for path in Path("gridcore").glob("*.h")),
            )
            for path in KERNELS
        ],
        compiler_directives={
            "language_level": "3",
            "boundscheck": CHECKED,
            "wraparound": False,
            "initializedcheck": CHECKED,
            "cdivision": True,
            "embedsignature": True,
            "embedsignature.format": "python",
        },
    ),
)
