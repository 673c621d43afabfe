"""Results of runs: spikes and rates, records and operations; and the stimulus of a run."""
