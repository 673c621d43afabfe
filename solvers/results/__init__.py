"""What solvers return, and what they start from."""
