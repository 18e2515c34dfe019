"""What users call wrongly, and the words in which it is refused."""
