"""Results of runs: spikes, rates, records and counts of operations; and the stimulus of a run."""
