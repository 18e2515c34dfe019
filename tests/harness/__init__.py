"""What tests of every kind use: how they compile, which part they run in, what derivatives are held to."""
