"""Finds the kernels to compile, with their directives, and writes their types; see pyproject.toml."""

import gzip
import os
import runpy
import sys
import tarfile
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

# the largest first: they take longest to compile
KERNELS = sorted(Path("gridcore").rglob("*.pyx"), key=lambda path: (-path.stat().st_size, path.name))
CHECKED = os.environ.get("GRIDCORE_CHECKED") == "1"
# such as "address,undefined" with CC=clang, or "thread"; with "fuzzer-no-link" a fuzzer sees branches taken
SANITIZE = os.environ.get("GRIDCORE_SANITIZE", "")

# Results must not depend on the processor: no fused multiply-add, no fast-math, no -march.  A checked build
# is one without optimization too: the golden digests say that it makes no difference.  Without what debuggers
# want (Python's own flags ask for it) a wheel is a quarter as large, and does not tell where it was built.
OPTIMIZE = "-O0" if CHECKED else "-O3"
# Sums wrap, so that counters from a hostile state are wrong, not undefined.
FLAGS = [OPTIMIZE, "-ffp-contract=off", "-fno-math-errno", "-fwrapv", "-g0"]
if sys.platform == "win32":
    FLAGS = ["/O2"]
LINK = []
if SANITIZE:
    # A finding ends the run.
    checks = [f"-fsanitize={SANITIZE}", "-fno-sanitize-recover=all"]
    FLAGS += [*checks, "-fno-omit-frame-pointer", "-g", "-O1", "-Wno-pass-failed"]
    # Python is not built so: the run-time library is a shared one, to be loaded before Python (LD_PRELOAD).
    # That of gcc is one anyway, and so is clang's on macOS; a fuzzer brings its own.
    shared = sys.platform == "linux" and "clang" in os.environ.get("CC", "") and "fuzzer" not in SANITIZE
    LINK = [*checks, *["-shared-libsan"] * shared]
# What is built otherwise lies elsewhere, or files of one build would be taken for those of another.
FLAVOUR = "-".join(["checked"] * CHECKED + [*filter(None, SANITIZE.split(","))])
BUILD = f"build/{FLAVOUR}" if FLAVOUR else "build"
# What Cython adds to every module that knows memoryviews: compiled once, not with each kernel.
COMMON = "gridcore.common._cyutility"
PROCESSORS = os.cpu_count() or 1


def extension(name: str, path: str) -> Extension:
    headers = sorted(path.as_posix() for path in Path("gridcore").rglob("*.h"))
    return Extension(name, [path], extra_compile_args=FLAGS, extra_link_args=LINK, depends=headers)


class TranslateAndBuild(build_ext):
    """Translate the kernels to C, with Cython, and compile them.  An sdist does without either."""

    def run(self) -> None:
        translated = cythonize(
            self.extensions,
            shared_utility_qualified_name=COMMON,
            nthreads=PROCESSORS,
            build_dir=BUILD if FLAVOUR else None,
            compiler_directives={
                "language_level": "3",
                "boundscheck": CHECKED,
                "wraparound": False,
                "initializedcheck": CHECKED,
                "cdivision": True,
                "annotation_typing": False,  # annotations are for readers and type checkers
                "embedsignature": True,
                "embedsignature.format": "python",
            },
        )
        by_name = {kernel.name: kernel for kernel in translated}
        for kernel in self.extensions:
            for attribute in ("sources", "include_dirs", "depends"):  # the folders of headers, too
                setattr(kernel, attribute, getattr(by_name[kernel.name], attribute))
        super().run()


class ReproducibleSdist(sdist):
    """Write an sdist that depends on its files alone: not on the time, the user, the umask or the folder."""

    def make_archive(self, base_name, format, root_dir=None, base_dir=None, owner=None, group=None):
        if format != "gztar":
            raise ValueError(f"format of an sdist must be 'gztar', got {format!r}")
        time = int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))  # 1980, the first year of a zip archive

        def member(info: tarfile.TarInfo) -> tarfile.TarInfo:
            info.mtime, info.mode = time, 0o755 if info.isdir() or info.mode & 0o100 else 0o644
            info.uid, info.gid, info.uname, info.gname = 0, 0, "", ""
            return info

        path = f"{base_name}.tar.gz"
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with (
            open(path, "wb") as file,
            gzip.GzipFile("", "wb", fileobj=file, mtime=time) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            archive.add(Path(root_dir or ".", base_dir), base_dir, filter=member)  # in the order of names
        return path


if __name__ == "__main__":  # which processes that translate are not
    runpy.run_path("gridcore/common/stubs.py")["write"](Path("gridcore").absolute())
    setup(
        # Cython and a compiler for each processor: they take most of an installation
        options={"build": {"build_base": BUILD}, "build_ext": {"parallel": PROCESSORS}},
        cmdclass={"build_ext": TranslateAndBuild, "sdist": ReproducibleSdist},
        ext_modules=[
            extension(COMMON, COMMON.replace(".", "/") + ".c"),
            *(extension(".".join(path.with_suffix("").parts), path.as_posix()) for path in KERNELS),
        ],
    )
