"""The profile of Hypothesis for mutation runs: the same examples every time, no search for a smaller one."""

from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "mutation",
    max_examples=40,  # where a test does not say how many
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
