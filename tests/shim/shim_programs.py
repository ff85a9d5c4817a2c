"""Real programs that write below a directory, and how each is started."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from compile_c import BUILD

HERE = Path(__file__).parent
DEBIAN_PYTHON = "/usr/bin/python3"

PYTHON_WRITES = """
import os, sys
with open(sys.argv[1] + '/text', 'w') as file:
    for i in range(5000): print(i, file=file)
with open(sys.argv[1] + '/raw', 'wb', buffering=0) as file:
    for i in range(50): file.write(bytes(1000))
    os.pwrite(file.fileno(), b'x' * 10, 20)
    os.fsync(file.fileno())
print('done')
"""
PYTHON_PROCESSES = """
import multiprocessing, os, sys
def work(i):
    with open(f'{sys.argv[1]}/{i}', 'w') as file: file.write(str(i) * 10000)
    return i
with multiprocessing.Pool(4) as pool: print(pool.map(work, range(8)))
"""
NUMPY = """
import numpy, sys
numpy.arange(100000.0).tofile(sys.argv[1] + '/array')
numpy.save(sys.argv[1] + '/array.npy', numpy.zeros(1000))
"""
SQLITE = """
pragma journal_mode=%s;
create table t(a, b);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000)
insert into t select i, hex(zeroblob(50)) from n;
update t set b = a where a < 100;
select count(*), sum(a) from t;
"""
NETCDF = """
import netCDF4, numpy, sys
with netCDF4.Dataset(sys.argv[1] + '/data.nc', 'w') as file:
    file.createDimension('x', 10000)
    file.createVariable('v', 'f8', ('x',))[:] = numpy.arange(10000)
print('done')
"""


@dataclass(frozen=True)
class Program:
    """`command(place)` writes below that directory."""

    name: str
    command: Callable[[Path], list[str | Path]]
    needs: str = ""
    is_stdio: bool = False
    """Writes by stdio, whose calls of the kernel are estimated."""
    locks: bool = False
    """Holds a file lock while it writes, so it is never held."""

    def missing(self) -> str:
        """What is not installed, or nothing."""
        if self.needs == "netcdf":
            found = [DEBIAN_PYTHON, "-c", "import netCDF4"]
            done = subprocess.run(found, check=False, capture_output=True)
            return self.needs if done.returncode else ""
        return "" if not self.needs or shutil.which(self.needs) else self.needs


def shell(script: str) -> Callable[[Path], list[str | Path]]:
    return lambda place: ["sh", "-c", script, "sh", place]


def python(script: str, interpreter: str = sys.executable) -> Callable[[Path], list[str | Path]]:
    return lambda place: [interpreter, "-c", script, place]


def from_source(source: str, compiler: str) -> Callable[[Path], list[str | Path]]:
    return lambda place: [built(HERE / source, compiler), place]


@cache
def built(source: Path, compiler: str) -> Path:
    product = BUILD / "lab" / source.stem
    product.parent.mkdir(parents=True, exist_ok=True)
    fresh = product.with_name(f"{product.name}.{os.getpid()}")
    subprocess.run([compiler, "-O2", source, "-o", fresh], check=True)
    return fresh.rename(product)


def sqlite(journal: str) -> Callable[[Path], list[str | Path]]:
    return lambda place: ["sqlite3", place / "db", SQLITE % journal]


PROGRAMS = [
    Program("dd", shell("dd if=/dev/zero of=$1/f bs=4k count=50 conv=fsync status=none")),
    Program("dd direct", shell("dd if=/dev/zero of=$1/f bs=4k count=9 oflag=direct status=none")),
    Program("cp", shell("head -c 3000000 /dev/zero > $1/a && cp $1/a $1/b && cat $1/a > $1/c")),
    Program("tar", shell("cd /usr/include && tar -cf $1/t linux && tar -xf $1/t -C $1 && rm $1/t")),
    Program("gzip", shell("head -c 3000000 /dev/zero | gzip -c > $1/z"), needs="gzip"),
    Program("sort", shell("seq 30000 | sort -r -o $1/sorted"), is_stdio=True),
    Program(
        "a shell's loop", shell("for i in 1 2 3 4 5; do echo $i; (echo $i) >> $1/l; done > $1/f")
    ),
    Program(
        "bash",
        lambda place: ["bash", "-c", 'for i in {1..50}; do echo $i; done > "$0/f"', place],
        is_stdio=True,
    ),
    Program("Python", python(PYTHON_WRITES)),
    Program("Python's processes", python(PYTHON_PROCESSES)),
    Program("numpy", python(NUMPY), is_stdio=True),
    Program("SQLite, rollback journal", sqlite("delete"), needs="sqlite3", locks=True),
    Program("SQLite, write-ahead log", sqlite("wal"), needs="sqlite3", locks=True),
    Program("netCDF and HDF5", python(NETCDF, DEBIAN_PYTHON), needs="netcdf", locks=True),
    Program("Fortran", from_source("writes.f90", "gfortran"), needs="gfortran"),
    Program("C++ streams", from_source("streams.cc", "c++"), needs="c++"),
    Program("MPI-IO", from_source("mpi_writes.c", "mpicc"), needs="mpicc"),
]
