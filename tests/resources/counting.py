"""Interface to the preloaded library that counts the allocations of kernels and makes some fail."""

from __future__ import annotations

import ctypes

from memory_cases import MODULES

_LONGS = ("counted", "failed", "live", "peak", "blocks", "torn")


class Gate:
    """The counters of allocations.c: `counted` allocations and `peak` bytes since `arm`, `live` bytes, ..."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self._arm, self._site, watch = library.arm, library.site, library.watch
        self._arm.argtypes = [ctypes.c_long, ctypes.c_long]
        self._site.argtypes, self._site.restype = [ctypes.c_long], ctypes.c_size_t
        watch.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
        self._longs = {name: ctypes.c_long.in_dll(library, name) for name in _LONGS}
        self._places: list[tuple[int, int, str]] = []
        files = {module.__file__: module.__name__.removeprefix("gridcore.") for module in MODULES}
        with open("/proc/self/maps") as maps:
            rows = [line.split() for line in maps]
        bases = {row[-1]: int(row[0].split("-")[0], 16) for row in reversed(rows)}
        for span, mode, *_, name in rows:
            if name in files and "x" in mode:
                low, high = (int(end, 16) for end in span.split("-"))
                watch(low, high)
                self._places.append((low, bases[name], files[name]))

    def __getattr__(self, name: str) -> int:
        return self._longs[name].value

    def arm(self, first: int = 0, last: int = 0) -> None:
        """Reset the counters; make allocations `first`..`last`, numbered from 1, fail."""
        self._arm(first, last)

    def site(self, k: int) -> str:
        """Return the kernel and the offset in its file of allocation k since `arm`."""
        address: int = self._site(k)
        _, base, name = max(entry for entry in self._places if entry[0] <= address)
        return f"{name}+{address - base:#x}"
