"""Random grid maps with walls and hazards, after the AI safety gridworlds (Leike et al., 2017); the maps are ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from opdop.envs.costs import Cost
from opdop.envs.registry import Parameter, environment
from opdop.model import Display, Geometry, InvalidParameterError, Quantity, TabularCMDP
from opdop.model.validation import Floats

ATTEMPTS = 100
# Up, right, down, left: neighbours in this list are at right angles.
_MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))


@environment("gridworld", summary="Reach a goal soon on a slippery map, crossing few hazards.")
def gridworld(
    *,
    size: Annotated[int, Parameter("rows and columns of the map", low=3, high=300)] = 7,
    stages: Annotated[
        int | None, Parameter("stages in one episode; none: four times the size", low=1, high=10_000)
    ] = None,
    walls: Annotated[float, Parameter("share of cells that are walls", low=0, below=1)] = 0.1,
    hazards: Annotated[float, Parameter("share of cells that are hazards", above=0, below=1)] = 0.25,
    slip: Annotated[float, Parameter("probability that a move goes sideways", low=0, high=1)] = 0.1,
    hazard_stages: Annotated[
        float, Parameter("stages that may be spent on hazards in one episode, on average", above=0)
    ] = 0.5,
    seed: Annotated[int, Parameter("which of the random maps", low=0, high=2**63 - 1)] = 0,
) -> TabularCMDP:
    """A walker starts in the upper left corner of a random map and earns a point for each stage spent at the goal.

    A move goes up, right, down or left, or with the slip probability to one of the two sides; against a wall or the
    edge the walker stays, and staying on purpose never slips. The goal is never left. The goal is the most distant cell
    to which the way over hazards is shorter than the way around them, and the way around fits into the episode: so it
    can always be reached without stepping on a hazard, and doing so always costs time. Hazards hold nobody up, but each
    stage on one counts. Maps without such a goal are drawn again; cells cut off from the start become walls.
    """
    H = 4 * size if stages is None else stages
    if walls + hazards >= 1.0:
        raise InvalidParameterError(
            f"walls + hazards is {walls + hazards:g}; expected below 1: some cells must be free."
        )
    chart = _draw_map(np.random.SeedSequence(seed), size, walls, hazards, H - 1)
    rows, columns = np.nonzero(chart.open)
    S, A = len(rows), len(_MOVES) + 1
    state = np.full((size, size), -1)
    state[rows, columns] = np.arange(S)
    goal = int(state[chart.goal])
    on_hazard = chart.hazard[rows, columns]
    counted = Cost("stages on hazards", "stages", most=1, stages=H)
    display = Display(
        "gridworld",
        quantities=(Quantity("stages at the goal", "stages"), counted.quantity),
        state_names=tuple(f"row {i}, column {j}" for i, j in zip(rows, columns, strict=True)),
        action_names=("up", "right", "down", "left", "stay"),
        geometry=Geometry(
            cells=tuple(zip(rows.tolist(), columns.tolist(), strict=True)),
            marks={0: "start", goal: "goal", **{int(x): "hazard" for x in np.flatnonzero(on_hazard)}},
            walls=tuple((int(i), int(j)) for i, j in np.argwhere(~chart.open)),
            arrows=(*_MOVES, (0, 0)),
            row_label="row",
            column_label="column",
        ),
    )
    rewards = np.zeros((S, A))
    rewards[goal] = 1.0
    return TabularCMDP(
        _slippery_moves(state, rows, columns, goal, slip),
        rewards,
        counted.signal(np.broadcast_to(on_hazard[:, None], (S, A))),
        counted.threshold(hazard_stages),
        horizon=H,
        display=display,
    )


@dataclass(frozen=True)
class _Map:
    open: NDArray[np.bool_]  # [size, size], cells that are states
    hazard: NDArray[np.bool_]  # [size, size]
    goal: tuple[int, int]


def _draw_map(seeds: np.random.SeedSequence, size: int, walls: float, hazards: float, longest: int) -> _Map:
    """Return the first map with a goal that hazards bring nearer and that `longest` moves reach without them."""
    for stream in seeds.spawn(ATTEMPTS):
        kind = np.random.default_rng(stream).random((size, size))
        kind[0, 0] = 1.0
        wall, hazard = kind < walls, (kind >= walls) & (kind < walls + hazards)
        direct, around = _distances(~wall), _distances(~wall & ~hazard)
        suitable = (direct < around) & (around <= longest)
        if suitable.any():
            # The most distant; of these the one with the longest way around.
            worth = np.where(suitable, direct * (size * size + 1) + np.where(suitable, around, 0.0), -1.0)
            row, column = divmod(int(np.argmax(worth)), size)
            reached = np.isfinite(direct)
            return _Map(reached, hazard & reached, (row, column))
    raise InvalidParameterError(
        f"none of {ATTEMPTS} maps of {size} x {size} cells with {walls:g} walls and {hazards:g} hazards has a goal "
        f"that is nearer over hazards and that {longest} moves reach without them; expected other shares, "
        f"a larger map or more stages."
    )


def _distances(passable: NDArray[np.bool_]) -> Floats:
    """Return the number of moves from the upper left corner to each cell, infinite if it is cut off; [size, size]."""
    from scipy.sparse.csgraph import dijkstra  # late: the list of problems imports this file; it loads scipy.linalg

    cells = np.arange(passable.size, dtype=np.int32).reshape(passable.shape)  # as dijkstra of SciPy 1.13 takes them
    sideways, downwards = passable[:, :-1] & passable[:, 1:], passable[:-1] & passable[1:]
    tails = np.concatenate([cells[:, :-1][sideways], cells[:-1][downwards]])
    heads = np.concatenate([cells[:, 1:][sideways], cells[1:][downwards]])
    graph = sparse.csr_array((np.ones(len(tails)), (tails, heads)), shape=(passable.size, passable.size))
    return np.asarray(dijkstra(graph, directed=False, unweighted=True, indices=0)).reshape(passable.shape)


def _slippery_moves(
    state: NDArray[np.int64], rows: NDArray[np.int64], columns: NDArray[np.int64], goal: int, slip: float
) -> Any:
    """Return the kernel [S*A, S] of moves that may slip; `state` is the number of each cell, -1 for a wall."""
    S, A = len(rows), len(_MOVES) + 1
    x = np.arange(S)
    framed = np.pad(state, 1, constant_values=-1)
    beside = np.stack([framed[rows + 1 + i, columns + 1 + j] for i, j in _MOVES], axis=1)  # [S, 4]
    beside = np.where(beside < 0, x[:, None], beside)
    beside[goal] = goal
    stay = x[:, None]
    ahead = np.hstack([beside, stay])  # [S, A]
    one_side = np.hstack([np.roll(beside, -1, axis=1), stay])
    other_side = np.hstack([np.roll(beside, 1, axis=1), stay])
    successors = np.stack([ahead, one_side, other_side], axis=-1)  # [S, A, 3]
    probabilities = np.broadcast_to([1.0 - slip, slip / 2, slip / 2], successors.shape)
    moves = np.arange(S * A).repeat(3)
    return sparse.csr_array((probabilities.ravel(), (moves, successors.ravel())), shape=(S * A, S))
