"""How windows are evaluated: reductions, winners and the linear maps along windows. Knows no pool by name."""
