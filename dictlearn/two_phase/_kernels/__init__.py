"""What is compiled for the two-phase network."""
