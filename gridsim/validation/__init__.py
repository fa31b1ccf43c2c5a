"""Is a finished schedule one that could have been?  Told from its files alone, without the engine.

`gridsim.validation.results` is for results of gridsim, `gridsim.validation.logs` for those of others.
"""
