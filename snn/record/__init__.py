"""Results of runs: spikes and their rates, records, operations; and what reached the network."""
