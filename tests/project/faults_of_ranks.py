"""Faults to plant in quantiles and top-k pools, and in the selection of ranks below them."""

from tests.project.fault import Fault

FAULTS = (
    Fault(
        "blocks of dilated windows beyond their stride",
        "axis.stride % (cells * axis.dilation) == 0",
        "axis.stride % cells == 0",
        "test_loops",
    ),
    Fault(
        "the first stride of a window for all its blocks",
        "start // axis.stride, start % axis.stride",
        "start * 0, start % axis.stride",
        "test_loops",
    ),
    Fault(
        "lower for higher",
        "xp.where(weight == 1, upper, lower)",
        "xp.where(weight == 1, lower, upper)",
        "test_quantiles",
    ),
    Fault(
        "a rank beside the whole one",
        "xp.where(abs(part - nearest) <= near, nearest, part)",
        "part",
        "test_quantiles",
    ),
    Fault(
        "halves to odd ranks", "(part == 0.5) & (lower % 2 == 1)", "(part == 0.5) & (lower % 2 == 0)", "test_quantiles"
    ),
    Fault(
        "quantiles share another's rank",
        "tuple(map(ranks.index, own)) for own",
        "tuple(min(1, ranks.index(rank)) for rank in own) for own",
        "test_quantiles test_values -k quantile",
    ),
    Fault(
        "weights of a mean swapped",
        "weight is None else ((1 - weight) * wide, weight * wide)",
        "weight is None else (weight * wide, (1 - weight) * wide)",
        "test_derivatives -k median or quantile",
    ),
    Fault(
        "one quantile's cotangent for a shared cell",
        "share if shares[rank] is None else shares[rank].astype(wide.dtype) + share.astype(wide.dtype)",
        "share",
        "test_derivatives test_quantiles -k quantile",
    ),
    Fault(
        "one offset too few",
        "(equal <= number).astype",
        "(equal < number).astype",
        "test_derivatives -k median or quantile",
    ),
    Fault(
        "padding sorted among the cells",
        "offsets = offsets if absent is None else jnp.where(absent, most, offsets)",
        "pass",
        "test_many_ranks",
    ),
    Fault(
        "the first of the sorted ranks alone has a gradient",
        "return total + route(many_kernels(number))",
        "return total",
        "test_many_ranks",
    ),
    Fault(
        "the cells of a footprint read by the offsets of its box",
        "places = jnp.asarray(table)[places]",
        "places += 0 * table.sum()",
        "test_many_ranks",
    ),
    Fault(
        "ranks that no window has, sorted",
        "np.arange(self.k, dtype=np.int32)",
        "np.zeros(self.k, np.int32)",
        "test_many_ranks",
    ),
    Fault("NaN after all numbers", "np.array(np.nan, array.dtype)", "np.array(-np.inf, array.dtype)", "test_top_k"),
    Fault(
        "a position for a rank that is not there",
        "jnp.where(held > rank, array,",
        "jnp.where(held >= rank, array,",
        "test_top_k",
    ),
    Fault(
        "zeros of either sign in an order",
        "jnp.where(keys == negative, zero, keys)",
        "keys",
        "test_top_k",
    ),
    Fault(
        "a network short of an exchange",
        "*((4, 2), (6, 4), (4, 2)),",
        "*((4, 2), (6, 4)),",
        "test_ranks -k networks_select",
    ),
    Fault(
        "bisection one rank below",
        "count <= rank, candidate",
        "count < rank, candidate",
        "test_ranks test_quantiles test_derivatives -k test_",
    ),
    Fault(
        "the same rank for the next one",
        "at_most > rank, first",
        "at_most >= rank, first",
        "test_quantiles -k large",
    ),
    Fault(
        "what blocks leave over",
        "block(left)) if left else result",
        "block(left)) if not left else result",
        "test_quantiles -k large",
    ),
    Fault(
        "keys of negative numbers",
        "return _in_integer_order(numbers)",
        "return numbers",
        "test_ranks test_quantiles test_derivatives",
    ),
    Fault(
        "16-bit cotangents added in 16 bits",
        "jnp.zeros_like(array)).astype(reduction_dtype(op, array.dtype))",
        "jnp.zeros_like(array))",
        "test_small_floats",
    ),
)
