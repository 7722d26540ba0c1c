"""Continuous states: replay against the definitions, the finite case, optimism, learning, and saved runs."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import opdop
from opdop import cli
from opdop.algorithms import LSTD, OPDOP, Estimates, Task
from opdop.algorithms.continuous import ContinuousOPDOP, with_visitors
from opdop.model import (
    ContinuousCMDP,
    ContinuousSimulator,
    Episode,
    InvalidModelError,
    InvalidParameterError,
    OpdopError,
)
from opdop.model.continuous_features import ContinuousFeatures, GeneralFeatures, carry, densities, general
from opdop.model.densities import Steps, TruncatedNormal
from opdop.model.features import embedding
from opdop.model.linear import LinearCMDP
from opdop.model.quadrature import gauss_legendre, midpoint, monte_carlo, simpson, trapezoid
from opdop.planning import refine, solve
from opdop.runs import Run, train
from opdop.theory import prediction_errors
from tests.support.continuous_problems import (
    NUMBERS,
    Definitions,
    general_features,
    general_problem,
    kernels,
    learner_of,
    left,
    separable_features,
    separable_problem,
    varphi,
)


def separable_psi(features: Any) -> Any:
    """Return psi of separable features as a function [n, A, m, d1], written apart from the library."""
    bases = features.densities

    def psi(states: np.ndarray, points: np.ndarray) -> np.ndarray:
        right = np.array([q.pdf(points) for q in bases])
        return np.einsum("nal,rm->namlr", left(states), right).reshape(len(states), 2, len(points), -1)

    return psi


CASES = {
    "densities": separable_problem,
    "densities on a square": lambda: separable_problem(nodes=gauss_legendre(3, 2), cells=10),
    "Monte-Carlo nodes": lambda: separable_problem(nodes=monte_carlo(7)),
    "two constraints, two first states": lambda: separable_problem(
        constraints=2, initial=([[0.25], [0.8]], [0.5, 0.5])
    ),
    "general": general_problem,
}


@pytest.mark.parametrize("growth", [None, 1.5])
@pytest.mark.parametrize("case", CASES)
def test_replay_is_the_definition_at_any_state(case: str, growth: float | None) -> None:
    problem = CASES[case]()
    psi = kernels if case == "general" else separable_psi(problem.features)
    learner, plain = learner_of(problem, growth=growth), Definitions(problem, psi, 0.2, growth)
    simulator, random = ContinuousSimulator(problem, seed=4), np.random.default_rng(1)
    dim = problem.features.nodes.dim
    for k in range(14):
        policy = learner.propose()
        if k % 3 == 1:
            for x in random.random((2, dim)):
                for h in range(problem.horizon):
                    assert policy.probabilities(h, x) == pytest.approx(plain.policy(h, x), abs=1e-9)
        episode = simulator.play(policy)
        learner.learn(episode)
        plain.learn(episode)
        assert learner.dual == pytest.approx(plain.dual, abs=1e-9)
        assert learner.utility_estimates == pytest.approx(plain.estimates, abs=1e-9)
    if growth is not None:
        assert 1 < learner.entries < learner.episodes


@pytest.mark.parametrize("growth", [None, 1.2])
@pytest.mark.parametrize("problem", [separable_problem(), general_problem()], ids=["densities", "general"])
def test_replay_at_a_carried_state_is_the_carried_policy(problem: ContinuousCMDP, growth: float | None) -> None:
    learner, simulator = learner_of(problem, growth=growth), ContinuousSimulator(problem, seed=2)
    for _ in range(150):  # more than two blocks
        learner.learn(simulator.play(learner.propose()))
    policy, carried = learner.propose(), learner.lstd.features.carried
    assert carried is not None
    for x in (0, 3, 17, 44):
        for h in range(problem.horizon):
            replayed = policy.replayed(h, np.ascontiguousarray(carried.points[x]))[0]
            assert replayed == pytest.approx(policy.table[h, x], abs=1e-12)


def test_a_policy_stays_what_it_was_when_its_learner_goes_on() -> None:
    problem = separable_problem()
    learner, simulator = learner_of(problem), ContinuousSimulator(problem, seed=2)
    for _ in range(70):
        learner.learn(simulator.play(learner.propose()))
    early, again = learner.propose(), learner.propose()
    assert early is again
    twin = learner_of(problem)
    twin.restore(learner.state())
    expected = twin.propose().probabilities(1, 0.37).copy()
    for _ in range(80):
        learner.learn(simulator.play(learner.propose()))
    assert np.array_equal(early.probabilities(1, 0.37), expected)
    assert not np.allclose(learner.propose().probabilities(1, 0.37), expected)


def test_piecewise_constant_densities_are_the_finite_problem() -> None:
    # Everything is constant on 5 cells, so the level within a cell does not matter: the finite embedding is the same.
    S, A, H, K = 5, 2, 3, 80
    random = np.random.default_rng(0)
    weights, signals = random.dirichlet(np.ones(2), (S, A)), random.random((S, A, 3))
    masses, theta = random.dirichlet(np.ones(S), 3), random.dirichlet(np.ones(3), (H, 2)).reshape(H, 6)

    def cell(states: np.ndarray) -> np.ndarray:
        return np.minimum((states[:, 0] * S).astype(int), S - 1)

    features = densities(
        lambda x: weights[cell(x)], [Steps(m) for m in masses], lambda x: signals[cell(x)], midpoint(S)
    )
    reward, utility = [0.5, 0.2, 0.1], [0.1, 0.3, 0.4]
    continuous = ContinuousCMDP(features, theta, reward, utility, 1.0, 0.5, cells=S)
    finite = LinearCMDP(embedding(weights, masses.T, signals), theta, reward, utility, 1.0, 2).tabular()
    best = solve(finite)
    assert solve(continuous.tabular()).value == pytest.approx(best.value, abs=1e-12)

    learner = learner_of(continuous)
    task = Task.of(finite, episodes=100)
    other = OPDOP(task, LSTD(task, radius=0.2), **NUMBERS)
    simulator = ContinuousSimulator(continuous, seed=1)
    for _ in range(K):
        policy, table = learner.propose(), other.propose().table
        assert policy.table[:, :S] == pytest.approx(table, abs=1e-9)
        assert policy.probabilities(1, 0.53) == pytest.approx(table[1, 2], abs=1e-9)
        episode = simulator.play(policy)
        learner.learn(episode)
        other.learn(Episode(cell(episode.states), episode.actions, episode.signals))
        assert learner.dual == pytest.approx(other.dual, abs=1e-9)
        assert learner.estimated_totals() == pytest.approx(other.estimated_totals(), abs=1e-9)


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("problem", [separable_problem(), general_problem()], ids=["densities", "general"])
def test_certified_runs_are_optimistic_everywhere(problem: ContinuousCMDP, noisy: bool) -> None:
    cmdp = problem.tabular()
    task = Task.of(problem, episodes=200, noisy=noisy)
    learner = ContinuousOPDOP.preset(with_visitors(task), LSTD, "certified")
    simulator, S = ContinuousSimulator(problem, seed=0, noisy=noisy), cmdp.num_states
    loosest = np.inf
    for _ in range(200):
        learner.learn(simulator.play(learner.propose()))
        found = learner.estimates
        iota = prediction_errors(cmdp, Estimates(found.q[:, :, :S], found.v[:, :, :S], found.touched[:, :S]))
        assert iota.max() <= 1e-3  # what the cells' integral of V may be off by; iota <= 0 is optimism
        loosest = min(loosest, float(iota.min()))
    assert loosest < -0.1


def test_the_reservoir_is_learnt_exactly_evaluated() -> None:
    first, last = train("reservoir", episodes=100), train("reservoir", episodes=1500)
    optimum = last.optimum
    assert optimum is not None
    assert first.hard_violation[-1] / 100 > 0.05
    # Measured .053 of 2.45, and .035 of a threshold of 3.12, most of it in the first hundred episodes.
    assert last.regret[-1] / 1500 < 0.08
    assert last.hard_violation[-1] / 1500 < 0.05
    assert last.hard_violation[-1] / 1500 < 0.25 * first.hard_violation[-1] / 100
    assert last.last is not None
    assert last.last.reward > optimum.value - 0.1  # measured .067: the margin of a standard error
    assert last.last.utilities[0] > 3.12


@pytest.mark.parametrize("algorithm", ["opdop", "opdop-lstd", "oppo"])
def test_every_algorithm_learns_on_continuous_states_and_repeats_its_bits(algorithm: str) -> None:
    runs = [train("reservoir", algorithm, episodes=30, seed=seed, noisy=True) for seed in (1, 1, 2)]
    assert runs[0].history.equals(runs[1].history)
    assert not np.array_equal(runs[0].history["reward"], runs[2].history["reward"])
    assert (runs[0].history["dual_0"].max() == 0.0) == (algorithm == "oppo")  # type: ignore[operator]
    assert runs[0].constants["features"] == "densities, d1 = 12, d2 = 2"


@pytest.mark.parametrize(
    "options", [{}, {"parameters": {"reevaluate_at_growth": 1.3}}, {"noisy": True, "algorithm": "doubling:opdop"}]
)
def test_an_interrupted_run_ends_as_if_it_had_not_been(options: dict[str, Any], tmp_path: Path) -> None:
    whole = train("reservoir", episodes=150, planned_episodes=150, **options)
    for episodes in (1, 65, 150):
        parts = train("reservoir", episodes=episodes, planned_episodes=150, checkpoint=tmp_path, **options)
    assert parts.history.equals(whole.history)
    assert np.array_equal(parts.policy.table, whole.policy.table)
    assert np.array_equal(parts.mixture.table, whole.mixture.table)  # type: ignore[union-attr]
    on = train("reservoir", episodes=20, planned_episodes=150, start=whole, **options)
    assert on.episodes[-1] == 170
    whole.save(tmp_path / "saved")
    assert Run.load(tmp_path / "saved").history.equals(whole.history)


def test_a_damaged_past_is_refused() -> None:
    problem = separable_problem()
    learner, simulator = learner_of(problem, growth=1.3), ContinuousSimulator(problem, seed=2)
    for _ in range(20):
        learner.learn(simulator.play(learner.propose()))
    good = learner.state()
    broken: dict[str, tuple[Any, str]] = {
        "past.first": (good["past.first"][::-1].copy(), "order"),
        "past.dual": (good["past.dual"][:-1], "expected"),
        "past.weights": (good["past.weights"] * np.nan, "finite"),
        "known": (good["known"][:1], "expected"),
        "past.inverse": (good["past.inverse"][..., :1], "expected"),
    }
    for name, (array, words) in broken.items():
        with pytest.raises(OpdopError, match=words):
            learner_of(problem, growth=1.3).restore({**good, name: array})
    with pytest.raises(OpdopError, match="no past"):
        learner_of(problem).restore({name: array for name, array in good.items() if not name.startswith("past")})
    with pytest.raises(OpdopError, match="evaluations of 20 episodes"):
        learner_of(problem).restore(good)  # which evaluates every episode


def test_growth_of_information_keeps_the_past_short() -> None:
    exact, rare = (
        train("reservoir", episodes=400, parameters=parameters) for parameters in ({}, {"reevaluate_at_growth": 2.0})
    )
    sizes = [run.snapshot[1]["learner.past.first"].size for run in (exact, rare) if run.snapshot is not None]
    assert sizes[0] == 400
    assert sizes[1] < 130  # measured 96
    assert rare.constants["reevaluate_at_growth"] == 2.0
    assert exact.constants["reevaluate_at_growth"] is None
    assert rare.regret[-1] / 400 < 0.2


# The model and its checks


@pytest.mark.parametrize(
    ("problem", "order"),  # the cells' rule has order 2; V has kinks where the best action changes
    [(separable_problem(cells=64), 1.5), (general_problem(cells=64), 0.8)],
    ids=["densities", "general"],
)
def test_refining_bounds_what_finer_cells_change(problem: ContinuousCMDP, order: float) -> None:
    found = refine(problem)
    assert found is not None
    finest = solve(problem.tabular(256)).value
    assert found.cells == (16, 32, 64)
    assert found.order > order
    assert abs(found.values[-1] - finest) < 3.0 * found.error
    assert found.error < 1e-3


@pytest.mark.parametrize("problem", [separable_problem(), general_problem()], ids=["densities", "general"])
def test_simulated_episodes_have_the_values_of_the_fine_grid(problem: ContinuousCMDP) -> None:
    class Uniform:
        def probabilities(self, stage: int, state: object) -> np.ndarray:
            return np.full(2, 0.5)

    cmdp = problem.tabular()
    table = np.full((problem.horizon, cmdp.num_states, 2), 0.5)
    simulator = ContinuousSimulator(problem, seed=0, noisy=True)
    totals = np.array([simulator.play(Uniform()).signals.sum(axis=1) for _ in range(1500)])
    error = totals.std(axis=0) / np.sqrt(1500)
    assert np.abs(totals.mean(axis=0) - opdop.evaluate(cmdp, table).totals) == pytest.approx(0.0, abs=4.0 * error.max())


def test_first_states_may_have_a_density() -> None:
    problem = separable_problem(initial=TruncatedNormal(0.4, 0.1))
    cmdp = problem.tabular()
    assert cmdp.initial.sum() == pytest.approx(1.0)
    starts = [ContinuousSimulator(problem, seed=s).first()[0] for s in range(300)]
    assert np.mean(starts) == pytest.approx(0.4, abs=0.03)
    run = train(problem, episodes=20)
    assert run.episodes[-1] == 20


def test_a_continuous_problem_is_a_problem_in_every_form() -> None:
    problem = opdop.make("reservoir")
    copied = pickle.loads(pickle.dumps(problem))
    assert isinstance(copied, ContinuousCMDP)
    whole = train(problem, episodes=10)
    for form in (copied, "reservoir", problem.simulator()):
        assert train(form, episodes=10).regret[-1] == pytest.approx(whole.regret[-1], abs=1e-9)


def test_learners_refuse_episodes_of_another_kind() -> None:
    problem = separable_problem()
    learner, simulator = learner_of(problem), ContinuousSimulator(problem, seed=2)
    with pytest.raises(OpdopError, match="propose first"):
        learner.learn(simulator.play(learner_of(problem).propose()))
    good = simulator.play(learner.propose())
    with pytest.raises(InvalidModelError, match=r"int64 \[4\]; expected numbers \[H\+1,dim\] = \[4,1\]"):
        learner.learn(Episode(np.zeros(4, dtype=np.int64), good.actions, good.signals))
    with pytest.raises(InvalidModelError, match="expected 0 to 1"):
        learner.learn(Episode(good.states + 1.0, good.actions, good.signals))
    with pytest.raises(InvalidModelError, match="actions"):
        learner.learn(Episode(good.states, good.actions + 7, good.signals))
    with pytest.raises(InvalidModelError, match="expected 1 number in"):
        learner.propose().probabilities(1, [0.2, 0.3])
    with pytest.raises(InvalidParameterError, match="above 1"):
        learner_of(problem, growth=1.0)
    with pytest.raises(InvalidParameterError, match="finitely many"):
        with_visitors(Task.of(opdop.make("factored"), episodes=10))


def broken(**changes: Any) -> ContinuousCMDP:
    """Return the separable problem with some parts replaced."""
    parts: dict[str, Any] = {
        "left": left, "bases": [TruncatedNormal(0.2, 0.25), TruncatedNormal(0.8, 0.2)], "varphi": varphi,
        "nodes": gauss_legendre(6), "theta": [0.9, 0.1, 0.3, 0.7], "reward": [0.1, 0.2, 0.9], "initial": 0.3,
    }  # fmt: skip
    parts |= changes
    features = densities(parts["left"], parts["bases"], parts["varphi"], parts["nodes"])
    utility = [0.4, 0.5, 0.1]
    return ContinuousCMDP(features, parts["theta"], parts["reward"], utility, 1.5, parts["initial"], 3, cells=20)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"theta": [0.9, 0.3, 0.3, 0.7]}, r"stage 0, state \[.*\], action . the kernel's density integrates to 1\."),
        ({"theta": [1.4, -0.4, 0.3, 0.7]}, r"density at \[.*\] is -.*; expected at least 0"),
        ({"theta": [9.0, 0.1, 0.3, 0.7]}, r"kernel_weights\[0\] have norm 9.* allows sqrt\(d1\) = 2"),
        ({"reward": [0.1, 0.2, 1.7]}, r"rewards.* is 1\..*; signals must lie in \[0, 1\]"),
        ({"left": lambda x: 9.0 * left(x), "theta": [0.1, 0.011, 0.0333, 0.0777]}, "can integrate a V of at most H"),
        ({"left": lambda x: left(x)[:, :1]}, "left is for 1 actions, varphi for 2"),
        ({"left": lambda x: left(x)[0]}, r"left returns shape \[2, 2\]; expected \[n,A,d\]"),
        ({"varphi": lambda x: varphi(x) * np.nan}, "varphi.* is nan"),
        ({"varphi": 3.0}, "varphi is float; expected a function"),
        ({"bases": []}, "bases is empty"),
        ({"bases": [0.5]}, r"bases\[0\] is 0.5; expected a density in dimension 1"),
        ({"initial": 1.3}, r"initial reaches from 1.3"),
        ({"initial": ([[0.1], [0.2]], [0.5, 0.6])}, "sums to 1.1"),
        ({"initial": ([[0.1], [0.2]], [1.0])}, "expected a state"),
    ],
)
def test_a_model_that_breaks_the_assumption_says_where(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidModelError, match=words):
        broken(**changes)


def test_weights_that_are_no_distributions_are_not_taken_to_be_short() -> None:
    # left = (1 - w, w) is a distribution, and with w in [0.3, 0.7] theta's rows need not be any to make a kernel.
    def inner(states: np.ndarray) -> np.ndarray:
        w = 0.3 + 0.4 * states[:, 0]
        rest = np.stack([1.0 - w, w], axis=1)
        return np.stack([rest, rest[:, ::-1]], axis=1)

    bases = [TruncatedNormal(0.2, 0.2), TruncatedNormal(0.8, 0.2)]
    rest: dict[str, Any] = {"thresholds": 1.0, "initial": 0.5, "horizon": 3}
    signals = [0.1, 0.2, 0.9], [0.4, 0.5, 0.1]
    for theta, norm in (([0.9, 0.1, 0.3, 0.7], np.sqrt(2.0)), ([1.3, -0.3, -0.3, 1.3], 2.0)):
        problem = ContinuousCMDP(densities(inner, bases, varphi, gauss_legendre(6)), theta, *signals, **rest)
        task = Task.of(problem, episodes=10, slater_gap=0.1)
        learner = ContinuousOPDOP.preset(with_visitors(task), LSTD, "certified")
        assert np.linalg.norm(theta) <= norm
        assert problem.features.kernel_norm == learner.constants["kernel_norm"] == norm
    stated = general(kernels, varphi, gauss_legendre(6), highest=10.0, kernel_norm=0.5)
    assert ContinuousCMDP(stated, [0.3, 0.7], *signals, **rest).features.kernel_norm == np.sqrt(2.0)


def test_general_features_say_what_is_wrong() -> None:
    nodes = gauss_legendre(4)
    with pytest.raises(InvalidModelError, match="kernel_norm is nan; expected a bound on a norm"):
        general(kernels, varphi, nodes, highest=5.0, kernel_norm=np.nan)
    with pytest.raises(InvalidModelError, match="at least 1"):
        general(kernels, varphi, nodes, highest=0.5)
    with pytest.raises(InvalidModelError, match="psi returns shape"):
        general(lambda x, y: np.ones((1, 2, 3)), varphi, nodes, highest=5.0)
    with pytest.raises(InvalidModelError, match="psi is for 2 actions, varphi for 1"):
        general(kernels, lambda x: varphi(x)[:, :1], nodes, highest=5.0)
    low = general(kernels, varphi, nodes, highest=1.0, kernel_norm=1.0)
    problem = ContinuousCMDP(low, [0.3, 0.7], [0.1, 0.2, 0.9], [0.4, 0.5, 0.1], 1.0, 0.3, 3)
    with pytest.raises(InvalidModelError, match="highest=1 is not a bound on it"):
        ContinuousSimulator(problem, seed=0).play(learner_of(problem).propose())


# Integrals against the features


def wave(points: np.ndarray) -> np.ndarray:
    """Return a smooth value function."""
    return 1.5 + np.sin(3.0 * points[:, 0])


def integral_error(features: ContinuousFeatures) -> float:
    """Return the largest error of phi over some pairs, against a rule that is as good as exact."""
    carried, fine = carry(features, np.linspace(0.0, 1.0, 7)[:, None]), gauss_legendre(60)
    assert carried.carried is not None
    points, N = carried.carried.points, len(features.nodes)
    psi = kernels if isinstance(features, GeneralFeatures) else separable_psi(features)
    exact = np.einsum("namd,m,m->nad", psi(points[N:], fine.points), fine.weights, wave(fine.points))
    return float(np.abs(carried.integrate(wave(points))[N:] - exact).max())


@pytest.mark.parametrize("build", [separable_features, general_features])
@pytest.mark.parametrize(("rule", "order"), [(midpoint, 2), (trapezoid, 2), (simpson, 4)])
def test_integrals_of_value_functions_converge_at_the_order_of_the_rule(build: Any, rule: Any, order: int) -> None:
    counts = np.array([17, 33, 65, 129])
    errors = [integral_error(build(rule(n))) for n in counts]
    width = counts if rule is midpoint else counts - 1
    assert np.polyfit(np.log(width), np.log(errors), 1)[0] == pytest.approx(-order, abs=0.2)


@pytest.mark.parametrize("build", [separable_features, general_features])
def test_integrals_on_gauss_nodes_soon_are_exact(build: Any) -> None:
    assert integral_error(build(gauss_legendre(24))) < 1e-9


def test_integrals_on_monte_carlo_nodes_converge_at_one_half() -> None:
    # Root mean squares of 100 seeds, each with a spread of 1/sqrt(200): over a factor of 64 the slope is within .05.
    counts = np.array([16, 128, 1024])
    squares = [[integral_error(separable_features(monte_carlo(n, seed=s))) ** 2 for s in range(100)] for n in counts]
    assert np.polyfit(np.log(counts), np.log(np.sqrt(np.mean(squares, axis=1))), 1)[0] == pytest.approx(-0.5, abs=0.05)


# On the command line


def answered(*arguments: str) -> str:
    result = CliRunner().invoke(cli.app, list(arguments), env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


def test_the_command_line_prints_how_far_the_discretisation_is_off(tmp_path: Path) -> None:
    off = "V* is off by about 0.01 thousand EUR (from 16, 32, 64 cells along an axis, observed order 3.3)"
    assert off in answered("solve", "reservoir")
    folder = str(tmp_path / "run")
    first = answered("run", "reservoir", "-k", "30", "--out", folder, "--param", "reevaluate_at_growth=1.5")
    assert off in first
    assert "The states are continuous, and the learner sees them so." in first
    assert "reevaluate_at_growth=1.5" in first
    assert "nothing to do" in answered("run", "--resume", folder)
    record = json.loads(answered("solve", "reservoir", "--json"))["discretisation"]
    assert record["cells"] == [16, 32, 64]
    assert record["error"] < 1e-4
    assert json.loads(answered("solve", "factored", "--json"))["discretisation"] is None


def test_a_run_of_which_only_a_part_was_played_goes_on_from_the_command_line(tmp_path: Path) -> None:
    cmdp, arguments = opdop.make("reservoir"), {"episodes": 40, "planned_episodes": 40}
    whole = train(cmdp, **arguments)  # type: ignore[arg-type]

    def stop(progress: Any) -> None:
        if progress.episode >= 15:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(cmdp, **arguments, checkpoint=tmp_path, checkpoint_seconds=0.0, progress=stop, piece=5)  # type: ignore[arg-type]
    answered("run", "--resume", str(tmp_path))
    assert Run.load(tmp_path).history.equals(whole.history)
