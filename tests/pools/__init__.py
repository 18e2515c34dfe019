"""Tests of one family of pools, or of a few that are alike, in each file; common properties are in `properties`."""
