"""The tasks of Gymnasium's toy-text set, written anew with a constraint: ice, cliffs and a taxi; and random ice."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from opdop.envs.families.family import family, free, whole
from opdop.model import TabularCMDP

Random = np.random.Generator

_LAKE_4 = ("SFFF", "FHFH", "FFFH", "HFFG")
_LAKE_8 = (
    "SFFFFFFF", "FFFFFFFF", "FFFHFFFF", "FFFFFHFF",
    "FFFHFFFF", "FHHFFFHF", "FHFFHFHF", "FFFHFFFG",
)  # fmt: skip
_MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))  # left, down, right, up: neighbours are at right angles
_TAXI_WALLS = {(0, 1), (1, 1), (3, 0), (4, 0), (3, 2), (4, 2)}  # between this cell and the one to its right
_TAXI_STANDS = ((0, 0), (0, 4), (4, 0), (4, 3))


def _lake(rows: tuple[str, ...], slip: float, stages: int) -> TabularCMDP:
    """Return a lake in which the goal pays 1, and a fall into a hole costs 1; one state more is the end."""
    n = len(rows)
    cells = np.array([letter for row in rows for letter in row] + ["E"])
    end = n * n
    kernel = np.zeros((end + 1, 4, end + 1))
    for x in range(end + 1):
        for a in range(4):
            if cells[x] in "HGE":
                kernel[x, a, end] = 1.0
                continue
            for turn, chance in ((0, 1.0 - slip), (1, slip / 2), (3, slip / 2)):
                i, j = _MOVES[(a + turn) % 4]
                row, column = min(max(x // n + i, 0), n - 1), min(max(x % n + j, 0), n - 1)
                kernel[x, a, row * n + column] += chance
    reward, fall = ((cells == letter).astype(float)[:, None] * np.ones((1, 4)) for letter in "GH")
    return free(kernel, reward, 1.0 - fall[None], horizon=stages)


@family("frozen-lake-4x4", "validation", rows=_LAKE_4, stages=100)
@family("frozen-lake-8x8", "validation", rows=_LAKE_8, stages=50)
def frozen_lake(random: Random, rows: tuple[str, ...], stages: int) -> TabularCMDP:
    """Cross a slippery lake to the goal, and seldom fall into a hole; both end the episode."""
    return _lake(rows, 2.0 / 3.0, stages)


@family("ice", "training", side=(3, 5))
def ice(random: Random, side: tuple[int, int]) -> TabularCMDP:
    """A random lake with random slips."""
    n = whole(random, *side)
    letters = np.where(random.random((n, n)) < 0.2, "H", "F")
    letters[0, 0], letters[-1, -1] = "S", "G"
    return _lake(tuple("".join(row) for row in letters), random.uniform(0.0, 0.5), whole(random, 3 * n, 12 * n))


@family("cliff-walking", "validation", stages=40)
def cliff_walking(random: Random, stages: int) -> TabularCMDP:
    """Walk along a cliff to the goal in few steps; a step over the edge leads back to the start and is counted."""
    rows, columns = 4, 12
    S, start, goal = rows * columns, (rows - 1) * columns, rows * columns - 1
    kernel, reward, falls = np.zeros((S, 4, S)), np.zeros((S, 4)), np.zeros((S, 4))
    for x in range(S):
        for a, (i, j) in enumerate(_MOVES):
            row, column = min(max(x // columns + i, 0), rows - 1), min(max(x % columns + j, 0), columns - 1)
            y = row * columns + column
            fell = row == rows - 1 and 0 < column < columns - 1
            # The wind sometimes blows a step further towards the cliff, so that walking along the edge is a risk.
            blown = min(row + 1, rows - 1) * columns + column
            over = blown // columns == rows - 1 and 0 < blown % columns < columns - 1
            for place, chance, dropped in ((y, 0.98, fell), (blown, 0.02, over)):
                kernel[x, a, goal if x == goal else start if dropped else place] += chance
                falls[x, a] += chance * dropped * (x != goal)
    reward[goal] = 1.0
    return free(kernel, reward, 1.0 - falls[None], start, horizon=stages)


@family("taxi", "validation", stages=30)
def taxi(random: Random, stages: int) -> TabularCMDP:
    """Fetch passengers and bring them to their stands, with little fuel and few false calls at doors."""
    S, A = 500, 6
    successors = np.zeros((S, A), dtype=np.int64)
    reward, cost = np.zeros((S, A)), np.zeros((S, A))
    for x in range(S):
        cell, rest = divmod(x, 20)
        (row, column), (passenger, goal) = divmod(cell, 5), divmod(rest, 4)
        for a in range(A):
            i, j, aboard = row, column, passenger
            if a < 4:
                di, dj = _MOVES[a]
                blocked = (dj == 1 and (row, column) in _TAXI_WALLS) or (dj == -1 and (row, column - 1) in _TAXI_WALLS)
                if not blocked:
                    i, j = min(max(row + di, 0), 4), min(max(column + dj, 0), 4)
                cost[x, a] = 0.2 * ((i, j) != (row, column))  # waiting at a wall is free
            elif a == 4:
                if passenger < 4 and (row, column) == _TAXI_STANDS[passenger]:
                    aboard = 4
                else:
                    cost[x, a] = 1.0
            elif passenger == 4 and (row, column) == _TAXI_STANDS[goal]:
                aboard, reward[x, a] = goal, 1.0  # done: nobody calls until the passenger's stand is the goal
            else:
                cost[x, a] = 1.0
            if passenger == goal:  # the episode has ended
                i, j, aboard, reward[x, a], cost[x, a] = row, column, passenger, 0.0, 0.0
            successors[x, a] = (i * 5 + j) * 20 + aboard * 4 + goal
    kernel = sparse.csr_array((np.ones(S * A), successors.ravel(), np.arange(S * A + 1)), shape=(S * A, S))
    waiting = np.array([x % 20 // 4 < 4 and x % 20 // 4 != x % 4 for x in range(S)], dtype=float)
    return free(kernel, reward, 1.0 - cost[None], waiting / waiting.sum(), horizon=stages)
