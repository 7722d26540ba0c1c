"""`opdop check`: validate a model, and say what is worth knowing before it is learnt."""

from __future__ import annotations

from opdop.cli.application import app
from opdop.cli.options import AsJson, Problem, ProblemParameters
from opdop.cli.output import busy, print_json, say


@app.command()
def check(name: Problem, parameters: ProblemParameters = None, as_json: AsJson = False) -> None:
    """Validate a model, and report what is worth knowing before it is learnt.

    \b
    Examples:
      opdop check inventory
      opdop check queue --set throughput=4
      opdop check inventory --json | jq .episodes

    NAME may also be a model file (.npz, .toml, .json), FILE.py:FUNCTION, or an
    installed entry point of the group opdop.problems.

    It reports how many states are reachable, the Slater gap, whether each
    constraint binds and what it costs, and recommends an algorithm and a number
    of episodes: enough to visit each reachable pair 100 times at a stage.
    """
    from opdop.envs import make, parse
    from opdop.report.summary.model_check import check_model

    with busy(f"checking {name}"):
        found = check_model(make(name, **parse(name, parameters or [])))
    if as_json:
        print_json(found.record())
        return
    say(f"{name} is a valid model: {found.solution.problem!r}")
    for label, words in found.lines():
        say(f"  {label}: {words}")
