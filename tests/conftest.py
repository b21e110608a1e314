"""Profiles of the property tests: the same examples on every run."""

from hypothesis import HealthCheck, settings

settings.register_profile("dualad", derandomize=True, deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dualad")
