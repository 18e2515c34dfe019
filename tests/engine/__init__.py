"""How windows are evaluated: every lowering against the reference, contexts, and what programs cost."""
