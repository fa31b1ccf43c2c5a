"""The errors and warnings of gridsim: one root, one line each, naming field, value and expectation."""

from __future__ import annotations


class GridSimError(Exception):
    """Root of every error that gridsim raises on purpose."""


class ScenarioError(GridSimError, ValueError):
    """A scenario, platform, workload, network or scheduler parameter is wrong.

    The message starts with the configuration path (``platform.speeds[3]``), then the value and what
    was expected.
    """


class TraceFormatError(GridSimError, ValueError):
    """A trace file cannot be read; the message starts with ``file:line``, ``file`` if it does not open."""


class SchedulerError(GridSimError, RuntimeError):
    """A scheduler broke its contract; the message carries the simulated time in seconds."""


class InvariantViolation(GridSimError, AssertionError):
    """A law of the simulation does not hold (a task lost, done twice, or run on a dead machine)."""


class TraceWarning(UserWarning):
    """A trace record was repaired or left out; the message counts them and names the first."""


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written; the run goes on, and the one before stays."""


class ModelWarning(UserWarning):
    """A paper is ambiguous here and the library chose; the message says what."""
