"""`python -m jaxpool`: every variant on a picture, timed, checked against NumPy and drawn."""
