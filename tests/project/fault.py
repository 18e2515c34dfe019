"""A fault to plant in the package: a small change of its text that some test must reject.

There is at least one for every family and every map: signs, ties, offsets, paddings, dtypes, masks, residuals, orders.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """A text in the package, and a wrong one to replace it.

    Attributes:
        name: What is wrong.
        right: The text, which occurs exactly once in the package.
        wrong: The replacement.
        seen_by: Test files that are likely to reject it, and -k with words of test names. They run first, but all tests
            decide.
    """

    name: str
    right: str
    wrong: str
    seen_by: str = "test_derivatives test_platforms"
