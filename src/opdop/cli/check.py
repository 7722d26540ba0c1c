"""`opdop check`: validate a model or a simulator, and say what is worth knowing before it is learnt."""

from __future__ import annotations

from opdop.cli.application import app
from opdop.cli.options import AsJson, Problem, ProblemParameters
from opdop.cli.output import busy, print_json, say


@app.command()
def check(name: Problem, parameters: ProblemParameters = None, as_json: AsJson = False) -> None:
    """Validate a model or a simulator, and report what is worth knowing before it is learnt.

    \b
    Examples:
      opdop check inventory
      opdop check queue --set throughput=4
      opdop check inventory --json | jq .episodes
      opdop check shop.py:make_shop --set budget=20

    NAME may also be a model file (.npz, .toml, .json), FILE.py:FUNCTION, or an
    installed entry point of the group opdop.problems.

    It reports how many states are reachable, the Slater gap, whether each
    constraint binds and what it costs, and recommends an algorithm and a number
    of episodes: enough to visit each reachable pair 100 times at a stage.

    A simulator, whose model is not known, is played for 200 episodes with
    random actions. It reports what they see, earn and cost, and whether
    rewards and costs stay in their stated ranges.
    """
    from opdop.envs import make_trainable, parse
    from opdop.model import Problem as Model
    from opdop.report.summary.model_check import ModelCheck, check_model
    from opdop.report.summary.simulator_check import SimulatorCheck, check_simulator

    problem = make_trainable(name, **parse(name, parameters or []))
    found: ModelCheck | SimulatorCheck
    with busy(f"checking {name}"):
        if isinstance(problem, Model):
            found, kind = check_model(problem), "model"
        else:
            found, kind = check_simulator(problem), "simulator"
    if as_json:
        print_json(found.record())
        return
    say(f"{name} is a valid {kind}: {problem!r}")
    for label, words in found.lines():
        say(f"  {label}: {words}")
