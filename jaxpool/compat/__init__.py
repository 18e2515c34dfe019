"""Stand-ins for the pooling of frameworks: a module for each, with its functions, their arguments and their defaults.

None of them imports its framework, and `import jaxpool` imports none of them. A model changes its import line and
nothing else: from `flax.linen` to `jaxpool.compat.flax`, from `haiku` to `jaxpool.compat.haiku`, from `equinox.nn` to
`jaxpool.compat.equinox`, from `keras.ops` to `jaxpool.compat.keras`, from `torch.nn.functional` to
`jaxpool.compat.torch`. Functions that accept an arbitrary reduction, such as Flax's `pool`, are left out on purpose: no
derivative rule could be given for them.
"""
