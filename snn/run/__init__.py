"""Runs of a network: exactly from event to event, or on a clock."""
