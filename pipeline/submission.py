"""Submission to SLURM (in the making)."""
