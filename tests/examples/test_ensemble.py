"""The example of an ensemble: its gradients against differences, on dask as here, a picture."""

import warnings

import numpy as np
import pytest
from loaded import load

example = load("examples/ensemble.py")


def test_gradients_are_those_of_the_misfit():
    measured = example.measure(count=4)
    values, gradients = example.landscape(3, measured)
    angle, damping = example.members(3)
    for i, j in ((0, 0), (1, 2)):
        x = np.array([angle[i], damping[j]])
        assert values[i, j] == example.misfit(x, measured)
        for k, h in enumerate(1e-5 * np.eye(2)):
            slope = (example.misfit(x + h, measured) - example.misfit(x - h, measured)) / 2e-5
            assert gradients[i, j, k] == pytest.approx(slope, rel=1e-6)


def test_nothing_is_left_at_the_truth():
    measured = example.measure(count=4)
    values, gradients = example.map_gradients(example.misfit, [example.TRUTH], measured)
    assert values == [0.0] and not gradients[0].any()


@pytest.mark.filterwarnings("default")
def test_dask_gives_the_same():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        distributed = pytest.importorskip("distributed", reason="dask.distributed (the extra `distributed`) is not installed")
    measured = example.measure(count=2)
    options = {"n_workers": 1, "threads_per_worker": 2, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client, client.get_executor() as executor:
        values, gradients = example.landscape(2, measured, executor)
    expected = example.landscape(2, measured)
    np.testing.assert_array_equal(values, expected[0])
    np.testing.assert_array_equal(gradients, expected[1])
