"""Checks that a finished schedule is feasible, which read only its files and do not use the engine.

`gridsim.validation.results` checks results of gridsim, and `gridsim.validation.logs` those of other programs.
"""
