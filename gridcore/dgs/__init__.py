"""DGS_ASAP: slot schedules, the CYCLON overlay, and the compiled nodes."""
