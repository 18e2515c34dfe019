"""Second and third derivatives by every nesting of forward and reverse mode, against a reference of its own.

There are four nestings of two derivatives and eight of three. Each derivative is along a direction of its own, in the
cells and in the other arguments with derivatives, so that a nesting is one number. The reference is arithmetic with
`jets`, from the definitions: it knows no modes and nothing of this package. The same programs scatter nothing, for any
platform: JAX transposes gathers into scatters, which add in the order in which a device works.
"""

import jax
import pytest

import jaxpool
from tests.harness.nestings import check_nestings, lowered, scatters
from tests.harness.parts import case_row
from tests.properties.nested_rows import Row, box_rows, curved_rows, morphology_rows, other_rows
from tests.reference import jet_pools
from tests.registry.records import RECORDS

ROWS = [*curved_rows(), *other_rows(), *morphology_rows()]
BOXES = [*box_rows()]
# It numbers the writers by a scatter of integers, which is the same in any order. Boxes may overlap anywhere.
MAY_SCATTER = ("max_unpool-indices", *(row.name for row in BOXES))
WITHOUT_SCATTER = [row for row in ROWS if row.name not in MAY_SCATTER]


def test_every_function_has_a_row() -> None:
    assert {row.name.partition("-")[0] for row in ROWS + BOXES} == {
        *RECORDS,
        *(f"morphology.{one}" for one in jet_pools.CHAINS),
    }


@pytest.mark.usefixtures("for_this_platform")
@pytest.mark.parametrize("row", [case_row(row, id=row.name, kept=row.kept) for row in ROWS + BOXES])
def test_every_nesting(row: Row) -> None:
    check_nestings(row.pool, row.expected, row.arrays, row.levels, row.rules, may_scatter=row.name in MAY_SCATTER)


# Of windows that other platforms copy, and of those that they do not.
@pytest.mark.parametrize("platform", ["gpu", "tpu"])
@pytest.mark.parametrize(
    "row", [case_row(row, id=row.name, kept=row.name == "var_pool-bins of planes") for row in WITHOUT_SCATTER]
)
def test_other_platforms_scatter_nothing(row: Row, platform: str) -> None:
    with jaxpool.compiling_for(platform):
        assert not scatters(lowered(row.pool, row.arrays, row.levels, ("jvp",)))


def test_scatters_are_found() -> None:
    # A control: JAX scatters where it transposes a gather.
    def indexing(x: jax.Array) -> jax.Array:
        return x[jax.numpy.array([1, 1, 2])]

    row = ROWS[0]
    assert scatters(lowered(lambda rule, x: indexing(x), {"x": row.arrays["x"]}, [["x"]] * 3, ("jvp",)))
