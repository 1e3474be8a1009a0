"""The first call of a kernel waits for the compiler: no deadlines."""

from hypothesis import settings

settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")
