"""The set-up of Headrace's tests, with this package among the installed ones."""

import os

from headrace.pipeline.core.environment import EXTENSIONS
from tests.conftest import data_folder, pytest_collection_finish, pytest_make_parametrize_id
from tests.stage_run import run_clean, run_stage
from tests.train.small_models import encoder, gpt2, line, one_thread, write_lines

FIXTURES = (data_folder, encoder, gpt2, line, one_thread, run_clean, run_stage, write_lines)
HOOKS = (pytest_collection_finish, pytest_make_parametrize_id)

os.environ.pop(EXTENSIONS, None)
