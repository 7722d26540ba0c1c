"""What tabular, linear and continuous problems have in common."""

import math
import pickle

import numpy as np
import pytest

import opdop
from opdop.model import ContinuousCMDP, KnownSimulator, LinearCMDP, Problem, TabularCMDP
from opdop.model.features import mixture
from opdop.planning import refine
from tests.support.continuous_problems import separable_problem


def tabular_problem() -> TabularCMDP:
    kernel = np.full((2, 2, 2), 0.5)
    return TabularCMDP(kernel, [[0, 1], [0, 0.5]], [[1, 0], [1, 0]], thresholds=1.0, horizon=3)


def linear_problem() -> LinearCMDP:
    bases = np.random.default_rng(0).dirichlet(np.ones(3), (2, 3, 2))
    features = mixture(bases, np.eye(6).reshape(3, 2, 6))
    return LinearCMDP(features, [0.4, 0.6], np.tile([0.0, 1.0], 3), np.tile([1.0, 0.0], 3), 1.5, horizon=3)


PROBLEMS = {"tabular": tabular_problem(), "linear": linear_problem(), "continuous": separable_problem()}
every_problem = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)


@every_problem
def test_every_problem_is_solved_measured_simulated_and_learnt_alike(problem: Problem) -> None:
    assert isinstance(problem, Problem)
    optimum = opdop.solve(problem)
    assert optimum.value == opdop.solve(problem.tabular()).value
    assert opdop.evaluate(problem, optimum.policy).reward == pytest.approx(optimum.value, abs=1e-12)
    assert opdop.Task.of(problem, episodes=10).slater_gap == optimum.slater_gap
    run = opdop.train(problem, "opdop-lstd", episodes=20)
    simulated = opdop.train(problem.simulator(seed=0), "opdop-lstd", episodes=20)
    assert run.optimum is not None
    assert run.optimum.value == optimum.value
    assert run.history.equals(simulated.history)


@every_problem
def test_every_problem_can_be_pickled_and_renamed(problem: Problem) -> None:
    named = problem.with_display(opdop.Display("mine"))
    copied = pickle.loads(pickle.dumps(named))
    assert type(copied) is type(named) is type(problem)
    assert copied.display.name == copied.tabular().display.name == "mine"
    assert problem.display.name == problem.tabular().display.name == "model"
    assert opdop.solve(copied).value == opdop.solve(problem).value


@every_problem
def test_simulators_of_a_problem_say_which_it_is(problem: Problem) -> None:
    simulator = problem.simulator(seed=3, noisy=True)
    assert isinstance(simulator, KnownSimulator)
    assert simulator.problem is problem
    assert simulator.noisy


def test_only_continuous_problems_are_discretised() -> None:
    for problem in (tabular_problem(), linear_problem()):
        assert problem.tabular() is problem
        assert problem.discretisation == ""
        assert refine(problem) is None
        assert math.isfinite(problem.num_states)
    continuous = opdop.make("reservoir")
    assert isinstance(continuous, ContinuousCMDP)
    assert continuous.display.name == "reservoir"
    assert continuous.num_states == math.inf
    assert continuous.discretisation == "16 Gauss-Legendre nodes, measured on 64 cells"
    assert [cells for cells, _ in continuous.refinements()] == [16, 32, 64]
    assert continuous.usual_episodes < TabularCMDP.usual_episodes


def test_a_discretisation_is_a_plain_model_that_is_learnt_by_counting() -> None:
    model = separable_problem().tabular()
    assert type(model) is TabularCMDP
    assert model.features is None
    run = opdop.train(model, episodes=5)
    assert run.config.algorithm == "opdop"
    assert "nodes" not in run.constants


def test_a_shipped_problem_is_solved_by_its_name() -> None:
    assert opdop.solve("factored").value == opdop.solve(opdop.make("factored")).value
    with pytest.raises(opdop.InvalidParameterError, match=r"no environment 'factred'\. Did you mean 'factored'\?"):
        opdop.solve("factred")
