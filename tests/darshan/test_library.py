"""Which libdarshan-util is taken: any that is laid out as is known here, whatever its version."""

import os
import subprocess
from pathlib import Path

import pytest

from sluice.darshan._reader import ffi, lib
from sluice.darshan.log import library_paths

LOGS = sorted((Path(__file__).parents[1] / "data" / "darshan").glob("0*.darshan"))[:5]


def load(path):
    error = ffi.new("struct sluice_error *")
    library = lib.sluice_library_load(os.fsencode(path), error)
    return library, ffi.string(error.text).decode()


def stand_in(folder, **defined):
    path = folder / "libdarshan-util.so"
    flags = [f"-D{name}={value}" for name, value in defined.items()]
    real = f'-DREAL="{library_paths()[0]}"'
    source = Path(__file__).with_name("stand_in_library.c")
    command = ["cc", "-shared", "-fPIC", "-w", real, *flags, "-o", path, source, "-ldl"]
    subprocess.run(command, check=True)
    return path


def test_a_library_of_the_next_release_reads_logs(tmp_path):
    library, error = load(stand_in(tmp_path, MOVED=0, OTHER_JOB=0))
    assert library != ffi.NULL, error
    try:
        for path in LOGS:
            log = ffi.gc(ffi.new("struct sluice_log *"), lib.sluice_log_free)
            reason = ffi.new("struct sluice_error *")
            assert lib.sluice_log_read(library, os.fsencode(path), log, reason) == 0
            assert log.row_count > 0
    finally:
        lib.sluice_library_unload(library)


@pytest.mark.parametrize("other", [{"MOVED": 1, "OTHER_JOB": 0}, {"MOVED": 0, "OTHER_JOB": 1}])
def test_a_library_that_is_laid_out_otherwise_is_refused(tmp_path, other):
    library, error = load(stand_in(tmp_path, **other))
    assert library == ffi.NULL
    assert "version 9.9.9, which lays out an open log in a way that is not known here" in error


def test_a_library_that_is_none_is_named():
    library, error = load("libm.so.6")
    assert library == ffi.NULL
    assert "has no darshan_log_open" in error
