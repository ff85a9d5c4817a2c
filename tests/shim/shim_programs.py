"""Real programs that write below a directory, and how each is started."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from compile_c import BUILD

HERE = Path(__file__).parent
DEBIAN_PYTHON = "/usr/bin/python3"
MPI_COMPILER = "mpicc.mpich"  # whatever other MPI is there as well

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
with multiprocessing.get_context('fork').Pool(4) as pool: print(pool.map(work, range(8)))
"""
PYTHON_STARTS = """
import subprocess, sys
for i in range(3):
    script = 'head -c 300000 /dev/zero > $1'
    subprocess.run(['sh', '-c', script, 'sh', f'{sys.argv[1]}/{i}'], check=True)
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
with netCDF4.Dataset(sys.argv[1] + '/data.nc', 'w', format='%s') as file:
    file.createDimension('x', 10000)
    file.createVariable('v', 'f8', ('x',))[:] = numpy.arange(10000)
print('done')
"""
H5PY = """
import h5py, numpy, sys
for driver in ('sec2', 'stdio', 'core', 'split'):
    with h5py.File(f'{sys.argv[1]}/{driver}.h5', 'w', driver=driver) as file:
        steps = file.create_dataset('steps', (0, 5000), maxshape=(None, 5000), chunks=(1, 5000),
                                    compression='gzip', track_times=False)
        for i in range(20):
            steps.resize(i + 1, axis=0)
            steps[i] = numpy.arange(5000.0) * i
            file.flush()
print('done')
"""
LAMMPS = """
units lj
lattice fcc 0.8442
region box block 0 4 0 4 0 4
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
fix 1 all nve
dump 1 all atom 10 atoms.dump
dump 2 all custom/gz 10 atoms.gz id x y z
restart 10 checkpoint.*
timer off
thermo 10
run 50
"""
COMPILER = """
export TMPDIR="$1" && cd "$1" && echo 'int main(void) { return 0; }' > a.c &&
cc -c a.c && ar rcD a.a a.o && cc -o a a.o
"""
GIT = """
cd "$1" && git init --quiet -b main && export HOME="$1" GIT_CONFIG_NOSYSTEM=1 \
GIT_AUTHOR_DATE=2026-01-01T00:00:00Z GIT_COMMITTER_DATE=2026-01-01T00:00:00Z
cp -r /usr/include/linux/netfilter . && git add . && rm .git/hooks/* &&
git -c user.name=a -c user.email=a@b commit --quiet -m first && git -c pack.threads=1 gc --quiet &&
git fsck && git rev-parse HEAD && rm .git/index
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
    is_long: bool = False
    """Left to `make acceptance`."""

    def missing(self) -> str:
        """What is not installed, or nothing."""
        if self.needs.startswith("import "):
            found = [DEBIAN_PYTHON, "-c", self.needs]
            done = subprocess.run(found, check=False, capture_output=True)
            return self.needs if done.returncode else ""
        return "" if not self.needs or shutil.which(self.needs) else self.needs


def shell(script: str) -> Callable[[Path], list[str | Path]]:
    return lambda place: ["sh", "-c", script, "sh", place]


def tcsh(script: str) -> Callable[[Path], list[str | Path]]:
    return lambda place: ["env", f"place={place}", "tcsh", "-f", "-c", script]


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


def hdf5(script: str, locking: str = "TRUE") -> Callable[[Path], list[str | Path]]:
    """Debian's Python, with HDF5 told whether to lock the files that it opens."""
    words = ("env", f"HDF5_USE_FILE_LOCKING={locking}", DEBIAN_PYTHON, "-c", script)
    return lambda place: [*words, place]


def ranks(source: str, count: int) -> Callable[[Path], list[str | Path]]:
    words = ("mpiexec.mpich", "-launcher", "fork", "-n", str(count))
    return lambda place: [*words, built(HERE / source, MPI_COMPILER), place]


def lammps(place: Path) -> list[str | Path]:
    """Dumps, a compressor that it pipes into, and checkpoints; its output tells times."""
    run = 'cd "$1" && echo "$2" | lmp -log none >/dev/null && rm -rf ompi.*'
    mpi = (f"TMPDIR={place}", "PMIX_MCA_gds=hash")  # which complains of nothing
    return ["env", *mpi, "sh", "-c", run, "sh", place, LAMMPS]


def sqlite(journal: str) -> Callable[[Path], list[str | Path]]:
    return lambda place: ["sqlite3", place / "db", SQLITE % journal]


PROGRAMS = [
    Program("dd", shell("dd if=/dev/zero of=$1/f bs=4k count=50 conv=fsync status=none")),
    Program("dd direct", shell("dd if=/dev/zero of=$1/f bs=4k count=9 oflag=direct status=none")),
    Program("cp", shell("head -c 3000000 /dev/zero > $1/a && cp $1/a $1/b && cat $1/a > $1/c")),
    Program("tar", shell("cd /usr/include && tar -cf $1/t linux && tar -xf $1/t -C $1 && rm $1/t")),
    Program(
        "rsync",
        shell("for how in -r '-r --inplace'; do rsync $how /usr/include/linux/netfilter $1; done"),
        needs="rsync",
        is_long=True,
    ),
    Program("git", shell(GIT), needs="git", is_long=True),
    Program("flock", shell("flock $1/lock sh -c 'seq 30000 > $1/f' sh $1"), locks=True),
    Program("stdbuf", shell("stdbuf -oL seq 3000 > $1/f"), is_stdio=True, is_long=True),
    Program("xargs", shell("seq 40 | xargs -P4 -I+ cp /etc/passwd $1/+"), is_long=True),
    Program("a compiler", shell(COMPILER), needs="cc", is_stdio=True, is_long=True),
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
    Program("what Python starts", python(PYTHON_STARTS)),
    Program(
        "tcsh", tcsh("head -c 300000 /dev/zero > $place/f; cp $place/f $place/g"), needs="tcsh"
    ),
    Program("numpy", python(NUMPY), is_stdio=True),
    Program("SQLite, rollback journal", sqlite("delete"), needs="sqlite3", locks=True),
    Program("SQLite, write-ahead log", sqlite("wal"), needs="sqlite3", locks=True),
    Program("netCDF and HDF5", hdf5(NETCDF % "NETCDF4"), needs="import netCDF4", locks=True),
    Program("netCDF without locks", hdf5(NETCDF % "NETCDF4", "FALSE"), needs="import netCDF4"),
    Program(
        "netCDF 3", hdf5(NETCDF % "NETCDF3_64BIT_OFFSET"), needs="import netCDF4", is_long=True
    ),
    Program("h5py", hdf5(H5PY), needs="import h5py", locks=True, is_stdio=True, is_long=True),
    Program(
        "h5py without locks", hdf5(H5PY, "FALSE"), needs="import h5py", is_stdio=True, is_long=True
    ),
    Program("Fortran", from_source("writes.f90", "gfortran"), needs="gfortran"),
    Program("C++ streams", from_source("streams.cc", "c++"), needs="c++"),
    Program("MPI-IO", from_source("mpi_writes.c", MPI_COMPILER), needs=MPI_COMPILER),
    Program("MPI-IO of four ranks", ranks("mpi_ranks.c", 4), needs=MPI_COMPILER, is_long=True),
    Program("LAMMPS", lammps, needs="lmp", is_stdio=True, is_long=True),
]


def parameters() -> list[Any]:
    """All of them, for pytest."""
    return [
        pytest.param(one, id=one.name, marks=[pytest.mark.acceptance] if one.is_long else [])
        for one in PROGRAMS
    ]
