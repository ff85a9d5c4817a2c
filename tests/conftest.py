"""For all tests here."""

from hypothesis import settings

# A busy machine must not fail a test: no test asserts a time.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
