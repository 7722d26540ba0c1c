"""Write the page of problems with its pictures, and the table of problems in README.md.

`python -m tools.gallery docs` writes docs/problems.md, the pictures of problems in docs/images, and the table in the
README.md beside docs. `make gallery` runs it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from opdop.envs import Environment, environments
from opdop.model import InvalidParameterError
from opdop.model.rounding import number, short_number
from opdop.report.summary.solution import Solution, discretisation_text, setting_text, solution_of
from opdop.report.terminal.tables import example, markdown_overview, sizes, source, units

_OPENING = """# The problems that ship

`make gallery` writes this page; a test checks that it is up to date. All values are expected totals per episode,
computed exactly, in the problem's own units.

- **Optimum**: the policy with the best objective among those that satisfy every constraint. **Unconstrained policy**:
  the policy with the best objective if constraints are ignored. **Max-slack policy**: the policy with the largest slack
  in all constraints at once.
- **Multiplier** Y*: how much of the objective is lost per unit by which a constraint is tightened. A constraint binds
  if its multiplier is above 0.
- **Slater gap**: the largest slack in all constraints at once, that of the max-slack policy.

"""
_READING = """
In the pictures of the reward-utility plane, each policy is a point. The grey area is the set of points that policies
attain, and the blue line is its Pareto frontier. The dashed line is the tangent at the optimum; its slope is the
multiplier. With several constraints, the blue line shows the best objective as one threshold varies and the others stay
fixed: exact at some thresholds, interpolated linearly between them.

"""
_BLOCK = re.compile(r"(<!-- problems -->\n).*?(<!-- end of problems -->)", re.DOTALL)


def page(solutions: Sequence[Solution]) -> str:
    """Return the text of docs/problems.md for solved problems."""
    known = environments()
    sections = [_section(known[each.cmdp.display.name], each) for each in solutions]
    return _OPENING + markdown_overview(solutions) + _READING + "\n".join(sections)


def with_table(readme: str, solutions: Sequence[Solution]) -> str:
    """Return a README with its table of problems renewed.

    Raises InvalidParameterError if the README lacks the two comments that mark the table.
    """
    if not _BLOCK.search(readme):
        raise InvalidParameterError(
            "README.md has no table to renew; expected the lines <!-- problems --> and <!-- end of problems -->."
        )
    table = markdown_overview(solutions)
    return _BLOCK.sub(lambda found: f"{found[1]}\n{table}\n{found[2]}", readme)


def pictures(solution: Solution) -> dict[str, bool]:
    """Return the file names of a problem's pictures: True for the reward-utility plane, False for a map."""
    name = solution.cmdp.display.name
    on_map = {f"{name}.svg": False} if solution.cmdp.display.geometry is not None else {}
    return {**on_map, f"{name}-plane.svg": True}


def write(folder: Path) -> list[Path]:
    """Write the page and its pictures into a folder, renew the README.md beside it, and return all files written."""
    from opdop.report import figures

    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    solutions = [solution_of(entry.build()) for entry in environments().values()]
    written = [
        figures.save(figures.picture(each, plane=plane), images / file)
        for each in solutions
        for file, plane in pictures(each).items()
    ]
    text = folder / "problems.md"
    text.write_text(page(solutions), encoding="utf-8")
    readme = folder.absolute().parent / "README.md"
    if readme.is_file():
        readme.write_text(with_table(readme.read_text(encoding="utf-8"), solutions), encoding="utf-8")
        written.append(readme)
    return [text, *written]


def _section(entry: Environment, solution: Solution) -> str:
    """Return the section of one problem."""
    facts = [
        ("size", sizes(solution.problem)),
        *units(solution),
        ("source", source(entry)),
        ("try", f"`{example(entry)}`"),
    ]
    if solution.refinement is not None:
        facts.insert(1, ("discretised", discretisation_text(solution.refinement.record(), solution.reward)))
    lines = [
        f"## {entry.name}",
        "",
        f"{entry.summary} {entry.description}",
        "",
        *(f"- {label}: {words}" for label, words in facts),
        "",
        *_values(solution),
        "",
        *_parameters(entry),
        "",
    ]
    for file, plane in pictures(solution).items():
        what = "reward-utility plane" if plane else "map of the optimal policy"
        lines.append(f'<img src="images/{file}" alt="{entry.name}: {what}" width="400">')
    return "\n".join([*lines, ""])


def _values(solution: Solution) -> list[str]:
    """Return the table of the objective and the constrained quantities under three policies."""
    optimum, reward = solution.optimum, solution.reward
    rows = [(reward, (optimum.value, optimum.unconstrained.reward, optimum.slater.reward), "", "")]
    for constraint in solution.constraints:
        totals = (constraint.attained, constraint.unconstrained, constraint.max_slack)
        rows.append(
            (
                constraint.quantity,
                totals,
                short_number(constraint.own_multiplier),
                short_number(constraint.own_slater_gap),
            )
        )
    return [
        "| expected total | unit | optimum | unconstrained policy | max-slack policy | Y* | Slater gap |",
        "|---|---|--:|--:|--:|--:|--:|",
        *(
            f"| {quantity.name} | {quantity.unit} | "
            f"{' | '.join(number(quantity.shown(total)) for total in totals)} | {multiplier} | {gap} |"
            for quantity, totals, multiplier, gap in rows
        ),
    ]


def _parameters(entry: Environment) -> list[str]:
    return [
        "| parameter | default | meaning | may be |",
        "|---|---|---|---|",
        *(
            f"| `{key}` | {setting_text(parameter.default)} | {parameter.help} | {parameter.expected} |"
            for key, parameter in entry.parameters.items()
        ),
    ]


def main(arguments: Sequence[str]) -> int:
    """Write into the folder named on the command line; return the exit status."""
    if len(arguments) != 1:
        print("usage: python -m tools.gallery FOLDER", file=sys.stderr)
        return 2
    for file in write(Path(arguments[0])):
        print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
