"""The profile of Hypothesis for mutation runs: the same examples every time, no search for a smaller one."""

from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "mutation",
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
