"""Runs in which allocations of kernels fail one by one; a script for `test_out_of_memory`.

    python failing.py CASE...   with allocations.so preloaded

At each place in a kernel that allocates, three allocations of a case fail: the first, a middle one and the
last.  The middle one also fails in a run that continues.  The script prints a JSON line for each case.
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

#: Time after which a run counts as hanging, s.
_HANGS = 60.0


def with_retry(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return `call` with a second attempt after MemoryError."""

    def call_twice(*args: Any) -> Any:
        try:
            return call(*args)
        except MemoryError:
            return call(*args)

    return call_twice


def _on_with_retry(on: Callable[..., None]) -> Callable[..., None]:
    """Return `Engine.on` for handlers with a second attempt."""

    def register(self: Engine, kind: str, handler: Callable[[Any], None], **rest: Any) -> None:
        on(self, kind, with_retry(handler), **rest)

    return register


def outcome_of(gate: Gate, case: Callable[[], Any], k: int) -> str:
    """Return the outcome of a case whose allocation k fails."""
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


def violations(gate: Gate, case: Callable[[], Any], plan: dict[int, str], middle: set[int]) -> list[str]:
    """Return descriptions of all violations."""
    messages, original = [], (Engine.on, Engine._poll)
    gc.collect()
    before = gate.live, gate.blocks
    for k, location in plan.items():
        for continues in (False, True)[: 1 + (k in middle)]:
            print(
                f"{location} goes on: {continues}", file=sys.stderr, flush=True
            )  # shown if the process crashes
            if continues:
                Engine.on, Engine._poll = _on_with_retry(original[0]), with_retry(original[1])
            outcome = outcome_of(gate, case, k)
            Engine.on, Engine._poll = original
            gc.collect()
            if not continues and outcome != "MemoryError":
                messages.append(f"{location} ended with {outcome}")
            if (gate.live, gate.blocks) != before:
                messages.append(f"{location} left {gate.live - before[0]} bytes, goes on: {continues}")
            if gate.torn:
                messages.append(f"{location} was written beyond its end, goes on: {continues}")
                break
    return messages


def main(names: list[str]) -> None:
    gate = Gate()
    for name in names or list(CASES):
        case = CASES[name]
        case()  # the first run allocates caches
        gc.freeze()  # so that collections skip the imported modules
        gate.arm()
        case()
        sites: dict[str, list[int]] = {}
        for k in range(1, gate.counted + 1):
            sites.setdefault(gate.site(k), []).append(k)
        failing = {
            k: f"{name}: allocation {k} at {site}"
            for site, ks in sorted(sites.items())
            for k in {ks[0], ks[len(ks) // 2], ks[-1]}
        }
        messages = violations(gate, case, failing, {ks[len(ks) // 2] for ks in sites.values()})
        record = {"case": name, "failed": len(failing), "sites": sorted(sites), "wrong": messages}
        print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
