"""Where windows are: their sizes, padding and bins, as Python integers. Independent of the rest of the package."""
