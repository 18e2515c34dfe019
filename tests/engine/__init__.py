"""How windows are evaluated: lowerings and platforms against each other, stages, and what programs cost."""
