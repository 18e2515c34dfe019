"""Selection networks: fixed sequences of compare-exchanges that put the cells of certain ranks in their slots.

An exchange of two slots leaves the smaller cell in the first and the larger one in the second. The sequence does not
depend on the values, so a network is a chain of minima and maxima of whole arrays. The networks here sort by Batcher's
odd-even merge exchange, with about n·log²(n)/4 exchanges for n cells. Whatever does not lead to a wanted rank is left
out: exchanges neither side of which is read later, and the unread side of others. The median of nine cells has a
special network, of 30 minima and maxima in place of 36.

Sources: Batcher, "Sorting networks and their applications", AFIPS 1968, as Algorithm 5.2.2M of Knuth, The Art of
Computer Programming, volume 3; Paeth, "Median finding on a 3×3 grid", Graphics Gems 1990.
"""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple


class Exchange(NamedTuple):
    """Two slots: the minimum goes to the first and the maximum to the second, each only if it is read later."""

    first: int
    second: int
    first_read: bool
    second_read: bool


# Slots 0 to 8 in three rows: sort the rows, then the columns as far as they matter, then the diagonal.
_MEDIAN_OF_NINE = (
    *((1, 2), (4, 5), (7, 8), (0, 1), (3, 4), (6, 7), (1, 2), (4, 5), (7, 8)),
    *((0, 3), (5, 8), (4, 7), (3, 6), (1, 4), (2, 5), (4, 7)),
    *((4, 2), (6, 4), (4, 2)),
)


@cache
def selection_network(cells: int, ranks: frozenset[int]) -> tuple[Exchange, ...]:
    """The exchanges after which slot r holds the cell of rank r, for every wanted rank r."""
    if cells == 9 and ranks == {4}:
        return _read(_MEDIAN_OF_NINE, ranks)
    return _read(tuple(_merge_exchange(cells)), ranks)


def _merge_exchange(cells: int) -> Iterator[tuple[int, int]]:
    highest = 1 << max(cells - 1, 1).bit_length() - 1
    period = highest
    while period:
        merged, wanted, distance = highest, 0, period
        while True:
            for first in range(cells - distance):
                if first & period == wanted:
                    yield first, first + distance
            if merged == period:
                break
            merged, wanted, distance = merged >> 1, period, merged - period
        period >>= 1


def _read(network: tuple[tuple[int, int], ...], ranks: frozenset[int]) -> tuple[Exchange, ...]:
    """Working backwards, drop whatever neither a later exchange nor a wanted rank reads."""
    read, kept = set(ranks), []
    for first, second in reversed(network):
        exchange = Exchange(first, second, first in read, second in read)
        if exchange.first_read or exchange.second_read:
            kept.append(exchange)
            read |= {first, second}
    return tuple(reversed(kept))
