"""Argument checks, values, descriptions, archives and warnings, for all packages."""
