"""Checks that a finished schedule is feasible, made from its files alone, without the engine.

`gridsim.validation.results` checks results of gridsim, `gridsim.validation.logs` those of other programs.
"""
