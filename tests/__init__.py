"""The tests of jaxpool, a folder for each kind: every file holds one property, over the registry where it can."""
