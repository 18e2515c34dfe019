"""A program that imports every module and runs the example of every function, wherever `jaxpool` is installed.

It runs outside the tests, on an installed wheel, and needs only the package's own dependencies.
"""

import doctest
import importlib
import json
import pkgutil
import re

import jax
import jax.numpy as jnp
import numpy as np

import jaxpool


class Numbers(doctest.OutputChecker):
    """Compares the numbers of an output, to the digits that the examples show."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        """Whether both have the same numbers."""
        expected, found = ([float(one) for one in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", text)] for text in (want, got))
        return len(expected) == len(found) and np.allclose(found, expected, rtol=1e-3)


def main() -> None:
    """Check the examples, and print where the package is, its version and how many functions it has."""
    names = {"jax": jax, "jnp": jnp, "np": np, "jaxpool": jaxpool}
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner(Numbers(), verbose=False)
    public = [name for name, value in vars(jaxpool).items() if callable(value) and not name.startswith("_")]
    for name in public:
        (example,) = finder.find(getattr(jaxpool, name), name, extraglobs=names)
        assert example.examples, name
        assert runner.run(example).failed == 0, name
    for module in pkgutil.walk_packages(jaxpool.__path__, "jaxpool."):
        importlib.import_module(module.name)
    found = {"package": jaxpool.__file__, "version": jaxpool.__version__, "functions": len(public)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
