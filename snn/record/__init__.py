"""What a run leaves: results, rates, traces, explanations, operations."""
