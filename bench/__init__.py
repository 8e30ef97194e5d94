"""Benchmarks that print figures: `python -m bench retrieval|gateway|embedding --help`.

Figures that are to be compared come from one run on one machine: read ratios, not milliseconds.
"""
