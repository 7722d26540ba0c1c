"""Feature families of linear kernels: P(y | x, a) = <psi(x, a, y), theta>, signals = <varphi(x, a), theta_r>.

A family knows its psi in the form in which integrals against it are cheap, and its varphi as a table. Families here are
for finitely many states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from opdop.kernels.features import Embedded, Form, Listed, Table, integrate_all
from opdop.model.errors import InvalidModelError
from opdop.model.validation import (
    Floats,
    as_floats,
    as_number,
    as_size,
    as_text,
    as_vector,
    check_memory,
    check_sparse_rows,
    read_sparse,
    shown,
)

if TYPE_CHECKING:
    from opdop.model.continuous_features import Carried

_ROW_SUMS = 1e-9  # by how much a base's rows may miss 1
_SPARSE, _BEGIN = 0.25, 2  # lists are read faster than a table up to this share of it; each costs two numbers to begin


@dataclass(frozen=True, eq=False, repr=False)
class Features:
    """What a learner with a linear kernel is told: psi in one of its forms, and varphi [S, A, d2].

    `form` is None for one-hot features, which are never stored. `kernel_norm` bounds the norm of the kernel's
    weights: sqrt(d1) by the paper's assumption, 1 for the weights of a mixture.
    """

    name: str
    num_states: int
    num_actions: int
    kernel_dim: int  # d1
    signal_dim: int  # d2
    kernel_norm: float
    signal_norm: float
    form: Form | None
    varphi: Floats  # [d2, A*S], by action; empty for one-hot
    carried: Carried | None = None  # of continuous states: those at which value functions are stored

    def __post_init__(self) -> None:
        """Check that all sizes fit: compiled code would read and write beyond arrays that do not."""
        for name in ("num_states", "num_actions", "kernel_dim", "signal_dim"):
            object.__setattr__(self, name, as_size(name, getattr(self, name)))
        object.__setattr__(self, "name", as_text("the name of the features", self.name))
        if self.carried is not None:
            from opdop.model.continuous_features import Carried  # late: it imports this module

            if not isinstance(self.carried, Carried):
                raise InvalidModelError(f"carried is {shown(self.carried)}; expected Carried, or None.")
        for name in ("kernel_norm", "signal_norm"):
            value = as_number(name, getattr(self, name), "a bound on a norm, above 0", error=InvalidModelError)
            object.__setattr__(self, name, value)
            if not value > 0.0:
                raise InvalidModelError(f"{name} is {value:g}; expected a bound on a norm, above 0.")
        S, A, d1, d2 = self.num_states, self.num_actions, self.kernel_dim, self.signal_dim
        varphi = (0, A * S) if self.form is None else (d2, A * S)
        if np.shape(self.varphi) != varphi or not _fits(self.form, S, A, d1, d2):
            raise InvalidModelError(
                f"psi or varphi does not fit {S} states, {A} actions, d1 = {d1} and d2 = {d2}; the functions of "
                "opdop.model.features make features that do."
            )

    @property
    def blocks(self) -> int:
        """The number of regressions for the kernel: one for each pair if features are one-hot, otherwise one."""
        return self.num_states * self.num_actions if self.form is None else 1

    @property
    def signal_length(self) -> float:
        """The largest norm of varphi(x, a); where states are continuous, over the stored ones."""
        return 1.0 if self.form is None else float(np.sqrt((self.varphi**2).sum(axis=0).max()))

    def integrate(self, v: Any) -> Floats:
        """Return phi(x, a) = sum_y psi(x, a, y) v(y), [S, A, d1], for v [S].

        Raises InvalidModelError if v has another shape, or if phi would not fit into memory.
        """
        S, A = self.num_states, self.num_actions
        values = as_vector("V", v, S, "S")
        check_memory(16.0 * S * A * self.kernel_dim, f"phi of {S:,} states and {A:,} actions, d1 = {self.kernel_dim:,}")
        if self.form is None:
            phi = np.zeros((S * A, S * A, S))
            phi[np.arange(S * A), np.arange(S * A)] = values
            return phi.reshape(S, A, -1)
        out = np.empty((1, self.kernel_dim, A * S))
        integrate_all(self.form, values[None, None], out)
        return out.reshape(self.kernel_dim, A, S).transpose(2, 1, 0).copy()

    def signal_features(self) -> Floats:
        """Return varphi as [S, A, d2]; raises InvalidModelError if it would not fit into memory."""
        S, A = self.num_states, self.num_actions
        if self.form is None:
            check_memory(8.0 * (S * A) ** 2, f"varphi of {S:,} states and {A:,} actions")
            return np.eye(S * A).reshape(S, A, S * A)
        return self.varphi.reshape(self.signal_dim, A, S).transpose(2, 1, 0).copy()

    def kernel(self, weights: Floats) -> Any:
        """Return the kernel of weights [d1] as [S*A, S]: scipy.sparse for a sparse form, else dense.

        Raises InvalidModelError if weights have another shape.
        """
        S, A = self.num_states, self.num_actions
        weights = as_vector("weights", weights, self.kernel_dim, "d1")
        if self.form is None:
            return weights.reshape(S * A, S)
        if isinstance(self.form, Listed):
            mixed = sum(weight * base for weight, base in zip(weights, self._bases(), strict=True))
            return mixed[_turned(A, S)]
        if isinstance(self.form, Embedded):
            square = weights.reshape(len(self.form.left), len(self.form.right))
            return (self.form.left.T @ square @ self.form.right)[_turned(A, S)]
        return np.einsum("yip,i->py", self.form.psi, weights)[_turned(A, S)]

    def signals(self, weights: Floats) -> Floats:
        """Return the signal of weights [d2] as [S, A]; raises InvalidModelError if they have another shape."""
        S, A = self.num_states, self.num_actions
        weights = as_vector("weights", weights, self.signal_dim, "d2")
        return weights.reshape(S, A) if self.form is None else self._by_state(weights @ self.varphi)

    def integral_norms(self) -> Floats:
        """Return for each pair [S, A] a bound on || sum_y psi(x, a, y) V(y) || over all V: S -> [0, 1].

        Component by component the sum is largest where V picks the positive, or the negative, parts of psi. For
        psi >= 0 the bound is attained, at V = 1.
        """
        S, A = self.num_states, self.num_actions
        if self.form is None:
            return np.full((S, A), np.sqrt(S))
        if isinstance(self.form, Embedded):
            up, down = np.maximum(self.form.right, 0.0).sum(axis=1), np.maximum(-self.form.right, 0.0).sum(axis=1)
            most = np.abs(self.form.left)[:, None, :] * np.maximum(up, down)[:, None]
            return self._by_state(np.sqrt((most**2).sum(axis=(0, 1))))
        if isinstance(self.form, Table):
            up, down = np.maximum(self.form.psi, 0.0).sum(axis=0), np.maximum(-self.form.psi, 0.0).sum(axis=0)
        else:
            up = np.array([base.maximum(0.0).sum(axis=1) for base in self._bases()])
            down = np.array([(-base).maximum(0.0).sum(axis=1) for base in self._bases()])
        return self._by_state(np.sqrt((np.maximum(up, down) ** 2).sum(axis=0)))

    def _by_state(self, values: Floats) -> Floats:
        """Return what is laid out by action [A*S] as [S, A]."""
        return np.ascontiguousarray(values.reshape(self.num_actions, self.num_states).T)

    def _bases(self) -> list[Any]:
        """Return the components of a listed psi, each as scipy.sparse [A*S, S], by action."""
        assert isinstance(self.form, Listed)
        shape = self.num_states * self.num_actions, self.num_states
        entries = self.form.psi, self.form.successors
        return [
            sparse.csr_array(
                (entries[0][starts[0] : starts[-1]], entries[1][starts[0] : starts[-1]], starts - starts[0]),
                shape=shape,
            )
            for starts in self.form.starts
        ]

    def __repr__(self) -> str:
        return (
            f"Features({self.name}: {self.num_states} states, {self.num_actions} actions, "
            f"d1 = {self.kernel_dim}, d2 = {self.signal_dim})"
        )


def one_hot(num_states: int, num_actions: int) -> Features:
    """Return the features of an unstructured finite model: one component for each transition, and for each pair."""
    S, A = as_size("num_states", num_states), as_size("num_actions", num_actions)
    # A pair's block of weights is a distribution, of norm at most 1; a signal's weight at most 1.
    return Features("one-hot", S, A, S * S * A, S * A, 1.0, 1.0, None, np.empty((0, A * S)))


def mixture(bases: Any, varphi: Any) -> Features:
    """Return the features of a mixture of known kernels: psi_i(x, a, y) = P_i(y | x, a), with weights that sum to 1.

    bases: d kernels, each [S, A, S] or scipy.sparse [S*A, S]. varphi: [S, A, d2].
    """
    signal_table, S, A = _varphi(varphi)
    if isinstance(bases, np.ndarray) and bases.ndim:
        bases = list(bases)
    if not isinstance(bases, Sequence):
        found = "a scipy.sparse matrix" if sparse.issparse(bases) else f"{shown(bases)} ({type(bases).__name__})"
        raise InvalidModelError(f"bases is {found}; expected a list of kernels.")
    if not bases:
        raise InvalidModelError("bases is empty; expected at least one kernel.")
    form = _listed([_base(f"bases[{i}]", base, S, A)[_turned(S, A)] for i, base in enumerate(bases)])
    d2 = len(signal_table)
    return Features("mixture", S, A, len(bases), d2, 1.0, np.sqrt(d2), form, signal_table)


def embedding(left: Any, right: Any, varphi: Any) -> Features:
    """Return the features psi(x, a, y) = left(x, a) outer right(y).

    left: [S, A, dl]. right: [S, dr]. varphi: [S, A, d2].
    """
    signal_table, S, A = _varphi(varphi)
    p = as_floats("left", left, "[S,A,dl]")
    q = as_floats("right", right, f"[S,dr], S = {S}")
    if p.shape[:2] != (S, A) or p.ndim != 3 or not p.shape[2]:
        raise InvalidModelError(f"left has shape {list(p.shape)}; expected [S,A,dl] = [{S},{A},dl].")
    if q.ndim != 2 or q.shape[0] != S or not q.shape[1]:
        raise InvalidModelError(f"right has shape {list(q.shape)}; expected [S,dr] = [{S},dr].")
    form = Embedded(np.ascontiguousarray(p.transpose(2, 1, 0).reshape(-1, A * S)), np.ascontiguousarray(q.T))
    d1, d2 = p.shape[2] * q.shape[1], len(signal_table)
    return Features("embedding", S, A, d1, d2, np.sqrt(d1), np.sqrt(d2), form, signal_table)


def array(psi: Any, varphi: Any) -> Features:
    """Return features given as plain arrays: psi [S, A, S, d1], varphi [S, A, d2].

    A psi that is mostly zero is stored as lists of its other entries, which is faster.
    """
    signal_table, S, A = _varphi(varphi)
    table = as_floats("psi", psi, f"[S,A,S,d1] = [{S},{A},{S},d1]")
    if table.ndim != 4 or table.shape[:3] != (S, A, S) or not table.shape[3]:
        raise InvalidModelError(f"psi has shape {list(table.shape)}; expected [S,A,S,d1] = [{S},{A},{S},d1].")
    d1, d2 = table.shape[3], len(signal_table)
    by_action = table.transpose(3, 1, 0, 2).reshape(d1, A * S, S)
    form: Form
    if np.count_nonzero(by_action) + _BEGIN * d1 * A * S <= _SPARSE * by_action.size:
        form = _listed([sparse.csr_array(component) for component in by_action])
    else:
        form = Table(np.ascontiguousarray(by_action.transpose(2, 0, 1)))
    return Features("array", S, A, d1, d2, np.sqrt(d1), np.sqrt(d2), form, signal_table)


def _varphi(varphi: Any) -> tuple[Floats, int, int]:
    """Return varphi as [d2, A*S], with S and A."""
    table = as_floats("varphi", varphi, "[S,A,d2]")
    if table.ndim != 3 or 0 in table.shape:
        raise InvalidModelError(f"varphi has shape {list(table.shape)}; expected [S,A,d2], none of them 0.")
    S, A, d2 = table.shape
    return np.ascontiguousarray(table.transpose(2, 1, 0).reshape(d2, A * S)), S, A


def _listed(components: Sequence[Any]) -> Listed:
    """Return psi as lists, from its components as scipy.sparse [A*S, S], by action."""
    begins = np.cumsum([0, *(matrix.nnz for matrix in components)])
    return Listed(
        np.array([matrix.indptr.astype(np.int64) + begin for matrix, begin in zip(components, begins, strict=False)]),
        np.concatenate([matrix.indices for matrix in components]).astype(np.int32),
        np.concatenate([matrix.data for matrix in components]).astype(np.float64),
    )


def _turned(m: int, n: int) -> NDArray[np.int64]:
    """Return the order in which rows i * n + j of a table, i < m and j < n, become rows j * m + i."""
    return np.arange(m * n).reshape(m, n).T.ravel()


def _base(name: str, base: Any, S: int, A: int) -> Any:
    """Return a base kernel as scipy.sparse [S*A, S], checked to be one."""
    if sparse.issparse(base):
        if base.shape != (S * A, S):
            raise InvalidModelError(f"{name} has shape {list(base.shape)}; expected [S*A,S] = [{S * A},{S}].")
        matrix = read_sparse(name, base)
    else:
        table = as_floats(name, base, f"[S,A,S] = [{S},{A},{S}]")
        if table.shape != (S, A, S):
            raise InvalidModelError(f"{name} has shape {list(table.shape)}; expected [S,A,S] = [{S},{A},{S}].")
        matrix = sparse.csr_array(table.reshape(S * A, S))
    check_sparse_rows(name, matrix, A, _ROW_SUMS)
    return matrix


def _fits(form: Any, S: int, A: int, d1: int, d2: int) -> bool:
    """Return whether psi has the sizes that go with it, and lists refer to states and entries that there are."""
    if form is None:
        return (d1, d2) == (S * S * A, S * A)
    if not isinstance(form, Form) or any(not isinstance(part, np.ndarray) for part in form):
        return False
    if isinstance(form, Table):
        return form.psi.shape == (S, d1, A * S)
    if isinstance(form, Embedded):
        return (
            form.left.shape[1:] == (A * S,) and form.right.shape[1:] == (S,) and len(form.left) * len(form.right) == d1
        )
    starts, successors = form.starts, form.successors
    return bool(
        starts.shape == (d1, A * S + 1)
        and successors.shape == form.psi.shape
        and starts.min() >= 0
        and (np.diff(starts, axis=1) >= 0).all()
        and starts.max() <= len(successors)
        and (not len(successors) or (successors.min() >= 0 and successors.max() < S))
    )
