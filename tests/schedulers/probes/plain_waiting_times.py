"""Reference implementation of `gridcore.nodes.waiting_times`: it examines every worker at each step."""

from __future__ import annotations


class WaitingTimes:
    """Waiting times of workers, all with a speed of 1 Mflop/s, by the rules of the kernel."""

    def __init__(self, workers: int, fetch_time: float) -> None:
        self.fetch_time = fetch_time
        self.sent: list[list[float]] = [[] for _ in range(workers)]
        self.running: list[tuple[float, float] | None] = [None] * workers  # start (s) and estimate (Mflop)

    def forget(self, u: int) -> None:
        self.sent[u], self.running[u] = [], None

    def begin(self, u: int, size: float, now: float) -> None:
        self.running[u] = now, size

    def end(self, u: int) -> None:
        assert (entry := self.running[u]) is not None
        self.sent[u].remove(entry[1])
        self.running[u] = None

    def time(self, u: int, now: float) -> float:
        began, estimate = self.running[u] or (now, 0.0)
        return sum(self.sent[u]) - min(now - began, estimate)

    def place(self, first: int, tasks: int, size: float, now: float) -> list[int]:
        workers = range(first, len(self.sent))
        idle = [u for u in workers if not self.sent[u]]
        if len(idle) >= tasks:
            chosen_workers = idle[:tasks]
            for u in chosen_workers:
                self.sent[u].append(size)
            return chosen_workers
        fetching = {
            u: self.fetch_time if self.sent[u] else 0.0 for u in workers
        }  # before these tasks are placed
        chosen_workers = []
        for _ in range(tasks):
            chosen_workers.append(min(workers, key=lambda u: (self.time(u, now) + fetching[u], u)))
            self.sent[chosen_workers[-1]].append(size)
        return chosen_workers
