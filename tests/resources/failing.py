"""Runs on which allocations of the kernels fail, one after the other; a script for `test_out_of_memory`.

    python failing.py CASE...   with allocations.so preloaded

Of each place in a kernel that allocates, three allocations of a case fail: the first, a middle one and the
last.  The middle one fails once more in a run that goes on regardless.  It prints a JSON line a case.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import sys
from collections.abc import Callable
from typing import Any

from counting import Gate
from memory_cases import CASES

from gridsim.engine.engine import Engine

#: s after which a run hangs.
_HANGS = 60.0


def again(call: Callable[..., Any]) -> Callable[..., Any]:
    """`call`, called a second time where it had no memory."""

    def twice(*args: Any) -> Any:
        try:
            return call(*args)
        except MemoryError:
            return call(*args)

    return twice


def _on(on: Callable[..., None]) -> Callable[..., None]:
    """`Engine.on` for those who go on regardless."""

    def registered(self: Engine, kind: str, handler: Callable[[Any], None], **rest: Any) -> None:
        on(self, kind, again(handler), **rest)

    return registered


def ends(gate: Gate, case: Callable[[], Any], k: int) -> str:
    """How a case ends whose allocation k fails."""
    faulthandler.dump_traceback_later(_HANGS, exit=True)
    gate.arm(k, k)
    try:
        case()
    except MemoryError:
        return "MemoryError"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        failed = gate.failed
        gate.arm()
        faulthandler.cancel_dump_traceback_later()
        assert failed, "an allocation of a first run was not one of the second"
    return "nothing"


def wrong(gate: Gate, case: Callable[[], Any], plan: dict[int, str], middle: set[int]) -> list[str]:
    """What was not as it should be."""
    found, plain = [], (Engine.on, Engine._poll)
    gc.collect()
    before = gate.live, gate.blocks
    for k, where in plan.items():
        for goes_on in (False, True)[: 1 + (k in middle)]:
            print(f"{where} goes on: {goes_on}", file=sys.stderr, flush=True)  # the last words before a crash
            if goes_on:
                Engine.on, Engine._poll = _on(plain[0]), again(plain[1])
            ended = ends(gate, case, k)
            Engine.on, Engine._poll = plain
            gc.collect()
            if not goes_on and ended != "MemoryError":
                found.append(f"{where} ended with {ended}")
            if (gate.live, gate.blocks) != before:
                found.append(f"{where} left {gate.live - before[0]} bytes, goes on: {goes_on}")
            if gate.torn:
                found.append(f"{where} was written beyond its end, goes on: {goes_on}")
                break
    return found


def main(names: list[str]) -> None:
    gate = Gate()
    for name in names or list(CASES):
        case = CASES[name]
        case()  # what is made once, and by the first
        gc.freeze()  # or each collection would look at all that has been imported
        gate.arm()
        case()
        sites: dict[str, list[int]] = {}
        for k in range(1, gate.counted + 1):
            sites.setdefault(gate.site(k), []).append(k)
        chosen = {
            k: f"{name}: allocation {k} at {site}"
            for site, ks in sorted(sites.items())
            for k in {ks[0], ks[len(ks) // 2], ks[-1]}
        }
        found = wrong(gate, case, chosen, {ks[len(ks) // 2] for ks in sites.values()})
        about = {"case": name, "failed": len(chosen), "sites": sorted(sites), "wrong": found}
        print(json.dumps(about), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
