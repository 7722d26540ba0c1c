"""Speed of learners that plan on their data, and of evaluation over confidence balls."""

from __future__ import annotations

import opdop
from benchmarks.bench_learn import dense_model
from opdop.algorithms import BallRadius, WeissmanRadius
from opdop.algorithms.optimistic import OptimisticPlanner
from opdop.algorithms.replan import CertaintyEquivalence
from opdop.algorithms.replanning import ReplanningLearner
from opdop.model import TabularCMDP
from opdop.runs import train


def learner_seconds(cmdp: TabularCMDP, radius: BallRadius | WeissmanRadius, episodes: int, repeats: int = 3) -> float:
    """Return seconds per episode of OPDOP with counts and a confidence rule; every episode is measured."""
    task = opdop.Task.of(cmdp, episodes=episodes)
    times = []
    for _ in range(repeats + 1):  # the first compiles
        learner = opdop.OPDOP.preset(task, opdop.Counts(task, radius=radius), "certified")
        times.append(train(cmdp, learner, episodes=episodes, records=10).seconds)
    return min(times[1:]) / episodes


def balls_against_bonuses() -> None:
    """Print the time of an episode with confidence balls against that with bonuses."""
    print("\nAlgorithm 1 with confidence balls against bonuses (new runs, every episode measured exactly, one core)")
    for S, A, H in ((4, 2, 4), (10, 4, 10), (30, 3, 10)):
        cmdp = dense_model(S, A, H)
        bonus, ball = (learner_seconds(cmdp, rule, 20_000) for rule in (WeissmanRadius(), BallRadius()))
        print(
            f"  S{S} A{A} H{H}: bonus {bonus * 1e6:6.1f} us/episode, balls {ball * 1e6:6.1f} us/episode, "
            f"ratio {ball / bonus:.2f} (aim: at most 2)"
        )


def practical_against_scaled(episodes: int = 20_000, repeats: int = 5) -> None:
    """Print the time of an episode with the default preset against its first edition, `scaled`, measured in turn."""
    print("\nOPDOP with `practical` against `scaled` (new runs in turn, the best of each, one core)")
    for name in ("media-streaming", "random-tabular", "gridworld"):
        cmdp = opdop.make(name)
        ratios = []
        for every in (episodes, 1):  # almost no policy is measured, or every one
            times: dict[str, list[float]] = {"practical": [], "scaled": []}
            for _ in range(repeats + 1):  # the first compiles
                for preset, found in times.items():
                    run = train(cmdp, "opdop", preset=preset, episodes=episodes, measure_every=every, records=10)
                    found.append(run.seconds)
            ratios.append(min(times["practical"][1:]) / min(times["scaled"][1:]))
        print(f"  {name}: learning {ratios[0]:.2f}, with measuring {ratios[1]:.2f} (aim: at most 1.2)")


def planners() -> None:
    """Print the episodes per second of planning learners, at first and once plans are rare."""
    cmdp = dense_model(10, 2, 10)
    print("\nplanning learners, S10 A2 H10 (every episode measured exactly, one core)")
    for name, aim in (("optimistic", 500_000), ("replan", 200_000)):
        train(cmdp, name, episodes=50, records=10)  # compile
        many = 1_000_000
        plan = {"planned_episodes": 2 * many, "records": 10}
        first = train(cmdp, name, episodes=many, **plan)
        both = train(cmdp, name, episodes=many, start=first, **plan)
        print(
            f"  {name}: first million {many / first.seconds:,.0f} episodes/s, second million "
            f"{many / (both.seconds - first.seconds):,.0f} episodes/s (aim: at least {aim:,})"
        )


def plans() -> None:
    """Print the time of one plan with two constraints."""
    cmdp = opdop.make("queue")
    print("\ntime of a plan on `queue` (S7 A9 H12, two constraints): 300 episodes, most of them with a new plan")
    task = opdop.Task.of(cmdp, episodes=300)
    for name, planner in (("replan", CertaintyEquivalence()), ("optimistic", OptimisticPlanner(0.05))):
        train(cmdp, ReplanningLearner(task, planner), episodes=50, records=10)  # compile
        learner = ReplanningLearner(task, planner)
        seconds = train(cmdp, learner, episodes=300, records=10).seconds
        print(f"  {name}: {1e3 * seconds / learner.plans:.2f} ms a plan, {learner.plans} plans (aim: below 10 ms)")


def main() -> None:
    """Run the benchmarks."""
    balls_against_bonuses()
    practical_against_scaled()
    planners()
    plans()


if __name__ == "__main__":
    main()
