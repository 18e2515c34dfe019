"""Programs that use jaxpool; they are not part of the package, and run in a copy of the repository."""
