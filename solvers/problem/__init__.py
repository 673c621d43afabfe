"""The problem: signals, dictionaries, penalties, masks."""
