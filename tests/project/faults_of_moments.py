"""Faults to plant in pools by deviations from a window's own mean: variances, weighted means."""

from tests.project.fault import Fault

FAULTS = (
    Fault(
        "deviations from 0 instead of from the largest cell",
        "sum(excess, self.kappa * near - largest)",
        "sum(excess, self.kappa * near - 0 * largest)",
        "test_variance -k digits",
    ),
    Fault(
        "variances of parts lost in a merge",
        "            if squares is not None:\n                added +=",
        "            if squares is None:\n                added +=",
        "test_variance -k digits",
    ),
    Fault(
        "variances of parts lost in one loop",
        "return gap, sum(excess[1:], gap * gap)",
        "return gap, gap * gap",
        "test_variance -k one_loop",
    ),
    Fault(
        "squares that vanish in one loop",
        "(largest >= least) & (largest <= 1 / least)",
        "(largest <= 1 / least)",
        "test_variance -k one_loop",
    ),
    Fault(
        "a rounded difference of sums",
        "(count * square - high * high) + (count * rest - 2 * high * low) - low * low",
        "count * (square + rest) - (high + low) * (high + low)",
        "test_variance -k bfloat16",
    ),
    Fault(
        "tangents of the variances of parts lost",
        "value_dot += apply_linear_map(PairMap(_Scales(), part)",
        "value_dot += 0 * apply_linear_map(PairMap(_Scales(), part)",
        "test_derivatives -k std_pool-many",
    ),
    Fault(
        "variances of parts of large numbers",
        "added += given[len(cells)] * (scale_of(given[1]) * inverse)",
        "added += given[len(cells)] * scale_of(given[1]) * inverse",
        "test_variance -k any_size",
    ),
    Fault(
        "slopes of roots by squares",
        "return root, tangents[0] * (0.5 / (root / primals[1]))",
        "return root, tangents[0] / primals[1] * primals[1] ** 2 / 2 / root",
        "test_variance -k any_size",
    ),
    Fault(
        "the slope of a root of 0",
        "jnp.where(is_zero, 1, squares), jnp.where(is_zero, 1, scale)",
        "squares, scale",
        "test_variance -k root_of_0",
    ),
    Fault(
        "squares without a scale",
        "    return jnp.where(magnitude == 0, 1, power_of_two(scale) if mean.dtype == np.float32 else scale)",
        "    return jnp.ones_like(scale)",
        "test_variance -k overflows",
    ),
    Fault(
        "a correction of windows with too few cells",
        "return jnp.where(left > 0, number / jnp.where(left > 0, left, 1), 0)",
        "return number / left",
        "test_variance -k correction",
    ),
    Fault(
        "weights rounded to the dtype of the cells",
        "each.astype(np.promote_types(*sums))",
        "each.astype(sums[0])",
        "test_weighted -k wider",
    ),
    Fault(
        "weights without a scale of their window",
        "return 1 / jnp.where(largest == 0, 1, lax.stop_gradient(largest))",
        "return jnp.ones_like(largest)",
        "test_weighted -k ends",
    ),
    Fault(
        "logits not relative to the largest one",
        "return jnp.where(jnp.isneginf(largest), 0, largest)",
        "return jnp.zeros_like(largest)",
        "test_weighted -k ends",
    ),
    Fault(
        "slopes of weights from 0 instead of from the mean",
        "gap = mean - centre",
        "gap = mean",
        "test_weighted -k closed",
    ),
    Fault(
        "curvature of logits",
        "return one, one * tangents[0]",
        "return one, lax.stop_gradient(one) * tangents[0]",
        "test_weighted -k closed",
    ),
    Fault(
        "windows without weight",
        "    return jnp.where(mass == 0, 0, mean + (of_x + of_weights) / jnp.where(mass == 0, 1, mass))",
        "    return mean + (of_x + of_weights) / mass",
        "test_weighted -k nothing",
    ),
    Fault(
        "no slopes of weights of 0",
        "scales = scales if self.exponents else jnp.where(scales == 0, 1, scales)",
        "pass",
        "test_weighted -k without_weight",
    ),
    Fault(
        "slopes by sums from 0 instead of from the mean",
        "return None, (cells[0] - windows[0],)",
        "return None, (cells[0] + 0 * windows[0],)",
        "test_sums_in_float32",
    ),
)
