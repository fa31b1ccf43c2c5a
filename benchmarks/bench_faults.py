"""How soon `check_scheduler` finds each planted fault: scenarios and seconds, over ten seeds.

The faults are those of `tests/_helpers/planted.py` (schedulers on cohorts), `planted_nodes.py` (node
programs), `planted_rigid.py` (schedulers of rigid jobs) and the other modules `planted_*.py` there.  A check
has up to 200 scenarios of up to 12 machines.  Other interpreters are started for the faults
that only they show.  Seconds are of the processor, of this process and those, which take a second.

    python benchmarks/bench_faults.py [--seeds 10] [--faults A,B] [--minutes 60] [--out faults.jsonl]

Seed 0 of all faults comes first, then the faults that needed many scenarios with few seeds so far.  Checks
that are in the file already are not done again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
import warnings
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "_helpers"))

from gridsim.testing import ConformanceError, check_scheduler

EXAMPLES, MACHINES = 200, 12


def checked(name: str, fault: Any, seed: int) -> dict[str, Any]:
    """Return what was found, after how many scenarios and seconds; the law is "" for nothing."""
    before = sum(os.times()[:4])
    row: dict[str, Any] = {"fault": name, "kind": fault.kind, "tier": fault.tier, "seed": seed, "law": ""}
    with tempfile.TemporaryDirectory() as folder:
        try:
            row["examples"] = check_scheduler(
                fault.scheduler(),
                examples=EXAMPLES,
                max_nodes=MACHINES,
                hash_seeds="hash seed" in fault.laws,
                seed=seed,
                shrink=False,
                folder=folder,
            ).examples
        except ConformanceError as error:
            row |= {"law": error.law, "examples": error.examples, "said": str(error.args[0])[:300]}
    return row | {"seconds": sum(os.times()[:4]) - before}


def table(rows: list[dict[str, Any]]) -> None:
    """Print a row for each fault, and one for each kind and tier."""
    print("| kind | tier | faults | in every seed | scenarios, median | most | s, median | most |")
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    groups = sorted({(row["kind"], row["tier"]) for row in rows})
    for kind, tier in [*groups, ("all", "")]:
        mine = [row for row in rows if kind == "all" or (row["kind"], row["tier"]) == (kind, tier)]
        faults = {row["fault"] for row in mine}
        always = faults - {row["fault"] for row in mine if not row["law"]}
        found = [row for row in mine if row["law"]]
        cells = []
        for key in ("examples", "seconds"):
            values = [row[key] for row in found] or [0]
            cells += [f"{median(values):.3g}", f"{max(values):.3g}"]
        print(f"| {kind} | {tier} | {len(faults)} | {len(always)} | {' | '.join(cells)} |")
    seeds = {row["fault"]: 0 for row in rows}
    for row in rows:
        seeds[row["fault"]] += 1
    print(f"\n{len(rows)} checks, {min(seeds.values())} to {max(seeds.values())} seeds a fault")
    for row in rows:
        if not row["law"]:
            print(f"passed: {row['fault']}, seed {row['seed']}")


def main() -> None:
    """Check what is not in the file yet, and print the table."""
    faults = {
        **import_module("planted").PLANTED,
        **import_module("planted_nodes").PLANTED_NODES,
        **import_module("planted_rigid").PLANTED_RIGID,
        **import_module("planted_future").PLANTED_FUTURE,
        **import_module("planted_reports").PLANTED_REPORTS,
        **import_module("planted_rare").PLANTED_RARE,
        **import_module("planted_roles").PLANTED_ROLES,
        **import_module("planted_shared").PLANTED_SHARED,
        **import_module("planted_jobs").PLANTED_JOBS,
        **import_module("planted_variants").PLANTED_VARIANTS,
        **import_module("planted_easy").PLANTED_EASY,
    }
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--faults", default=",".join(faults))
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--out", default="faults.jsonl")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    out, until = Path(given.out), time.monotonic() + 60.0 * given.minutes
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    #: Fault -> seed -> scenarios that were needed.
    needed: dict[str, dict[int, int]] = {name: {} for name in given.faults.split(",")}
    rows = [row for row in rows if row["fault"] in needed]
    for row in rows:
        needed[row["fault"]][row["seed"]] = row["examples"]

    def urgency(name: str) -> float:
        counts = needed[name].values()
        return max(counts) / len(counts) ** 2 if counts else math.inf

    while time.monotonic() < until:
        names = [name for name, counts in needed.items() if not counts.keys() >= {*range(given.seeds)}]
        if not names:
            break
        name = max(names, key=urgency)
        seed = min({*range(given.seeds)} - needed[name].keys())
        rows.append(checked(name, faults[name], seed))
        needed[name][seed] = rows[-1]["examples"]
        with out.open("a") as stream:
            stream.write(json.dumps(rows[-1]) + "\n")
    table(rows)


if __name__ == "__main__":
    main()
