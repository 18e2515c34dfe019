"""What it means for a derivative to be correct, as assertions about any function of one array.

Reference derivatives are either closed forms, given by the caller, or central differences of the next lower order in
float64. Everything about one function is compiled at once, because tests spend most of their time compiling.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.harness.compilation import compiled_fast

Function = Callable[[jax.Array], jax.Array]
Objective = Callable[..., jax.Array]
Split = Callable[[jax.Array], list[jax.Array]]

# Of float32: exact on a CPU, to two units in the last place on a GPU.
ROUNDING_OF_QUOTIENTS = 0.0 if jax.default_backend() == "cpu" else 2 * float(jnp.finfo(jnp.float32).eps)


def check_first_derivatives(
    functions: Mapping[str, Function], x: np.ndarray, values: np.ndarray, jacobian: np.ndarray, whole: bool = True
) -> None:
    """Compare values, full Jacobians and both linear maps of functions with values and the array ∂value/∂cell.

    Functions named "vjp" are not tested in forward mode, which their rule excludes. Without `whole` no Jacobians are
    computed: products with random arrays show every wrong entry as well, in half the time.
    """
    random = np.random.default_rng(0)
    tangent, cotangent = random.normal(size=x.shape), random.normal(size=values.shape)

    @compiled_fast
    def everything(x: jax.Array, tangent: jax.Array, cotangent: jax.Array) -> dict[str, dict[str, jax.Array]]:
        results = {}
        for name, function in functions.items():
            value, pull_back = jax.vjp(function, x)
            found = {"value": value, "vjp": pull_back(cotangent)[0]}
            if name != "vjp":
                found["jvp"] = jax.jvp(function, (x,), (tangent,))[1]
            if whole:
                found["jacrev"] = jax.jacrev(function)(x)
            if whole and name != "vjp":
                found["jacfwd"] = jax.jacfwd(function)(x)
            results[name] = found
        return results

    expected = {
        "value": values,
        "jacrev": jacobian,
        "jacfwd": jacobian,
        "jvp": np.tensordot(jacobian, tangent, x.ndim),
        "vjp": np.tensordot(cotangent, jacobian, values.ndim),
    }
    for name, results in everything(x, tangent, cotangent).items():
        for what, result in results.items():
            np.testing.assert_allclose(result, expected[what], rtol=0, atol=1e-10, err_msg=f"{what}, rule {name}")
        if "jvp" in results:
            np.testing.assert_allclose(
                np.vdot(cotangent, results["jvp"]), np.vdot(results["vjp"], tangent), rtol=1e-9, err_msg="adjointness"
            )


def check_gradient_and_hessian(objectives: Mapping[str, Objective], *arguments: np.ndarray) -> None:
    """Compare gradients in all arguments with differences of the objective, and Hessians with those of the gradient."""
    join, split = _joined(arguments)
    point = join(*arguments)

    def everything(point: jax.Array, apart: jax.Array) -> Any:
        scalars = [partial(_on_flat, objective, split) for objective in objectives.values()]
        both = [(jax.grad(scalar)(point), jax.jacfwd(jax.grad(scalar))(point)) for scalar in scalars]
        return both, jax.vmap(jax.value_and_grad(scalars[0]))(apart)

    both, (values_around, gradients_around) = compiled_fast(everything)(point, _neighbours(point))
    for name, (gradient, hessian) in zip(objectives, both, strict=True):
        _compare(gradient, _difference(values_around), f"gradient, {name}")
        _compare(hessian, _difference(gradients_around), f"Hessian, {name}")


def cubed(function: Objective) -> Objective:
    """A scalar function of the outputs with derivatives of every order up to the third that are not all equal."""
    return lambda *arguments: (function(*arguments) ** 3).sum()


def equations(jaxpr: Any) -> Iterator[Any]:
    """All equations of a program, each before those of the programs within it."""
    for equation in jaxpr.eqns:
        yield equation
        for program in programs_within(equation):
            yield from equations(program)


def programs_within(equation: Any) -> list[Any]:
    """The programs that an equation runs; of those traced during lowering, the one for the CPU unless one is forced."""
    arrays = [jax.ShapeDtypeStruct(variable.aval.shape, variable.aval.dtype) for variable in equation.invars]
    if (call := equation.params.get("call")) is not None and equation.primitive.name == "platform_call":
        return [jax.make_jaxpr(partial(call.evaluate, "cpu"))(*arrays).jaxpr]
    parameters = jax.tree.leaves(list(equation.params.values()), is_leaf=lambda leaf: hasattr(leaf, "jaxpr"))
    return [program for leaf in parameters if hasattr(program := getattr(leaf, "jaxpr", leaf), "eqns")]


_STEP = 1e-5


def _joined(arguments: tuple[np.ndarray, ...]) -> tuple[Callable[..., np.ndarray], Split]:
    sizes = np.cumsum([np.size(one) for one in arguments])[:-1]
    shapes = [np.shape(one) for one in arguments]

    def join(*arrays: np.ndarray) -> np.ndarray:
        return np.concatenate([np.ravel(one) for one in arrays]).astype(np.float64)

    def split(flat: jax.Array) -> list[jax.Array]:
        return [part.reshape(shape) for part, shape in zip(jnp.split(flat, sizes), shapes, strict=True)]

    return join, split


def _on_flat(objective: Objective, split: Split, flat: jax.Array) -> jax.Array:
    return objective(*split(flat))


def _neighbours(point: np.ndarray) -> np.ndarray:
    steps = _STEP * np.eye(point.size)
    return np.concatenate([point + steps, point - steps])


def _difference(around: jax.Array) -> np.ndarray:
    above, below = np.split(np.asarray(around), 2)
    return (above - below) / (2 * _STEP)


def _compare(found: jax.Array, expected: np.ndarray, what: str) -> None:
    # The error of differences is about step² times a third derivative, plus rounding divided by the step.
    atol = 1e-6 * max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=atol, err_msg=what)
