"""The three ideas: sums over the cells of windows, sums over the windows of cells, and the choice of a cell."""
