"""A filter, a source, a benchmark, a model family and an experiment for Headrace, registered by entry points."""
