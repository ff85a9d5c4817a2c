"""Programs and libraries that have functions and variables of the names that others use."""

import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from test_shim_unnoticed import outcome, outcome_with
from turns_page import SHIM, TurnsPage

HERE = Path(__file__).parent

# All that a library like the shim calls, or the compiler for it, or that one function of libc
# stands for another by. Neither libc nor a program's own start calls one of these by its name.
NAMES = """
__errno_location __fbufsize __flbf __fpending __stack_chk_fail __sigsetjmp __vdprintf_chk
__vfprintf_chk __vprintf_chk _ITM_deregisterTMCloneTable _ITM_registerTMCloneTable _dl_find_object
_r_debug abort bcmp clock_gettime close_range dl_iterate_phdr dladdr dlsym dlvsym fcntl fcntl64
fileno fstat fstat64 fstatat getauxval getenv geteuid getitimer getpid getpriority gettid lseek
lseek64 lstat madvise mmap mmap64 mprotect munmap nanosleep poll ppoll pthread_cond_wait
pthread_getspecific pthread_key_create pthread_mutex_lock pthread_mutex_unlock pthread_once
pthread_self pthread_setcancelstate pthread_setspecific pthread_sigmask sched_yield secure_getenv
setitimer sigaction sigaddset sigaltstack sigfillset sigprocmask snprintf stat stat64 strchr
strcmp strncmp syscall sysconf time timer_gettime timer_settime usleep vdprintf vfprintf vprintf
"""
CALLED = NAMES.split()


def undefined() -> list[str]:
    """What the built library leaves to others to define."""
    words = ("nm", "-D", "--undefined-only", "--format=posix", SHIM)
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return [line.split()[0].split("@")[0] for line in text.splitlines()]


def functions(names: Iterable[str]) -> str:
    return "".join(f"void {name} (void) {{ __builtin_trap (); }}\n" for name in names)


def variables(names: Iterable[str]) -> str:
    return "".join(f"double {name}[4] = {{ 1.5, 2, 3, 4 }};\n" for name in names)


def build(product: Path, *words: str | Path) -> Path:
    flags = ("-w", "-O1", "-fno-builtin", "-D_GNU_SOURCE", "-o", product)
    subprocess.run(["cc", *flags, *words], check=True)
    return product


def in_program(tmp_path: Path, source: Path) -> list[str | Path]:
    return [build(tmp_path / "program", "-rdynamic", HERE / "names.c", source)]


def library(tmp_path: Path, source: Path) -> Path:
    return build(tmp_path / "libnames.so", "-shared", "-fPIC", source)


def in_library(tmp_path: Path, source: Path) -> list[str | Path]:
    linked = ("-Wl,--no-as-needed", library(tmp_path, source), f"-Wl,-rpath,{tmp_path}")
    return [build(tmp_path / "program", HERE / "names.c", *linked)]


def in_a_bare_library(tmp_path: Path, source: Path) -> list[str | Path]:
    """Of the old kind of hash table, and without versions, because it needs no other."""
    bare = ("-Wl,--hash-style=sysv", "-nostdlib", "-shared", "-fPIC")
    made = build(tmp_path / "libbare.so", *bare, source)
    linked = ("-Wl,--no-as-needed", made, f"-Wl,-rpath,{tmp_path}", "-no-pie")
    return [build(tmp_path / "program", HERE / "names.c", *linked)]


def before_the_shim(tmp_path: Path, source: Path) -> list[str | Path]:
    """In another library that is preloaded."""
    preload = tmp_path / "preload.so"
    build(preload, "-shared", "-fPIC", source)
    return [build(tmp_path / "program", HERE / "names.c"), preload]


Place = Callable[[Path, Path], list[str | Path]]


def check(page: TurnsPage, tmp_path: Path, where: Place, text: str) -> None:
    """The program of names.c ends the same without and with the shim, and with a page too."""
    source, place = tmp_path / "defined.c", tmp_path / "place"
    source.write_text(text)
    program, *others = where(tmp_path, source)
    command = [program, place / "file"]
    alone = outcome(command, place, env={"LD_PRELOAD": ":".join(map(str, others))})
    assert alone[0] == 0
    assert alone[1].endswith(b"done\n")  # type: ignore[attr-defined]
    preload = page.environment(*map(Path, others))["LD_PRELOAD"]
    assert outcome(command, place, env={"LD_PRELOAD": preload}) == alone
    for words in ("go", "held"):
        before = page.sum("holds")
        assert outcome_with(page, command, place, words, env={"LD_PRELOAD": preload}) == alone
        assert (page.sum("holds") > before) == (words == "held")
    assert page.sum("bytes") > 0


PLACES = pytest.mark.parametrize("where", [in_program, in_library, before_the_shim])
KINDS = pytest.mark.parametrize("define", [functions, variables])


@pytest.mark.parametrize("where", [in_program, in_library, in_a_bare_library, before_the_shim])
@KINDS
def test_no_name_of_a_program_is_taken_for_the_c_librarys(page, tmp_path, where, define):
    check(page, tmp_path, where, define(CALLED))


@PLACES
@KINDS
def test_each_name_that_the_shim_leaves_undefined_may_be_the_programs(
    page, tmp_path, where, define
):
    for name in undefined():
        check(page, tmp_path, where, define([name]))


@pytest.mark.usefixtures("shim")
def test_the_shim_leaves_no_symbol_to_others():
    assert undefined() == []


ALLOCATOR = """
#include <stddef.h>
#include <string.h>
static char heap[1 << 22]; static size_t used;
void *malloc (size_t size) {
	size_t *at = (size_t *)(heap + used);
	used += (size + 31) & ~(size_t)15;
	*at = size;
	return used < sizeof heap ? at + 2 : NULL;
}
void free (void *data) { (void)data; }
void *calloc (size_t n, size_t size) { return malloc (n * size); }
void *realloc (void *data, size_t size) {
	void *made = malloc (size);
	size_t had = data ? ((size_t *)data)[-2] : 0;
	return memcpy (made, data, had < size ? had : size);
}
void *memalign (size_t unit, size_t size) { return malloc (size); }
void *aligned_alloc (size_t unit, size_t size) { return malloc (size); }
"""
WORKING = """
#include <time.h>
#include <sys/stat.h>
int clock_gettime (clockid_t clock, struct timespec *now) { return now->tv_sec = 0; }
int fstat (int fd, struct stat *status) { return -1; }
int stat (const char *path, struct stat *status) { return -1; }
char *getenv (const char *name) { return 0; }
int getpid (void) { return 1; }
int pthread_mutex_lock (void *mutex) { return 0; }
int pthread_mutex_unlock (void *mutex) { return 0; }
void __cxa_finalize (void *library) { }
void __gmon_start__ (void) { }
"""


@PLACES
@pytest.mark.parametrize("text", [ALLOCATOR, WORKING], ids=["allocator", "functions"])
def test_a_program_with_an_allocator_a_clock_and_locks_of_its_own_ends_the_same(
    page, tmp_path, where, text
):
    check(page, tmp_path, where, text)


OWN_FORMATS = """
#include <stdarg.h>
#include <unistd.h>
int vsnprintf (char *text, size_t size, const char *format, va_list values);
static int said (const char *format, va_list values) {
	char text[1000];
	int size = vsnprintf (text, sizeof text, format, values);
	return write (1, text, size) + 1000;
}
#define FORMAT va_list values; va_start (values, format); return said (format, values);
int fprintf (void *file, const char *format, ...) { FORMAT }
int dprintf (int fd, const char *format, ...) { FORMAT }
int printf (const char *format, ...) { FORMAT }
"""


def test_a_librarys_own_formatting_gets_all_values(page, tmp_path):
    """Which has functions for values as a list only where libc has them, or none."""
    check(page, tmp_path, in_library, OWN_FORMATS)
    check(page, tmp_path, in_library, OWN_FORMATS + variables(["vfprintf", "vprintf", "vdprintf"]))


MODULE = """
int io_submit (void *context, long count, void **blocks);
int io_uring_queue_init (unsigned entries, void *ring, unsigned flags);
int seccomp_load (void *context);
int answer (void) {
	return io_submit (0, 1, 0) + io_uring_queue_init (1, 0, 0) + seccomp_load (0);
}
"""
OF_MODULE = """
int io_submit (void *context, long count, void **blocks) { return 40; }
int io_uring_queue_init (unsigned entries, void *ring, unsigned flags) { return 1; }
int seccomp_load (void *context) { return 1; }
"""
LOADER = """
#include <dlfcn.h>
#include <stdio.h>
int main (int count, char **words) {
	for (int i = 0; i < 3; i++) {
		void *module = dlopen (words[1], RTLD_NOW);
		int (*answer) (void) = (int (*) (void))dlsym (module, "answer");
		if (!answer) return 3;
		printf ("%d\\n", answer ());
		dlclose (module);
		dlopen (words[2], RTLD_NOW); /* takes its place in memory */
	}
	return 0;
}
"""


def test_what_a_loaded_module_links_is_called(page, tmp_path):
    """A library that comes and goes with a module of the program, as libaio with a plugin."""
    for name, text in {"module": MODULE, "inner": OF_MODULE, "loader": LOADER}.items():
        (tmp_path / f"{name}.c").write_text(text)
    shared = ("-shared", "-fPIC")
    inner = build(tmp_path / "libinner.so", *shared, tmp_path / "inner.c")
    module = build(
        *(tmp_path / "module.so", *shared, tmp_path / "module.c", inner),
        *("-Wl,--no-as-needed", f"-Wl,-rpath,{tmp_path}"),
    )
    loader = build(tmp_path / "loader", tmp_path / "loader.c", "-ldl")
    command = [loader, module, "/usr/lib/x86_64-linux-gnu/libm.so.6"]
    alone = outcome(command, tmp_path / "place")
    assert alone[:2] == (0, b"42\n42\n42\n")
    assert outcome_with(page, command, tmp_path / "place", "go") == alone
