"""What a scheduler is: the contract with the engine, and names of schedulers."""
