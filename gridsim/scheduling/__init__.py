"""The contract between schedulers and the simulator, and the registry of scheduler names."""
