"""Facts about the certificates that a finished run shows, in words, data, figures and on the page."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

import opdop
from opdop.report import figures
from opdop.report.html.write import write_report
from opdop.report.summary.certificate_card import CertificateCard
from opdop.report.summary.collection import collect
from opdop.report.summary.run_summary import RunSummary


@pytest.fixture(scope="module")
def run() -> opdop.Run:
    return opdop.train("factored", episodes=600, seed=1, certificates=6)


def test_card_has_the_certificates_of_three_policies_in_own_units(run: opdop.Run) -> None:
    card = RunSummary(run).card
    lines = card.lines()
    assert [label for label, _ in lines].count("certificate") == 1
    assert "With probability at least 95 %, from data alone (counts of 3,600 transitions, all stages" in lines[0][1]
    for name, certificate in card.certificates.items():
        assert certificate.record() == run.certificate(name).record()
        assert any(words.startswith(f"{name} policy: {certificate.statements()[0]}") for _, words in lines)


def test_card_keeps_the_failure_probability_of_the_run() -> None:
    run = opdop.train("factored", episodes=100, failure_probability=0.01)
    card = CertificateCard(run)
    assert card.recommended is not None
    assert card.recommended.failure_probability == 0.01
    assert card.lines()[0][1].startswith("With probability at least 99 %")


def test_card_says_how_many_episodes_to_expect(run: opdop.Run) -> None:
    few = opdop.train("gridworld", episodes=50)
    card = CertificateCard(few)
    assert card.expected_episodes.keys() == {"kept"}
    assert any("episodes like these" in words for _, words in card.lines())
    near = CertificateCard(opdop.train("media-streaming", episodes=500))
    expected = near.expected_episodes["near"]
    assert near.recommended is not None
    assert expected == pytest.approx(500 * near.recommended.gap**2, abs=1)  # a tenth of the reward range is 1
    assert CertificateCard(run).expected_episodes == {}
    assert any(words.startswith("estimate: about ") for _, words in near.lines())


def test_run_without_data_says_why_it_has_no_certificate(run: opdop.Run) -> None:
    card = CertificateCard(replace(run, observations=None))
    assert card.lines() == [("certificate", f"none: {card.why_not}.")]
    assert card.record()["why_not"] == card.why_not
    assert card.expected_episodes == {}


def test_record_of_a_run_has_its_certificates_as_strict_json(run: opdop.Run) -> None:
    record = json.loads(json.dumps(RunSummary(run).record(), allow_nan=False))["certificate"]
    assert record["recommended"]["keeps_constraints"]
    assert record["recommended"]["own"]["gap"] == pytest.approx(run.certificate().gap)
    assert record["certified_at"] is None
    assert "certificate" not in RunSummary(run).record(certificate=False)


def _lines(figure: Figure, name: str) -> list[np.ndarray]:
    found = [line for axes in figure.axes for line in axes.get_lines() if line.get_label() == name]
    return [np.asarray(line.get_ydata(), dtype=float) for line in found]


def test_figures_draw_bounds_that_enclose_the_optimum(run: opdop.Run) -> None:
    reward = figures.certificate_figure(RunSummary(run), 0)
    (upper,), (lower,), (true,) = (
        _lines(reward, name) for name in ("bound on the optimum", "certified at least", "true value")
    )
    assert run.optimum is not None
    best = run.display.quantities[0].shown(run.optimum.value)
    assert (upper >= best).all()
    assert (lower <= true).all()
    assert (true <= best + 1e-9).all()
    whole = figures.run_figure(run)
    assert len(_lines(whole, "certified at least")) == len(_lines(whole, "certified at most")) == 1  # reward and cost
    plain = figures.run_figure(replace(run, trail=None))
    assert not _lines(plain, "certified at least")
    assert plain.get_size_inches()[1] < whole.get_size_inches()[1]


def test_page_has_a_table_of_certificates_and_the_figures(run: opdop.Run, tmp_path: Path) -> None:
    run.save(tmp_path / "runs" / "one")
    page = write_report(collect(tmp_path), tmp_path / "report.html", kinds=()).page.read_text(encoding="utf-8")
    assert "<h3>Certificates</h3>" in page
    assert "opdop, recommended policy" in page
    assert "What the data certify" in page
    assert "certified bounds on" in page
