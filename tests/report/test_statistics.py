"""Facts about what many seeds say together: known values, and how often a verdict is wrong by chance alone."""

import numpy as np
import pytest
from scipy import stats

from opdop.report.summary.statistics import Band, band, band_words, difference, holm

STUDENT = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]  # Student's own example: drug 1, hours of sleep
SLEEP = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]  # drug 2, the same persons


def by_seed(values: np.ndarray | list[float]) -> dict[int, float]:
    return {seed: float(value) for seed, value in enumerate(values)}


def test_students_own_example_has_the_published_interval() -> None:
    found = difference(by_seed(STUDENT), by_seed(SLEEP))
    assert found.paired
    assert found.mean == pytest.approx(-1.58)
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx((-2.4598858, -0.7001142), abs=1e-6)
    assert found.p == pytest.approx(0.002832890, abs=1e-8)


def test_other_seeds_make_it_welchs_test() -> None:
    other = {seed + 100: value for seed, value in by_seed(SLEEP).items()}
    found = difference(by_seed(STUDENT), other)
    wanted = stats.ttest_ind(STUDENT, SLEEP, equal_var=False)
    assert not found.paired
    assert found.p == pytest.approx(wanted.pvalue, rel=1e-10)
    interval = wanted.confidence_interval(0.95)
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx((interval.low, interval.high), rel=1e-9)


def test_groups_of_different_size_are_compared() -> None:
    found = difference(by_seed(STUDENT), by_seed(SLEEP[:4]))
    assert found.p == pytest.approx(stats.ttest_ind(STUDENT, SLEEP[:4], equal_var=False).pvalue, rel=1e-10)
    assert found.runs == (10, 4)


def test_band_is_students_interval_from_five_runs_on() -> None:
    found = band(np.array([SLEEP, STUDENT]).T)
    for i, sample in enumerate((SLEEP, STUDENT)):
        wanted = stats.t.interval(0.95, len(sample) - 1, np.mean(sample), stats.sem(sample))
        assert (found.low[i], found.high[i]) == pytest.approx(wanted, rel=1e-12)
    assert "95 % t interval" in band_words(5)


@pytest.mark.parametrize("runs", [1, 2, 4])
def test_band_of_few_runs_is_from_least_to_most(runs: int) -> None:
    values = np.array(SLEEP[:runs])
    found = band(values)
    assert (found.low, found.high) == (values.min(), values.max())
    assert "t interval" not in band_words(runs)


def test_interval_covers_the_mean_as_often_as_it_says() -> None:
    samples = np.random.default_rng(1).normal(3.0, 2.0, size=(6, 20_000))
    found = band(samples)
    covered = ((found.low <= 3.0) & (found.high >= 3.0)).mean()
    assert covered == pytest.approx(0.95, abs=4 * np.sqrt(0.95 * 0.05 / 20_000))


def test_holm_is_the_published_procedure() -> None:
    # Holm's steps by hand: 4 * .005, 3 * .01, 2 * .03, then at least what went before.
    assert holm([0.01, 0.03, 0.005, 0.04]) == pytest.approx([0.03, 0.06, 0.02, 0.06])
    assert holm([0.9, 0.8]) == pytest.approx([1.0, 1.0])
    kept = holm([np.nan, 0.02])
    assert np.isnan(kept[0])
    assert kept[1] == 0.02


PAIRS = ((0, 1), (0, 2), (1, 2))


def families(draw: str, tables: int, *, paired: bool, seed: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """Return values [tables, 3 groups, 3 metrics, 10 seeds] that differ by chance, and p values [tables, 9].

    The p values come from one vectorised call, as `difference` for each of them takes milliseconds.
    """
    rng = np.random.default_rng(seed)
    shape = (tables, 3, 3, 10)
    values = rng.normal(size=shape) if draw == "normal" else rng.exponential(size=shape)
    values += rng.normal(size=(tables, 1, 3, 10)) if paired else 0.0  # what the runs of one seed have in common
    one, two = (values[:, [pair[side] for pair in PAIRS]] for side in (0, 1))
    test = stats.ttest_rel(one, two, axis=-1) if paired else stats.ttest_ind(one, two, axis=-1, equal_var=False)
    return values, test.pvalue.reshape(tables, 9)


@pytest.mark.parametrize("paired", [True, False])
def test_p_values_of_a_family_are_those_of_difference(paired: bool) -> None:
    values, p_values = families("normal", 2, paired=paired)
    for table, row in zip(values, p_values, strict=True):
        groups = [[by_seed(metric) for metric in group] for group in table]
        others = groups if paired else [[{s + 100: v for s, v in m.items()} for m in group] for group in groups]
        found = [difference(groups[i][m], others[j][m]).p for i, j in PAIRS for m in range(3)]
        assert found == pytest.approx(row, rel=1e-9)


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("draw", ["normal", "skewed"])
def test_a_table_has_a_wrong_verdict_in_at_most_one_of_twenty(draw: str, paired: bool) -> None:
    tables = 4000
    _, p_values = families(draw, tables, paired=paired)
    wrong = np.mean([min(holm(list(row))) < 0.05 for row in p_values])
    assert wrong <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / tables)


def test_without_the_correction_it_would_be_wrong_far_more_often() -> None:
    _, p_values = families("normal", 4000, paired=True)
    assert (p_values.min(axis=1) < 0.05).mean() > 0.2


def test_a_difference_of_two_deviations_is_found_nearly_always() -> None:
    _, p_values = families("normal", 400, paired=True, seed=3)
    apart = np.random.default_rng(4).normal(2.0, 1.0, size=(400, 10))
    p_values[:, 0] = stats.ttest_1samp(apart, 0.0, axis=-1).pvalue  # a paired test against a group of zeros
    found = np.mean([holm(list(row))[0] < 0.05 for row in p_values])
    assert found > 0.9


def test_pairing_finds_what_seeds_hide() -> None:
    rng = np.random.default_rng(5)
    common = rng.normal(0.0, 5.0, size=10)
    one, two = by_seed(common + rng.normal(0.5, 0.1, size=10)), by_seed(common)
    assert difference(one, two).p < 1e-4
    assert difference(one, {seed + 100: value for seed, value in two.items()}).p > 0.05


def test_the_same_in_every_seed_is_no_difference_and_a_constant_one_is_clear() -> None:
    same = difference(by_seed([1.0, 2.0, 3.0]), by_seed([1.0, 2.0, 3.0]))
    assert (same.mean, same.half, same.p) == (0.0, 0.0, 1.0)
    shifted = difference(by_seed([1.0, 2.0, 3.0]), by_seed([0.5, 1.5, 2.5]))
    assert (shifted.mean, shifted.p) == (0.5, 0.0)


def test_one_seed_says_nothing() -> None:
    found = difference({0: 1.0}, {0: 2.0})
    assert found.mean == -1.0
    assert np.isnan(found.p)
    assert np.isnan(found.half)


def test_digits_follow_the_width_of_the_band() -> None:
    def text(mean: float, low: float, high: float, runs: int) -> str:
        return Band(np.array(mean), np.array(low), np.array(high), runs).text

    assert text(7.0234, 6.9934, 7.0534, 10) == "7.023 ± 0.030"
    assert text(7.0234, 6.99, 7.05, 3) == "7.023 (6.990 to 7.050)"
    assert text(12345.6, 12045.6, 12645.6, 9) == "12,346 ± 300"
    assert text(0.5, 0.5, 0.5, 1) == "0.50"
    assert text(-1e-9, -0.5, 0.5, 8) == "0.0 ± 0.5"
