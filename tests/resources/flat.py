"""Peak memory of runs of several lengths, in kernels and in Python; a script for `test_flat_memory`.

    python flat.py LENGTHS CASE...   with allocations.so preloaded

The script prints a JSON line for each case, in bytes: the peak of kernels, the peak of Python and numpy
beyond the memory at the start of the run, and the tables of the result.
"""

from __future__ import annotations

import gc
import json
import sys
import tracemalloc

from counting import Gate
from memory_cases import scenario, schedulers

from gridsim.simulation.options import Options
from gridsim.simulation.simulate import Simulation


def main(lengths: str, *names: str) -> None:
    gate, known = Gate(), schedulers()
    for name in names or list(known):
        lines: dict[str, list[int]] = {"applications": [], "tasks": []}
        lines |= {"peaks": [], "python": [], "tables": []}
        for times in map(int, lengths.split(",")):
            actual = scenario(name.partition(";")[0], times, 12.0)
            gc.collect()
            before = gate.live, gate.blocks
            gate.arm()
            tracemalloc.start()
            run = Simulation(actual, known[name], Options(time_limit=1e7))
            gc.collect()
            began, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            result = run.run()
            lines["python"].append(tracemalloc.get_traced_memory()[1] - began)
            tracemalloc.stop()
            columns = [column for table in result.tables.values() for _, column in table.items()]
            lines["tables"].append(sum(column.nbytes for column in columns))
            lines["applications"].append(len(result.applications["tasks"]))
            lines["tasks"].append(int(result.applications["tasks"].sum()))
            del run, result, columns
            gc.collect()
            lines["peaks"].append(gate.peak - before[0])
            assert (gate.live, gate.blocks) == before, f"{name} left {gate.live - before[0]} bytes"
        print(json.dumps({"case": name, **lines}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
