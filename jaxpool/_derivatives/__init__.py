"""Values of the families of pools with both of their derivative rules, and the arithmetic that these rest on."""
