"""How windows are evaluated: reductions, winners, and linear maps over windows. No pool is known here by name."""
