"""The models and artifacts of tests/train/small_models.py, for every test of this folder."""

from tests.train.small_models import encoder, gpt2, line, one_thread, write_lines

__all__ = ["encoder", "gpt2", "line", "one_thread", "write_lines"]
