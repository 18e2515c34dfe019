"""Every nesting of two and of three derivatives in forward and reverse mode, as one program."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.harness.compilation import compiled_fast
from tests.reference import jets
from tests.reference.jets import Jet

Array = np.ndarray
# A pool of a rule and of arrays by name.
Pool = Callable[..., jax.Array]
NESTINGS = ["".join(modes) for modes in itertools.product("FR", repeat=3)]


def nested_derivatives(
    pool: Pool, rules: Sequence[str], cotangent: Any, arrays: Mapping[str, Any], directions: Sequence[Mapping[str, Any]]
) -> dict[str, dict[str, jax.Array]]:
    """By rule and nesting, the derivatives of Σ cotangent·pool³ along three directions, one after the other.

    The first letter of a nesting is the mode of the innermost derivative, which is along the first direction. A
    direction may leave arrays out. Cubes have derivatives of all orders where the pool is linear, too.
    """

    def moved(*steps: jax.Array, rule: str) -> jax.Array:
        at = dict(arrays)
        for step, direction in zip(steps, directions, strict=True):
            at |= {name: at[name] + step * along for name, along in direction.items()}
        return (cotangent * pool(rule, **at) ** 3).sum()

    found = {rule: {} for rule in rules}
    for rule, nesting in itertools.product(rules, NESTINGS):
        # The other rule is for reverse mode only.
        if rule == "jvp" or nesting == "RRR":
            derivative: Pool = partial(moved, rule=rule)
            for number, mode in enumerate(nesting[:2]):
                derivative = partial(_derivative, derivative, mode, number)
            both = _value_and_derivative(derivative, nesting[2], 2, *[jnp.zeros(())] * 3)
            found[rule][nesting[:2]], found[rule][nesting] = both
    return found


def _derivative(function: Pool, mode: str, number: int, *steps: jax.Array) -> jax.Array:
    return _value_and_derivative(function, mode, number, *steps)[1]


def _value_and_derivative(function: Pool, mode: str, number: int, *steps: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The function and its derivative in one of the steps, in forward or reverse mode."""

    def along(step: jax.Array) -> jax.Array:
        return function(*steps[:number], step, *steps[number + 1 :])

    step = steps[number]
    return jax.jvp(along, (step,), (jnp.ones_like(step),)) if mode == "F" else jax.value_and_grad(along)(step)


def random_directions(arrays: Mapping[str, Array], levels: Sequence[Sequence[str]]) -> list[dict[str, Array]]:
    """A direction for each level, in the arrays that it names."""
    random = np.random.default_rng(0)
    return [{name: random.normal(size=arrays[name].shape) for name in level} for level in levels]


def check_nestings(
    pool: Pool,
    expected: Callable[..., Jet],
    arrays: Mapping[str, Array],
    levels: Sequence[Sequence[str]],
    rules: Sequence[str],
    *,
    may_scatter: bool = False,
) -> None:
    """Compare every nesting for `pool(rule, **arrays)` with the derivatives of `expected(**jets)`.

    The three levels are the names of the arrays that each derivative is in. The program scatters nothing.
    """
    directions = random_directions(arrays, levels)
    values = expected(**_jets(arrays, directions))
    cotangent = np.random.default_rng(1).uniform(0.5, 1.5, values.value.shape)
    terms = (values * values * values * cotangent).parts.reshape(len(jets.SETS), -1)
    program = compiled_fast(partial(nested_derivatives, pool, rules)).lower(cotangent, dict(arrays), directions)
    assert may_scatter or not scatters(program.as_text())
    for rule, found in program.compile()(cotangent, dict(arrays), directions).items():
        for nesting, one in found.items():
            of_nesting = terms[2 ** len(nesting) - 1]
            error, largest = abs(float(one) - float(of_nesting.sum())), float(np.abs(of_nesting).sum())
            assert error <= 1e-7 * largest, (rule, nesting, float(one), float(of_nesting.sum()))


def check_two_orders(
    pool: Pool,
    expected: Callable[..., Jet],
    arrays: Mapping[str, Array],
    rules: Sequence[str],
) -> None:
    """Compare values and first and second derivatives, in all arrays at once, with those of `expected(**jets)`.

    Tangents are compared window by window; cotangents are such that all windows count alike, whatever their size.
    """
    first, second = random_directions(arrays, [[*arrays]] * 2)
    values, slopes, _, curvatures = expected(**_jets(arrays, [first, second])).parts[:4].astype(np.float64)
    share = np.random.default_rng(1).uniform(0.5, 1.5, values.shape)
    weights = [share / np.where(part == 0, 1, np.abs(part)) for part in (slopes, curvatures)]

    @compiled_fast
    def everything(arrays: Any, first: Any, second: Any, weights: Any) -> dict[str, dict[str, jax.Array]]:
        found = {}
        for rule in rules:

            def pooled(arrays: Any, rule: str = rule) -> jax.Array:
                return pool(rule, **arrays)

            def along(arrays: Any, weights: jax.Array, pooled: Pool = pooled) -> jax.Array:
                gradient = jax.grad(lambda arrays: (pooled(arrays) * weights).sum())(arrays)
                return _product(gradient, first)

            found[rule] = {
                "values": pooled(arrays),
                "reverse": along(arrays, weights[0]),
                "reverse, reverse": _product(jax.grad(along)(arrays, weights[1]), second),
            }
            if rule == "jvp":
                both = jax.jvp(lambda arrays: jax.jvp(pooled, (arrays,), (first,))[1], (arrays,), (second,))
                mixed = jax.jvp(lambda arrays: along(arrays, weights[1]), (arrays,), (second,))[1]
                found[rule] |= {"forward": both[0], "forward, forward": both[1], "reverse, forward": mixed}
        return found

    terms = {"values": values, "forward": slopes, "forward, forward": curvatures}
    terms |= {"reverse": weights[0] * slopes, "reverse, reverse": weights[1] * curvatures}
    terms["reverse, forward"] = terms["reverse, reverse"]
    for rule, results in everything(dict(arrays), first, second, weights).items():
        for what, found in results.items():
            wanted, sizes = terms[what], np.abs(terms[what])
            if not np.ndim(found):
                wanted, sizes = wanted.sum(), sizes.sum()
            right = np.abs(found - wanted) <= 1e-9 * sizes + 1e-300
            assert right.all(), (rule, what, np.asarray(found)[~right], wanted[~right])


def _product(gradient: Mapping[str, jax.Array], direction: Mapping[str, Any]) -> jax.Array:
    return jnp.stack([jnp.vdot(gradient[name], one) for name, one in direction.items()]).sum()


def _jets(arrays: Mapping[str, Array], directions: Sequence[Mapping[str, Array]]) -> dict[str, Jet]:
    """The arrays, moved along each of the directions."""
    parts = {name: [one, *[np.zeros_like(one)] * (len(jets.SETS) - 1)] for name, one in arrays.items()}
    for number, direction in enumerate(directions):
        for name, along in direction.items():
            parts[name][2**number] = along
    return {name: Jet(each) for name, each in parts.items()}


def lowered(
    pool: Pool, arrays: Mapping[str, Array], levels: Sequence[Sequence[str]], rules: Sequence[str], sharding: Any = None
) -> str:
    """The text of the program of all nestings, for a cotangent of ones; of cells with this sharding, if any."""
    directions = random_directions(arrays, levels)
    if sharding is not None:
        arrays, *directions = (
            {name: jax.device_put(one, sharding) if name == "x" else one for name, one in each.items()}
            for each in (arrays, *directions)
        )
    return jax.jit(partial(nested_derivatives, pool, rules, 1.0)).lower(dict(arrays), directions).as_text()


def scatters(text: str) -> int:
    """The number of scatters in the text of a lowered program."""
    return text.count('"stablehlo.scatter"')
