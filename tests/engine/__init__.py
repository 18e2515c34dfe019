"""How windows are evaluated: their integers, every lowering, winners, contexts, and what programs cost and keep."""
