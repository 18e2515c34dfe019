"""Third derivatives of the smooth pools along three directions at once, exactly and without automatic differentiation.

A jet is a number a + Σ a[S]·Π ε[s] over the sets S of directions 1, 2 and 3, where every ε[s]² is 0. Arithmetic with
jets gives f(x + ε1·u + ε2·v + ε3·w), whose part at {1, 2, 3} is the third derivative of f along u, v and w, and whose
other parts are the derivatives of lower orders. The pools of jets are in `jet_pools`.
"""

import math
from typing import Any

import numpy as np

# Sets of directions are numbers of 3 bits.
SETS = range(8)


class Jet:
    """An array of such numbers, in extended precision; `parts` has a first axis for the sets."""

    __array_ufunc__ = None

    def __init__(self, parts: Any) -> None:
        self.parts = np.asarray(parts, np.longdouble)

    @classmethod
    def of(cls, number: Any) -> "Jet":
        """The same number, if it is a jet, or a constant."""
        if isinstance(number, Jet):
            return number
        value = np.asarray(number, np.longdouble)
        return cls(np.stack([value, *[np.zeros_like(value)] * 7]))

    @property
    def value(self) -> np.ndarray:
        """The numbers themselves."""
        return self.parts[0]

    def __getitem__(self, index: Any) -> "Jet":
        return Jet([part[index] for part in self.parts])

    def __add__(self, other: Any) -> "Jet":
        return Jet(np.stack([one + two for one, two in zip(self.parts, Jet.of(other).parts, strict=True)]))

    def __mul__(self, other: Any) -> "Jet":
        one, two = self.parts, Jet.of(other).parts
        return Jet(
            np.stack([sum(one[part] * two[each ^ part] for part in SETS if part & each == part) for each in SETS])
        )

    def __neg__(self) -> "Jet":
        return Jet(-self.parts)

    def __sub__(self, other: Any) -> "Jet":
        return self + -Jet.of(other)

    def __truediv__(self, other: Any) -> "Jet":
        number = Jet.of(other)
        one = 1 / number.value
        return self * number.applied(one, -(one**2), 2 * one**3, -6 * one**4)

    __radd__, __rmul__ = __add__, __mul__

    def sum(self) -> "Jet":
        """The sum along the first axis."""
        return Jet(self.parts.sum(1))

    def applied(self, *derivatives: Any) -> "Jet":
        """A function with this value and these three derivatives at the value."""
        rest = Jet([np.zeros_like(self.value), *self.parts[1:]])
        terms, power = Jet.of(derivatives[0]), Jet.of(1.0)
        for order, derivative in enumerate(derivatives[1:], 1):
            power = power * rest
            terms = terms + power * (derivative / math.factorial(order))
        return terms

    def exp(self) -> "Jet":
        """The exponentials."""
        return self.applied(*[np.exp(self.value)] * 4)

    def log(self) -> "Jet":
        """The logarithms of positive numbers."""
        one = 1 / self.value
        return self.applied(np.log(self.value), one, -(one**2), 2 * one**3)

    def abs(self) -> "Jet":
        """The magnitudes of numbers that are not 0."""
        return self * np.sign(self.value)

    def power(self, exponent: Any) -> "Jet":
        """For positive numbers."""
        return (self.log() * exponent).exp()
