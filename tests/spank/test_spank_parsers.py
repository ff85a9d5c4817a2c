"""The plugin's pure functions, under ASan and UBSan: laws, and tables of cases."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

CLASSES = ("stream", "flush", "meta")
LANES = ("sl0", "sl1", "a", "a_b")
SETTINGS = [f"lane={name}:/{name}:{number}" for number, name in enumerate(LANES, start=1)]


class Harness:
    """The harness process: one line in, one line out."""

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )

    def ask(self, *words: str) -> str:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("\t".join(words).encode() + b"\n")
        line = self._process.stdout.readline()
        assert line.endswith(b"\n"), f"the harness ended at {words!r}"
        return line[:-1].decode(errors="replace")

    def end(self) -> int:
        assert self._process.stdin
        self._process.stdin.close()
        return self._process.wait(timeout=20)


@pytest.fixture(scope="module")
def harness(built: Path) -> Iterator[Harness]:
    harness = Harness(built / "harness")
    yield harness
    assert harness.end() == 0


# what can stand in a line of the harness
text = st.text(st.characters(exclude_characters="\t\n\0", exclude_categories=["Cs"]))
count = st.sampled_from(["", ":1", ":3", ":1000000"])
token = st.tuples(st.sampled_from(LANES), st.sampled_from(CLASSES), count)
other = st.sampled_from(
    [
        *("matlab", "matlab:2", "sl0", "sl0_", "sl0_none", "sl0_streams", "sl00_stream", "a_"),
        *("sl0_stream@db", "sl0_stream@db:1", "sl0_stream:0", "sl0_stream:", "sl0_stream:x"),
        *("SL0_stream", "sl0_STREAM", "sl0-stream", "stream", "", " sl0_stream", "sl0_stream:1:2"),
    ]
)


@given(st.lists(token | other), st.data())
def test_a_lane_is_held_exactly_if_all_tokens_are_of_it(
    harness: Harness, entries: list[tuple[str, str, str] | str], data: st.DataObject
) -> None:
    harness.ask("settings", *SETTINGS)
    tokens = [entry for entry in entries if isinstance(entry, tuple)]
    words = [entry if isinstance(entry, str) else "{}_{}{}".format(*entry) for entry in entries]
    licences = "".join(word + data.draw(st.sampled_from(",;")) for word in words)
    held = {lane for lane, _, _ in tokens}
    expected = held.pop() if len(held) == 1 else "-"
    assert harness.ask("token", licences.rstrip(",;") or licences) == expected


@given(st.lists(token, min_size=1))
def test_of_licences_that_are_alternatives_none_is_a_token(
    harness: Harness, tokens: list[tuple[str, str, str]]
) -> None:
    harness.ask("settings", *SETTINGS)
    words = ["{}_{}{}".format(*token) for token in tokens]
    assert harness.ask("token", "|".join([*words, "matlab"])) == "-"


@given(text)
def test_no_licence_string_is_too_strange(harness: Harness, licences: str) -> None:
    harness.ask("settings", *SETTINGS)
    assert harness.ask("token", licences) in {"-", *LANES}


@given(st.lists(text | st.sampled_from(["lane=", "backend=", "a:/b:1", ":", "timeout=5"])))
def test_no_arguments_are_too_strange(harness: Harness, arguments: list[str]) -> None:
    answer = harness.ask("settings", *(f"lane={word}" for word in arguments[::2]), *arguments)
    assert any(name in answer for name in ("directory", "moosefs", "lustre"))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ["directory", "", "10"]),
        (["lane=sl0:/a/b:4"], ["directory", "", "10", "sl0:/a/b:4:"]),
        (["timeout=600"], ["directory", "", "600"]),
        (
            ["lane=s:/m:2:only", "backend=moosefs"],
            ["moosefs", "/usr/bin/mfssetsclass", "10", "s:/m:2:/usr/bin/mfssetsclass only ."],
        ),
        (
            ["backend=lustre", "command=/opt/lfs", "lane=s:/l:2:p", "lane=t:/l:2:0,3"],
            [
                *("lustre", "/opt/lfs", "10"),
                "s:/l:2:/opt/lfs setstripe -p p .",
                "t:/l:2:/opt/lfs setstripe -o 0,3 .",
            ],
        ),
    ],
)
def test_arguments_that_make_sense(
    harness: Harness, arguments: list[str], expected: list[str]
) -> None:
    assert harness.ask("settings", *arguments).split("\t") == expected


@pytest.mark.parametrize(
    ("argument", "why"),
    [
        ("nonsense", "unknown"),
        ("backend=tape", "no such backend"),
        ("place=some", "write place=all"),
        ("timeout=0", "1 to 600"),
        ("timeout=601", "1 to 600"),
        ("timeout=99999999999999999999", "1 to 600"),
        ("timeout=5s", "1 to 600"),
        ("command=lfs", "starts with /"),
        ("command=/" + "x" * 255, "at most 255 bytes"),
        ("turns=lib.so", "starts with /"),
        ("turns=/lib:sluice.so", "without a colon"),
        ("turns_on=scratch", "starts with /"),
        ("turns_socket=agent.sock", "starts with /"),
        ("turns_socket=/" + "x" * 107, "at most 107 bytes"),
        ("lane=", "write lane=NAME:PATH:TARGETS"),
        ("lane=a", "write lane=NAME:PATH:TARGETS"),
        ("lane=a:/b", "write lane=NAME:PATH:TARGETS"),
        ("lane=:/b:1", "write lane=NAME:PATH:TARGETS"),
        ("lane=" + "n" * 64 + ":/b:1", "write lane=NAME:PATH:TARGETS"),
        ("lane=a,b:/b:1", "part of a licence's name"),
        ("lane=a:b:1", "starts with /"),
        ("lane=a:/b:0", "from 1 to"),
        ("lane=a:/b:-1", "from 1 to"),
        ("lane=a:/b:1:", "one word"),
        ("lane=a:/b:1:-rf", "one word"),
        ("lane=a:/b:1:x:y", "one word"),
        ("lane=a:/b:1:pool:", "one word"),
        ("lane=a:/b:1:pool:-x", "one word"),
        ("lane=a:/b:1:pool", "this backend has no PLACEMENT"),
    ],
)
def test_arguments_that_make_no_sense_are_left_out(
    harness: Harness, argument: str, why: str
) -> None:
    answer = harness.ask("settings", argument, "lane=ok:/ok:1")
    complaint, *rest = answer.split("\t")
    assert complaint.startswith("!")
    assert why in complaint
    assert rest == ["directory", "", "10", "ok:/ok:1:"]


def test_a_lane_is_there_once_and_there_are_at_most_sixteen(harness: Harness) -> None:
    answer = harness.ask("settings", "lane=a:/a:1", "lane=a:/b:1")
    assert answer.startswith("!lane=a:/b:1: this lane is there already\t")
    answer = harness.ask("settings", *(f"lane=l{i}:/l:1" for i in range(17)))
    assert answer.startswith("!lane=l16:/l:1: more than 16 lanes\t")


def test_turns_are_taken_on_at_most_sixteen_file_systems(harness: Harness) -> None:
    answer = harness.ask("settings", *(f"turns_on=/s{i}" for i in range(17)))
    assert answer.startswith("!turns_on=/s16: more than 16 file systems\t")


@pytest.mark.parametrize(
    ("lane", "targets", "expected"),
    [
        ("s:/l:8:10-17", "0 7", "10,17"),
        ("s:/l:8:0,4,1,5,2,6,3,7", "1 2 7", "4,1,7"),
        (
            "s:/l:512:1000-1511",
            " ".join(map(str, range(512))),
            ",".join(map(str, range(1000, 1512))),
        ),
        ("s:/l:8:0-3,8,10-12", "4 5", "8,10"),
        ("s:/l:8:10-16", "7", "-"),
        ("s:/l:2:0-7", "2", "-"),
        ("s:/l:8:0-3,x", "4", "-"),
        ("s:/l:8:3-0,1", "0", "-"),
        ("s:/l:8:0-99999999999999999999", "1", "-"),
        ("s:/l:8:pool", "0", "-"),
        ("s:/l:8:0-7", "", "-"),
    ],
)
def test_targets_are_entries_of_the_lanes_list(
    harness: Harness, lane: str, targets: str, expected: str
) -> None:
    harness.ask("settings", "backend=lustre", f"lane={lane}")
    count = len(targets.split())
    wanted = "-" if expected == "-" else f"/usr/bin/lfs setstripe -c {count} -o {expected} ."
    assert harness.ask("targets", *targets.split()) == wanted


@pytest.mark.parametrize(
    ("targets", "pool"),
    [
        *(("0", "p-0-1"), ("2 3", "p-2-2"), ("4 5 6 7", "p-4-4")),
        *(("1 2", "-"), ("0 2", "-"), ("0 1 2", "-"), ("8 9", "-"), ("", "-")),
    ],
)
def test_pools_name_aligned_blocks_alone(harness: Harness, targets: str, pool: str) -> None:
    harness.ask("settings", "backend=lustre", "lane=s:/l:8:pool:p")
    wanted = "-" if pool == "-" else f"/usr/bin/lfs setstripe -p {pool} ."
    assert harness.ask("targets", *targets.split()) == wanted


@given(st.text("0123456789,-x", max_size=30), st.integers(0, 511))
def test_no_list_is_too_strange(harness: Harness, placement: str, target: int) -> None:
    harness.ask("settings", "backend=lustre", f"lane=s:/l:512:0{placement}")
    assert harness.ask("targets", str(target)).startswith(("-", "/usr/bin/lfs setstripe -c 1 -o "))


def test_a_lane_without_the_placement_its_backend_needs_is_left_out(harness: Harness) -> None:
    answer = harness.ask("settings", "backend=lustre", "lane=a:/a:1", "lane=b:/b:1:p")
    assert answer.split("\t")[0] == "!a: this backend needs a PLACEMENT"
    assert answer.split("\t")[4:] == ["b:/b:1:/usr/bin/lfs setstripe -p p ."]


@pytest.mark.parametrize(
    ("backend", "lane", "block", "expected"),
    [
        ("lustre", "/l:8:0-7", "4+2", "/l:2:/usr/bin/lfs setstripe -c 2 -o 4,5 ."),
        ("lustre", "/l:8:0,4,1,5,2,6,3,7", "2+2", "/l:2:/usr/bin/lfs setstripe -c 2 -o 1,5 ."),
        ("lustre", "/l:4:10-11,3,0-0", "0+4", "/l:4:/usr/bin/lfs setstripe -c 4 -o 10,11,3,0 ."),
        ("lustre", "/l:128:pool:scr", "8+4", "/l:4:/usr/bin/lfs setstripe -p scr-8-4 ."),
        ("lustre", "/l:128:pool:scr", "0+0", "/l:128:/usr/bin/lfs setstripe -p scr ."),
        ("moosefs", "/l:8:class:fast", "4+4", "/l:4:/usr/bin/mfssetsclass fast-4-4 ."),
        ("moosefs", "/l:8:class:fast", "0+0", "/l:8:/usr/bin/mfssetsclass fast ."),
        ("directory", "/l:8", "5+1", "/l/t5:1:"),
        # what does not fit: the lane as a whole, as without a block
        ("lustre", "/l:8:0-7", "6+4", "/l:8:/usr/bin/lfs setstripe -o 0-7 ."),
        ("lustre", "/l:8:0-7", "4294967295+2", "/l:8:/usr/bin/lfs setstripe -o 0-7 ."),
        ("lustre", "/l:8:0-6", "0+2", "/l:8:/usr/bin/lfs setstripe -o 0-6 ."),
        ("lustre", "/l:8:0-8", "0+2", "/l:8:/usr/bin/lfs setstripe -o 0-8 ."),
        ("lustre", "/l:8:0-7x", "0+2", "/l:8:/usr/bin/lfs setstripe -o 0-7x ."),
        ("lustre", "/l:8:7-0", "0+2", "/l:8:/usr/bin/lfs setstripe -o 7-0 ."),
        ("lustre", "/l:8:scr", "0+2", "/l:8:/usr/bin/lfs setstripe -p scr ."),
        # a pool's name has at most 15 characters
        (
            "lustre",
            "/l:128:pool:scratch_p",
            "8+4",
            "/l:4:/usr/bin/lfs setstripe -p scratch_p-8-4 .",
        ),
        (
            "lustre",
            "/l:128:pool:scratchXX",
            "100+4",
            "/l:4:/usr/bin/lfs setstripe -p scratchXX-100-4 .",
        ),
        (
            "lustre",
            "/l:128:pool:scratchXXX",
            "100+4",
            "/l:128:/usr/bin/lfs setstripe -p scratchXXX .",
        ),
        ("moosefs", "/l:8:fast", "4+4", "/l:8:/usr/bin/mfssetsclass fast ."),
        ("directory", "/l:8", "4+2", "/l:8:"),
    ],
)
def test_a_block_is_a_part_of_its_lane(
    harness: Harness, backend: str, lane: str, block: str, expected: str
) -> None:
    harness.ask("settings", f"backend={backend}", f"lane=a:{lane}")
    assert harness.ask("block", *block.split("+")) == expected


@given(st.integers(1, 512), st.integers(0, 520), st.integers(0, 520))
def test_a_block_of_a_list_has_as_many_of_its_own_osts(
    harness: Harness, targets: int, first: int, count: int
) -> None:
    osts = [str(9999 - ost) for ost in range(targets)]
    argument = f"lane=a:/l:{targets}:{','.join(osts)}"
    assert harness.ask("settings", "backend=lustre", argument).count("\t") == 3
    path, number, words = harness.ask("block", str(first), str(count)).split(":", 2)
    fits = count > 0 and first + count <= targets
    assert (path, number) == ("/l", str(count if fits else targets))
    expected = osts[first : first + count] if fits else osts
    assert words.split("-o ")[1].split()[0].split(",") == expected


@given(text)
def test_no_io_dir_is_too_strange(harness: Harness, value: str) -> None:
    path = harness.ask("directory", "7", value)
    assert path == "-" or path.startswith("/")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("/a/b", "/a/b"),
        ("/a/b///", "/a/b"),
        ("/a/../b", "/a/../b"),
        ("/x-%j/%j", "/x-4711/4711"),
        ("/100%%", "/100%"),
        ("/..a", "/..a"),
        ("a/b", "-"),
        ("", "-"),
        ("/", "-"),
        ("///", "-"),
        ("/a/.", "-"),
        ("/a/..", "-"),
        ("/a/../", "-"),
        ("/%u", "-"),
        ("/a%", "-"),
        ("/" + "x" * 1023, "-"),
        ("/" + "x" * 1022, "/" + "x" * 1022),
    ],
)
def test_an_io_dir_is_an_absolute_path_with_a_last_part(
    harness: Harness, value: str, expected: str
) -> None:
    assert harness.ask("directory", "4711", value) == expected


@settings(max_examples=30)
@given(st.text(st.sampled_from("ab.%j"), min_size=1, max_size=8))
def test_a_directory_is_made_once(harness: Harness, tmp_path_factory, name: str) -> None:
    if name in {".", ".."}:
        return
    parent = tmp_path_factory.mktemp("made")
    words = ("make", str(parent), name, str(parent))
    assert harness.ask(*words, "0", "5") == "ok"
    assert harness.ask(*words, "0", "5") == "cannot make the directory: File exists"
    assert harness.ask(*words, "1", "5") == "ok"
    assert [path.name for path in parent.iterdir()] == [name]


def test_a_placement_command_that_fails_leaves_no_directory(
    harness: Harness, tmp_path: Path
) -> None:
    words = ("make", str(tmp_path), "job", str(tmp_path), "0", "1")
    assert harness.ask(*words, "/bin/false") == "the placement command failed"
    assert harness.ask(*words, "/bin/sleep", "1000") == "the placement command failed"
    assert harness.ask(*words, "/nonexistent") == "the placement command failed"
    assert list(tmp_path.iterdir()) == []
    assert harness.ask(*words, "/bin/true") == "ok"


def test_valgrind_finds_nothing(built: Path, tmp_path: Path) -> None:
    if not shutil.which("valgrind"):
        pytest.skip("valgrind is not installed")
    lines = [
        ["settings", *SETTINGS, "nonsense", "backend=lustre", "lane=z:/z:1:0-3"],
        ["settings", *SETTINGS],
        ["token", "sl0_stream:2,matlab"],
        ["directory", "1", "/a/%j"],
        ["make", str(tmp_path), "job", str(tmp_path), "0", "20"],
        ["make", str(tmp_path), "placed", str(tmp_path), "0", "20", "/bin/true"],
    ]
    done = subprocess.run(
        ["valgrind", "-q", "--error-exitcode=99", "--leak-check=full", built / "harness-plain"],
        check=False,
        capture_output=True,
        text=True,
        input="".join("\t".join(line) + "\n" for line in lines),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[2:] == ["sl0", "/a/1", "ok", "ok"]
