"""The folder of real traces, the profiles of Hypothesis, and an environment as users have it."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Commands that tests start have their output buffered, as users do, whoever runs the tests.
os.environ.pop("PYTHONUNBUFFERED", None)
# no timing decides a test: examples of a machine that has much to do may take their time
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture
def traces() -> Path:
    """The folder of real traces, from the environment variable GRIDSIM_TRACES."""
    folder = os.environ.get("GRIDSIM_TRACES")
    if not folder:
        pytest.skip("GRIDSIM_TRACES is not set: no real traces")
    return Path(folder)
