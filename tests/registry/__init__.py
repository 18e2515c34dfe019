"""The functions, as data: every one of them under every kind of argument, for other folders to run over."""
