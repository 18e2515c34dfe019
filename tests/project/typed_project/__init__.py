"""A user's project under the strictest settings of the type checker: calls that are right, and calls that are not."""
