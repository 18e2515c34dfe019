"""The tests of jaxpool: a file per property, over the registry of `cases` and against the reference of `oracle`."""
