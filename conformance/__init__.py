"""Small NIR graphs with known spike times, and the program that writes them."""
