"""Other libraries: agreement where they are right, stand-ins for them, and where they are wrong."""
