"""The shipped problems as environments of Gymnasium, registered as `opdop/NAME-v0`."""

from __future__ import annotations

import re
from importlib import resources
from typing import Any, SupportsFloat

import gymnasium
import numpy as np

from opdop.envs import make
from opdop.kernels.transitions import count_rows, draw, draw_next
from opdop.model import ContinuousCMDP, InvalidParameterError, Problem, TabularCMDP
from opdop.model.validation import Floats, as_flag, as_index, shown


class ProblemEnv(gymnasium.Env[Any, Any]):
    """A problem as an environment: rewards in the problem's own units, and its costs in `info`.

    Args:
        problem: a shipped problem's name, a TabularCMDP, or a ContinuousCMDP.
        noisy: rewards and costs are drawn with the model's means, instead of being the means.
        render_mode: None; there are no pictures.
        parameters: of a shipped problem.

    Raises InvalidParameterError if an argument is wrong.

    An episode is truncated after the problem's stages; `info["stage"]` counts them. `info["cost"]` is the cost of a
    step in own units. A utility counts as the cost of what it lacks to its largest value. Several constraints have the
    costs `cost_0`, `cost_1`, ..., and `cost` is their sum. `budgets` are the budgets of their totals.

    >>> env = ProblemEnv("factored")
    >>> env.reset(seed=0)[1]["stage"], env.step(1)[4]["cost"], env.budgets
    (0, 1.0, (3.0,))
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  # as Gymnasium declares it

    def __init__(
        self, problem: str | Problem, *, noisy: bool = False, render_mode: str | None = None, **parameters: Any
    ) -> None:
        made = make(problem, **parameters) if isinstance(problem, str) else problem
        if not isinstance(made, TabularCMDP | ContinuousCMDP):
            raise InvalidParameterError(f"problem is {shown(made)}; expected a TabularCMDP or a ContinuousCMDP.")
        if render_mode is not None:
            raise InvalidParameterError(f"render_mode is {shown(render_mode)}; expected None: there are no pictures.")
        self.problem, self.noisy, self.render_mode = made, as_flag("noisy", noisy), None
        model = made.tabular()
        self.horizon, self._quantities = model.horizon, model.display.quantities
        self.action_space = gymnasium.spaces.Discrete(model.num_actions)
        if isinstance(made, ContinuousCMDP):
            dim = made.features.nodes.dim
            self.observation_space: Any = gymnasium.spaces.Box(0.0, 1.0, (dim,), np.float64)
        else:
            self.observation_space = gymnasium.spaces.Discrete(made.num_states)
        self.budgets = tuple(
            quantity.shown(float(threshold)) if quantity.scale < 0 else quantity.scale * (self.horizon - threshold)
            for quantity, threshold in zip(self._quantities[1:], model.thresholds, strict=True)
        )
        self._stage = self.horizon
        self._state: Any = None

    @property
    def reward_range(self) -> tuple[float, float]:
        """The smallest and the largest reward of a step, in own units."""
        ends = sorted(self._own(0, value) for value in (0.0, 1.0))
        return ends[0], ends[1]

    @property
    def cost_ranges(self) -> tuple[tuple[float, float], ...]:
        """The smallest and the largest of each cost of a step, in own units."""
        pairs = (sorted(self._own(j, value) for value in (0.0, 1.0)) for j in range(1, len(self._quantities)))
        return tuple((low, high) for low, high in pairs)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode, with a new `seed` if one is given; return its first observation and info. No options."""
        super().reset(seed=seed, options=options)
        if isinstance(self.problem, ContinuousCMDP):
            simulator = self.problem.simulator(seed=self.np_random)
            self._state = simulator.first()
        else:
            self._state = int(draw(self.problem.initial, self.np_random.random()))
        self._stage = 0
        return self._observation(), {"stage": 0}

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take an action; return observation, reward in own units, terminated (never), truncated, and info.

        Raises InvalidParameterError if there is no such action, or the episode has ended.
        """
        if self._stage >= self.horizon:
            raise InvalidParameterError("the episode has ended; expected reset() first.")
        a = as_index("action", action, self.problem.tabular().num_actions)
        signals, self._state = self._move(self._stage, a)
        if self.noisy:
            signals = (self.np_random.random(len(signals)) < signals).astype(np.float64)
        own = [self._own(j, float(value)) for j, value in enumerate(signals)]
        self._stage += 1
        info: dict[str, Any] = {"stage": self._stage, "cost": sum(own[1:])}
        if len(own) > 2:
            info |= {f"cost_{i}": value for i, value in enumerate(own[1:])}
        return self._observation(), own[0], False, self._stage == self.horizon, info

    def _move(self, stage: int, action: int) -> tuple[Floats, Any]:
        """Return the mean signals [1+I] of a step, and the next state."""
        problem, state = self.problem, self._state
        if isinstance(problem, ContinuousCMDP):
            weights = problem.kernel_weights[stage % len(problem.kernel_weights)]
            return problem.signals_at(stage, state, action), problem.features.draw(
                weights, state, action, self.np_random
            )
        S, A = problem.num_states, problem.num_actions
        rows = count_rows(problem.transitions)
        row = (stage * S * A) % rows + state * A + action
        after = int(draw_next(problem.transitions, row, self.np_random.random()))
        return problem.signals[:, stage % problem.signals.shape[1], state, action], after

    def _own(self, j: int, value: float) -> float:
        """Return a signal of one stage in own units: the reward, or a cost; a utility as what it lacks."""
        quantity = self._quantities[j]
        if j > 0 and quantity.scale > 0:
            return quantity.scale * (1.0 - value)
        return quantity.offset / self.horizon + quantity.scale * value

    def _observation(self) -> Any:
        if isinstance(self.problem, ContinuousCMDP):
            return np.array(self._state, dtype=np.float64).reshape(-1)
        return np.int64(self._state)


def problem_names() -> list[str]:
    """Return the names of the shipped problems, read from their files: building none of them keeps this quick."""
    names = []
    for file in resources.files("opdop.envs").iterdir():
        if file.name.endswith(".py"):
            names += re.findall(r'^@environment\(\s*"([^"]+)"', file.read_text(encoding="utf-8"), re.MULTILINE)
    return sorted(names)


def register_envs() -> list[str]:
    """Register every shipped problem with Gymnasium as `opdop/NAME-v0`, and return these ids; see `ProblemEnv`.

    >>> ids = register_envs()
    >>> gymnasium.make("opdop/queue-v0", throughput=4).unwrapped.problem.display.name
    'queue'
    """
    ids = []
    for name in problem_names():
        ids.append(f"opdop/{name}-v0")
        if ids[-1] not in gymnasium.registry:
            gymnasium.register(ids[-1], entry_point="opdop.interop.gymnasium_envs:ProblemEnv", kwargs={"problem": name})
    return ids


register_envs()
