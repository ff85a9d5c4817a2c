"""What pyproject.toml cannot say: setuptools takes cffi modules only from here, and the licence."""

from setuptools import setup

setup(
    license="GPL-2.0-or-later",
    cffi_modules=[
        "policies/build_core.py:ffibuilder",
        "classifier/build_reader.py:ffibuilder",
        "sim/build_engine.py:ffibuilder",
    ],
)
