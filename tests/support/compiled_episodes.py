"""Episodes played in the compiled loop, without `train`."""

from __future__ import annotations

import numpy as np

from opdop import OPDOP, ModelSimulator
from opdop.kernels import loops


def advance(learner: OPDOP, simulator: ModelSimulator, count: int) -> None:
    """Play and learn from a number of episodes in the compiled loop, unmeasured."""
    cmdp = simulator.cmdp
    model = loops.Model(cmdp.transitions, cmdp.signals, cmdp.initial, simulator.noisy)
    J, shape = 1 + cmdp.num_constraints, learner.policy.shape
    uniforms = simulator.draw(count)
    while len(uniforms):
        record = loops.Record(
            totals=np.empty((len(uniforms), J)),
            estimates=np.empty((len(uniforms), J)),
            dual=np.empty((len(uniforms), J - 1)),
            first=0,
            measure_every=0,
            waiting=np.empty((1, shape[0], shape[2], shape[1])),
            occupancy=np.zeros(shape),
        )
        uniforms = uniforms[learner.run_compiled(model, uniforms, record) :]
