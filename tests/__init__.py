"""The tests of jaxpool, a folder for each kind: every file tests one property, over the registry where possible."""
