"""Experiments with outcomes known from queueing theory: `check_theory`, the command ``gridsim theory``."""

from gridsim.theory.study import Row, Theory, check_theory

__all__ = ["Row", "Theory", "check_theory"]
