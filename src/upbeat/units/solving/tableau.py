"""Butcher tableaus: the explicit Runge-Kutta methods as plain numbers, shared by both engines."""

from __future__ import annotations

from upbeat.core.records import dataclass


@dataclass(frozen=True, slots=True)
class Tableau:
    """An explicit Runge-Kutta method: stage s is evaluated at t + c[s]·h and x + h·Σ a[s][q]·k[q].

    * `a` is strictly lower triangular: row s has s entries.
    * `b` gives the new state, x + h·Σ b[q]·k[q].
    * `e` (embedded pairs only) gives the error estimate, h·Σ e[q]·k[q].
    * `d` (dense output only) gives the last coefficient of the interpolant, h·Σ d[q]·k[q].
    """

    order: int
    c: tuple[float, ...]
    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]
    e: tuple[float, ...] = ()
    d: tuple[float, ...] = ()

    @property
    def stages(self) -> int:
        return len(self.c)


EULER = Tableau(order=1, c=(0.0,), a=((),), b=(1.0,))

MIDPOINT = Tableau(order=2, c=(0.0, 1 / 2), a=((), (1 / 2,)), b=(0.0, 1.0))

RK4 = Tableau(
    order=4,
    c=(0.0, 1 / 2, 1 / 2, 1.0),
    a=((), (1 / 2,), (0.0, 1 / 2), (0.0, 0.0, 1.0)),
    b=(1 / 6, 1 / 3, 1 / 3, 1 / 6),
)

# The last stage has the weights of the new state, so that it is the first stage of the next step.
_DP_B = (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84)

DORMAND_PRINCE = Tableau(
    order=5,
    c=(0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0),
    a=(
        (),
        (1 / 5,),
        (3 / 40, 9 / 40),
        (44 / 45, -56 / 15, 32 / 9),
        (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
        (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
        _DP_B,
    ),
    b=(*_DP_B, 0.0),
    e=(71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40),
    d=(
        -12715105075 / 11282082432,
        0.0,
        87487479700 / 32700410799,
        -10690763975 / 1880347072,
        701980252875 / 199316789632,
        -1453857185 / 822651844,
        69997945 / 29380423,
    ),
)
