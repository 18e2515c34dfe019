"""Faults to plant in the pools between the mean and the maximum: mellowmax, soft means and blends."""

from tests.project.fault import Fault

FAULTS = (
    Fault(
        "mellowmax without slope at β = 0",
        "jnp.minimum(jnp.where(beta < 0, -beta, beta), most)",
        "jnp.minimum(beta * jnp.sign(beta), most)",
        "test_means",
    ),
    Fault(
        "logarithms of means that are rounded to 1",
        "jnp.where(u == 1, e, jnp.log(u) * e / (u - 1))",
        "jnp.log(u)",
        "test_sums_of_cells -k digits",
    ),
    Fault(
        "log-sum-exps of values that are rounded",
        "    if len(cells) > 1:\n        gap += cells[0]",
        "    if len(cells) > 1:\n        gap += (near + cells[0]) - near",
        "test_extreme_numbers -k all_axes",
    ),
    Fault(
        "moments of higher order",
        "moment = (exponential - k * moment) / large",
        "moment = (exponential - moment) / large",
        "test_means -k curvature",
    ),
    Fault(
        "soft means forget the derivatives of offsets",
        'y_dot = (y_dot[0] + applied(weights.each[1], weighed(offset_dot), "offsets")[0], *y_dot[1:])',
        "pass",
        "test_extreme_numbers -k soft_pool",
    ),
    Fault(
        "soft means without β's slope",
        "terms.append(tuple(slope * beta_dot for slope in slopes))",
        "terms.append(tuple(0 * slope * beta_dot for slope in slopes))",
        "test_means test_derivatives -k soft",
    ),
    Fault(
        "zeros in the padding that are no window's largest cell",
        "for axis in window.axes if window.zeros else ():",
        "for axis in ():",
        "test_padded_zeros",
    ),
    Fault(
        "zeros of the axes pooled before left out",
        "if beyond or in_turn or",
        "if beyond or",
        "test_padded_zeros -k after_the_other",
    ),
    Fault(
        "zeros in the padding of one axis lost in a split",
        "Window((axis,), zeros=self.zeros)",
        "Window((axis,))",
        "test_padded_zeros -k large_windows",
    ),
    Fault(
        "sums of exponentials of any size",
        "(mass >= least) & (mass <= most)",
        "~jnp.isnan(mass)",
        "test_sums_of_cells -k limit",
    ),
    Fault(
        "sums of cells of -inf",
        "reduce(jnp.logical_and, map(jnp.isfinite, others), (mass >= least) & (mass <= most))",
        "(mass >= least) & (mass <= most)",
        "test_sums_of_cells -k large_cell",
    ),
    Fault(
        "sums of exponentials that do not depend on β themselves",
        "jax.tree.map(lax.add, direct, jax.vjp(self.kept_terms, *cells)[1](spread_bar))",
        "jax.vjp(self.kept_terms, *cells)[1](spread_bar)",
        "test_learnt_sharpness -k exact_pool",
    ),
    Fault(
        "slopes of padded cells that are not zeros",
        "fills = 0.0, 1.0 if self.window.zeros else -1.0",
        "fills = 0.0, float(self.window.zeros)",
        "test_learnt_sharpness -k mellowmax-no",
    ),
    Fault(
        "slopes from values that have lost digits",
        "(x, beta), (mass, *_, values) = cells, sums",
        "(x, beta), (mass, *_, values), values = cells, sums, self.value_of_kept(cells, sums[: self.kept])",
        "test_learnt_sharpness -k far_from_zero",
    ),
    Fault(
        "smooth maxima of single cells by sums",
        "return () if (counts == 1).any() else super().platforms",
        "return super().platforms",
        "test_sums_of_cells -k one_cell",
    ),
    Fault(
        "windows that start in the padding taken for whole axes",
        "axis.output == 1 and axis.kernel == axis.size and not (axis.low or axis.high) for",
        "axis.output == 1 and axis.kernel == axis.size for",
        "test_long_windows -k whole",
    ),
    Fault(
        "powers that vanish taken for zeros",
        "jnp.maximum(positive_power(magnitudes, self.p), _LEAST_TERM)",
        "positive_power(magnitudes, self.p)",
        "test_sums_of_cells -k norms",
    ),
    Fault(
        "derivatives by sums that are not moderate",
        "if_moderate(moderate, pull_sums, partial(in_slabs, pull_exact, self.pool.window), *cells, values_bar)",
        "pull_sums(*cells, values_bar)",
        "test_sums_of_cells -k large_cell",
    ),
    Fault(
        "means from norms that overflow",
        "math.log(window.held) / number < math.log(largest) / 4",
        "number > 0",
        "test_extreme_numbers -k small_exponents",
    ),
    Fault(
        "absent cells count in power means",
        "counted = None if present is None else present.astype(x.dtype)",
        "counted = None",
        "test_extreme_numbers -k small_exponents",
    ),
    Fault("0 times inf in a blend", "if number != 0:", "if True:", "test_extreme_numbers -k blends_of_one"),
    Fault(
        "0 times inf in a blend by an array",
        "if alpha is not None:\n            values",
        "if False:\n            values",
        "test_extreme_numbers -k blends_of_one",
    ),
    Fault(
        "shares the wrong way round",
        "terms.append(weigh(1 - of_maximum, averages",
        "terms.append(weigh(of_maximum, averages",
        "test_derivatives -k mixed",
    ),
    Fault(
        "pieces in no window send NaN",
        "values = pool_in_turn(_without_nan(x))",
        "values = pool_in_turn(x)",
        "test_long_windows -k nan",
    ),
    Fault(
        "NaN in a long window without a derivative",
        "return _without_nan(*primals), tangents[0]",
        "return _without_nan(*primals), jnp.where(jnp.isnan(primals[0]), 0, tangents[0])",
        "test_long_windows -k nan",
    ),
    Fault(
        "pieces of long windows that overlap",
        "done += count * width",
        "done += count * width - (width > 1)",
        "test_long_windows -k pieces",
    ),
    Fault(
        "long windows cell by cell",
        "return long and not (others or part.tiles or part.has_bins or part.has_footprint)",
        "return False",
        "test_cost -k weighted",
    ),
)
