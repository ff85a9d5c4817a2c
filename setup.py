"""What pyproject.toml cannot say: setuptools takes cffi modules only from here."""

from setuptools import setup

setup(
    cffi_modules=[
        "policies/build_core.py:ffibuilder",
        "classifier/build_reader.py:ffibuilder",
        "sim/build_engine.py:ffibuilder",
    ],
)
