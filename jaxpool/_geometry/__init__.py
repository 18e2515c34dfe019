"""Where windows lie: their sizes, padding and bins, boxes and random places, as Python integers. Evaluates nothing."""
