"""What the tests share: how many operations a long test does, and fixed profiles of Hypothesis."""

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "ci",
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("long", max_examples=500, deadline=None)
settings.load_profile("long" if "SAPWOOD_OPS" in os.environ else "ci")


@pytest.fixture
def operations() -> int:
    """Operations of a long test: few in CI, and SAPWOOD_OPS in proofs."""
    return int(os.environ.get("SAPWOOD_OPS", "200000"))
