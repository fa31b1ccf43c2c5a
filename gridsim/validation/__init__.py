"""Checks whether a finished schedule is possible, from its files alone and without the engine.

`gridsim.validation.results` checks results of gridsim, `gridsim.validation.logs` those of other programs.
"""
