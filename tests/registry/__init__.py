"""The functions as data: each with every kind of argument, for other folders to run over."""
