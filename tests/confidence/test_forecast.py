"""Facts about estimates of how many episodes certify more."""

import numpy as np
import pytest

import opdop
from opdop.confidence import Certifier
from opdop.confidence.data import confidence_set
from opdop.confidence.forecast import episodes_until_gap, episodes_until_kept


@pytest.fixture(scope="module")
def run() -> opdop.Run:
    return opdop.train("factored", episodes=200, seed=0)


def test_estimate_is_where_the_data_repeated_certify_the_policy(run: opdop.Run) -> None:
    data = run.observations.as_declared()
    policy = opdop.solve("factored").slater  # values only
    assert policy.utilities[0] > run.thresholds[0]
    certificate = Certifier(confidence_set(data, 0.05)).recommend()
    easier = data.with_thresholds([float(certificate.utility_lower[0]) + 0.03])
    shy = Certifier(confidence_set(easier, 0.05)).certificate(certificate.policy)
    assert not shy.keeps_constraints
    expected = episodes_until_kept(easier, shy, 200)
    assert expected is not None
    assert 200 < expected < 20_000


def test_estimate_is_of_the_right_size(run: opdop.Run) -> None:
    """The policy that is not certified after 200 episodes is certified within a factor of 3 of the estimate."""
    data = run.observations.as_declared()
    policy = opdop.solve(opdop.make("factored").with_thresholds([3.05])).policy
    certificate = Certifier(confidence_set(data, 0.05)).certificate(policy)
    assert not certificate.keeps_constraints
    expected = episodes_until_kept(data, certificate, 200)
    assert expected is not None
    for episodes, kept in ((expected // 3, False), (3 * expected, True)):
        more = opdop.train("factored", episodes=episodes, seed=5)
        assert more.certificate(policy).keeps_constraints == kept


def test_no_estimate_where_more_of_the_same_data_do_not_help(run: opdop.Run) -> None:
    data = run.observations.as_declared().with_thresholds([5.99])
    certificate = Certifier(confidence_set(data, 0.05)).certificate(run.policy)
    assert episodes_until_kept(data, certificate, 200) is None
    kept = Certifier(confidence_set(run.observations.as_declared().with_thresholds([0.01]), 0.05))
    assert episodes_until_kept(data, kept.certificate(run.policy), 200) == 200


def test_gap_is_expected_to_fall_with_the_root_of_the_episodes(run: opdop.Run) -> None:
    certificate = run.certificate("recommended")
    assert episodes_until_gap(certificate, certificate.gap / 2.0, 200) == pytest.approx(800, abs=1)
    assert episodes_until_gap(certificate, 2.0 * certificate.gap, 200) == 200
    assert np.isfinite(certificate.gap)
