"""Faults to plant in families of pools: sums, norms, draws, blurs, and positions that are data."""

from tests.project.fault import Fault

FAULTS = (
    # Sums and averages.
    Fault(
        "division by a reciprocal",
        "sums / jnp.where(jnp.isnan(sums), sums, divisors)",
        "sums / divisors",
        "test_conventions",
    ),
    Fault(
        "cotangents undivided",
        "quotients_bar / divisors.astype(quotients_bar.dtype)",
        "quotients_bar",
        "test_derivatives -k avg",
    ),
    Fault(
        "high padding not counted",
        "_steps(self.size + high - start, self.dilation)",
        "_steps(self.size - start, self.dilation)",
        "test_derivatives -k avg",
    ),
    Fault(
        "low padding not counted",
        "_steps(-start - low, self.dilation)",
        "_steps(-start, self.dilation)",
        "test_derivatives -k avg",
    ),
    Fault(
        "masked padding counted twice",
        "materialize(counts - real)",
        "materialize(counts)",
        "test_derivatives -k avg",
    ),
    Fault(
        "empty windows divided by 0",
        "jnp.maximum(unmasked + (materialize(counts - real) if include_pad else 0), 1)",
        "unmasked + (counts - real if include_pad else 0)",
        "test_masks test_derivatives -k avg or mean",
    ),
    Fault(
        "bools counted in 8 bits",
        "x = x.astype(jnp.int32)",
        "x = x.astype(jnp.uint8)",
        "test_values test_integers -k sum",
    ),
    Fault(
        "sums of 16 bits",
        "return x.astype(accumulation_dtype(dtype)), mask",
        "return x, mask",
        "test_small_floats test_precision -k small_floats or 16_bit",
    ),
    Fault(
        "sums one power short",
        "count = (axis.kernel - done) // width",
        "count = (axis.kernel - done - (width == 1)) // width",
        "test_lowerings test_derivatives -k reductions or line-31",
    ),
    Fault(
        "repeated cells added twice",
        "last = jnp.where(repeated, jnp.zeros_like(last), last)",
        "pass",
        "test_lowerings test_derivatives -k reductions or blocks or whole",
    ),
    Fault(
        "spread in pieces, shifted rest",
        "low=axis.low - blocks * axis.stride * axis.dilation",
        "low=axis.low",
        "test_lowerings -k spreading",
    ),
    Fault(
        "NaN of cells in no window",
        "return _zero_uncovered(cotangent, self.window)",
        "return cotangent",
        "test_conventions test_hypothesis",
    ),
    # Norms and smooth maxima.
    Fault(
        "norm with the wrong power",
        "return signed_power(cells[0] * outputs[0], parameter - 1)",
        "return signed_power(cells[0] * outputs[0], parameter)",
        "test_derivatives -k lp_pool",
    ),
    Fault(
        "even powers for signed ones",
        "number * _power(base, None, number - 1, not signed)",
        "number * _power(base, None, number - 1, signed)",
        "test_derivatives -k lp_pool",
    ),
    Fault(
        "slope of a learnt power",
        "value_dot + log_magnitude(base) * value * exponent_dot",
        "value_dot",
        "test_learnt_numbers test_derivatives -k learnt or closed",
    ),
    Fault(
        "magnitudes with slope 1 at 0",
        "magnitudes = x * jnp.sign(x)",
        "magnitudes = jnp.abs(x)",
        "test_conventions test_learnt_numbers",
    ),
    Fault(
        "weights of -inf",
        "difference(jnp.where(dead, 0, near), jnp.where(dead, 0, shift), True)",
        "near - shift",
        "test_learnt_numbers",
    ),
    Fault(
        "log-sum-exp without a shift",
        "gap = jnp.where(same, 0, near - shift)",
        "gap = near - shift",
        "test_conventions",
    ),
    Fault(
        "slope of β halved",
        "return jnp.ones_like(y) / parameter",
        "return jnp.ones_like(y) / (2 * parameter)",
        "test_derivatives -k learnt",
    ),
    Fault(
        "half the slope of learnt numbers",
        "pool.slope_factor(y, parameter) * slopes * parameter_dot",
        "pool.slope_factor(y, parameter) * slopes * parameter_dot / 2",
        "test_derivatives -k learnt",
    ),
    Fault(
        "weights of windows that do not hold a cell",
        "tuple(held(each, fill) for each, (_, fill) in zip(windows[count:], around[count:], strict=True))",
        "windows[count:]",
        "test_extreme_numbers -k beside_large",
    ),
    Fault(
        "cotangents of masked weights",
        "cotangent * held(factor, 0) for cotangent",
        "cotangent * factor for cotangent",
        "test_nan -k cotangents",
    ),
    Fault(
        "infinite ratios of absent cells",
        "ratio = jnp.where(jnp.isinf(cells[0]), 0, cells[0]) * outputs[0]",
        "ratio = cells[0] * outputs[0]",
        "test_learnt_sharpness -k absent",
    ),
    Fault(
        "multiplicities left out",
        "x_dot if multiplicities is None else x_dot * multiplicities[0]",
        "x_dot",
        "test_extreme_numbers -k all_axes and mellowmax",
    ),
    # Draws and blurs.
    Fault(
        "draws among negative cells",
        "jnp.where(cells > 0, cells, 0) / scale",
        "jnp.abs(cells) / scale",
        "test_stochastic",
    ),
    Fault(
        "cotangents without a draw",
        "jnp.full_like(shares, none, none.dtype)",
        "jnp.zeros_like(shares, none.dtype)",
        "test_stochastic",
    ),
    Fault(
        "blur of the wrong row",
        "math.comb(count, offset)",
        "math.comb(count + 1, offset)",
        "test_derivatives -k blur",
    ),
    Fault(
        "blur through gaps",
        "return where_covered(covered, sent, jnp.zeros_like(sent))",
        "return sent",
        "test_derivatives -k blur",
    ),
    Fault(
        "blur of masked cells",
        "jnp.where(weights == 0, 1, weights)",
        "jnp.ones_like(weights)",
        "test_derivatives -k blur",
    ),
    # Ranks that are data.
    Fault(
        "fractional windows too narrow",
        "samples.dtype.type(count - 1)",
        "samples.dtype.type(count)",
        "test_derivatives -k fractional",
    ),
    Fault("aligned by nothing", "low, high = low - 0.5, high - 0.5", "pass", "test_derivatives -k roi"),
    Fault(
        "boxes without their last cell",
        "jnp.maximum(last - first + 1, 1)",
        "jnp.maximum(last - first, 1)",
        "test_derivatives -k roi",
    ),
    Fault("ties in boxes", "larger = values > best\n", "larger = values >= best\n", "test_roi"),
    Fault(
        "the first writer",
        ".max(self._numbers(positions)",
        ".min(self._numbers(positions)",
        "test_derivatives -k unpool",
    ),
)
