"""Tests specific to one family of pools, one file each; common properties are in `properties`."""
