"""A fault to plant in the package: a small change of its text that some test must reject.

There is one at least for every family and every map: signs, ties, offsets, paddings, dtypes, masks, residuals, orders.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """A text of the package, and a wrong one in its place.

    Attributes:
        name: What is wrong.
        right: The text, which occurs once in the package, in whichever file.
        wrong: What is planted instead of it.
        seen_by: Files of tests that are likely to see it, and -k with words of their names. They run first, and decide
            nothing.
    """

    name: str
    right: str
    wrong: str
    seen_by: str = "test_derivatives test_platforms"
