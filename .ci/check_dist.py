"""Whether sdist and wheel have what they should: `python .ci/check_dist.py SDIST WHEEL [INSTALLED]`.

The sdist has every file that git knows, but those of the services that run the checks; the wheel has every
source of the two packages, each kernel compiled once, and nothing else.  INSTALLED is a folder of packages
(`site-packages`) into which the tree was installed without an sdist: it must have the same bytes, compiled
files included, so that a build repeats itself and the sdist lacks nothing that changes the result.
"""

import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
ONLY_IN_GIT = (".ci/", ".github/", ".gitignore")
ONLY_IN_SDIST = ("PKG-INFO", "setup.cfg", "gridcore.egg-info/")
PACKAGES = ("gridcore", "gridsim")
SOURCES = {".py", ".pyi", ".pyx", ".pxd", ".h", ".j2", ".css", ".js", ".typed"}


def differ(what: str, expected: set[str], found: set[str]) -> list[str]:
    lacks, more = sorted(expected - found), sorted(found - expected)
    return [f"{what} lacks {name}" for name in lacks] + [f"{what} should not have {name}" for name in more]


def in_git() -> set[str]:
    run = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    return {name for name in run.stdout.split("\0") if name and not name.startswith(ONLY_IN_GIT)}


def in_sdist(path: str) -> set[str]:
    with tarfile.open(path) as archive:
        names = {m.name.split("/", 1)[1] for m in archive.getmembers() if m.isfile()}
    return {name for name in names if not name.startswith(ONLY_IN_SDIST)}


def in_wheel(path: str) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        return {name: archive.read(name) for name in names if ".dist-info/" not in name}


def main(sdist: str, wheel: str, installed: str | None = None) -> int:
    git, packed = in_git(), in_wheel(wheel)
    wrong = differ("the sdist", git, in_sdist(sdist))
    kernels = {name for name in packed if PurePosixPath(name).suffix in {".so", ".pyd"}}
    sources = {
        name for name in git if name.startswith(PACKAGES) and PurePosixPath(f"x{name}").suffix in SOURCES
    }
    wrong += differ("the wheel", sources, set(packed) - kernels)
    compiled = {name.split(".")[0] + ".pyx" for name in kernels}
    wrong += differ("the wheel, compiled,", {name for name in sources if name.endswith(".pyx")}, compiled)
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
