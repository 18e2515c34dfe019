"""What is published: names, types, documentation, the wheel and the command."""
