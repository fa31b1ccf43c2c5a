"""What runs of several lengths hold of the kernels' memory at most; a script for `test_flat_memory`.

    python flat.py LENGTHS CASE...   with allocations.so preloaded

It prints a JSON line a case.
"""

from __future__ import annotations

import gc
import json
import sys

from counting import Gate
from memory_cases import scenario, schedulers

from gridsim.simulation import simulate


def main(lengths: str, *names: str) -> None:
    gate, known = Gate(), schedulers()
    for name in names or list(known):
        peaks, rows = [], []
        for times in map(int, lengths.split(",")):
            made = scenario(name.partition(";")[0], times, 12.0)
            gc.collect()
            before = gate.live, gate.blocks
            gate.arm()
            rows.append(int(simulate(made, known[name], time_limit=1e7).applications["tasks"].size))
            gc.collect()
            peaks.append(gate.peak - before[0])
            assert (gate.live, gate.blocks) == before, f"{name} left {gate.live - before[0]} bytes"
        print(json.dumps({"case": name, "applications": rows, "peaks": peaks}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
