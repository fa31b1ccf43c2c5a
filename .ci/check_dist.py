"""Whether sdist and wheel have what they should: `python .ci/check_dist.py SDIST WHEEL [INSTALLED]`.

The sdist has every file that git knows, as it is here, and what setuptools adds; the wheel has every source
of the two packages, as it is here, each kernel compiled once, and nothing else.  INSTALLED is a folder of
packages (`site-packages`) into which the tree was installed without an sdist: it must have the same bytes,
compiled files included, so that a build repeats itself and the sdist lacks nothing that changes the result.
"""

import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
ADDED = ("PKG-INFO", "setup.cfg", "gridsched.egg-info/")
PACKAGES = ("gridcore", "gridsim")
MADE = {"gridcore/common/_cyutility.pyx"}  # of no source: what Cython adds to all kernels, see setup.py
UNTYPED = {"gridcore/common/arguments.pyi"}  # of a kernel that has nothing for Python
SOURCES = {
    ".py",
    ".pyi",
    ".pyx",
    ".pxd",
    ".h",
    ".html",
    ".j2",
    ".css",
    ".js",
    ".typed",
    ".toml",
    ".txt",
    ".swf",
    ".avt",
    ".md",
    ".ipynb",
}


def differ(what: str, expected: set[str], found: set[str]) -> list[str]:
    lacks, more = sorted(expected - found), sorted(found - expected)
    return [f"{what} lacks {name}" for name in lacks] + [f"{what} should not have {name}" for name in more]


def changed(names: set[str], found: dict[str, bytes]) -> list[str]:
    return [name for name in sorted(names) if (ROOT / name).read_bytes() != found[name]]


def in_git() -> set[str]:
    run = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    return set(filter(None, run.stdout.split("\0")))


def in_sdist(path: str) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        files = {m.name.split("/", 1)[1]: m for m in archive.getmembers() if not m.isdir()}
        own = {name: m for name, m in files.items() if not name.startswith(ADDED)}
        return {name: archive.extractfile(m).read() if m.isfile() else b"" for name, m in own.items()}


def in_wheel(path: str) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        return {name: archive.read(name) for name in names if ".dist-info/" not in name}


def main(sdist: str, wheel: str, installed: str | None = None) -> int:
    git, packed, source = in_git(), in_wheel(wheel), in_sdist(sdist)
    wrong = differ("the sdist", git, set(source))
    wrong += [f"the sdist has another {name}" for name in changed(git & set(source), source)]
    kernels = {name for name in packed if PurePosixPath(name).suffix in {".so", ".pyd"}}
    sources = {
        name for name in git if name.startswith(PACKAGES) and PurePosixPath(f"x{name}").suffix in SOURCES
    }
    types = {f"{name[:-1]}i" for name in sources if name.endswith(".pyx")} - UNTYPED  # which setup.py writes
    wrong += differ("the wheel", sources | types, set(packed) - kernels)
    wrong += [f"the wheel has another {name}" for name in changed(sources & set(packed), packed)]
    compiled = {name.split(".")[0] + ".pyx" for name in kernels}
    kinds = {name for name in sources if name.endswith(".pyx")} | MADE
    wrong += differ("the wheel, compiled,", kinds, compiled)
    built = tempfile.gettempdir().encode()
    wrong += [f"{name} names the folder it was built in" for name in kernels if built in packed[name]]
    for name, data in packed.items() if installed else ():
        other = Path(str(installed), name)
        if not other.is_file() or other.read_bytes() != data:
            wrong.append(f"{name} is not the same in the wheel and in what was installed from the tree")
    print("\n".join(wrong) or f"{len(git)} files in the sdist, {len(packed)} in the wheel, as they should be")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
