"""M/M/1 for cimba, as in its manual: two compiled processes and a container.  See `bench_mm1`."""

import cimba as cb

LOAD = 0.75


class Queue(cb.Model):
    interarrival: cb.Input[float] = cb.inputs.dist.exponential(mean=1 / LOAD)
    service_time: cb.Input[float] = cb.inputs.dist.exponential(mean=1)
    waiting: cb.Container
    mean_waiting: cb.Output[float]

    @cb.process
    def arrivals(self):
        while True:
            cb.hold(self.interarrival.next())
            self.waiting.put(1)

    @cb.process
    def server(self):
        while True:
            self.waiting.get(1)
            cb.hold(self.service_time.next())

    @cb.on_end
    def measure(self):
        self.mean_waiting = self.waiting.mean_level()


def run(customers):
    window = cb.Window(warmup=0, duration=customers / LOAD)
    model = Queue()
    result = cb.Experiment(model, replications=1, window=window, seed=1).run()
    return float(result[model].mean_waiting.values[0, 0]) / LOAD + 1.0  # by Little's law
