"""What is particular to one family of pools, a file for each; what all have in common is in `properties`."""
