"""What slurmctld makes of a request for licences, version by version, from its source.

`_build_license_list` of licenses.c reads licences, `slurm_get_next_tres` of
slurm_protocol_defs.c what is wanted for each task. Texts are strings that may hold any
byte as a surrogate.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Container
from typing import Any

from hypothesis import strategies as st

Licences = Counter[str] | None  # None: slurmctld refuses the request

_SPACE = re.compile(r"[ \t\n\v\f\r]")
_NUMBER = re.compile(r"[ \t\n\v\f\r]*[+-]?[0-9]+")
_COUNT = re.compile(r"[0-9]+[kKmMgGtTpP]?\Z")


def _strtol(text: str) -> tuple[int, str]:
    """Return the number and what follows it, as strtol does."""
    found = _NUMBER.match(text)
    return (int(found[0]), text[found.end() :]) if found else (0, text)


def _listed(text: str, count_signs: str) -> Licences:
    sums: Counter[str] = Counter()
    for item in filter(None, re.split("[,;]", text)):
        name, sign, number = item, "", ""
        for at, letter in enumerate(item):
            if _SPACE.match(letter):
                return None
            if letter in count_signs:
                name, sign, number = item[:at], letter, item[at + 1 :]
                break
        count, rest = _strtol(number) if sign else (1, "")
        if rest or count < 0:
            return None
        sums[name] += count
    return sums


def _listed_from_25_05(text: str) -> Licences:
    delimiters = ",;"
    if "|" in text:
        if re.search("[,;(]", text):
            return None
        delimiters = "|"
    sums: Counter[str] = Counter()
    while text := text.lstrip(delimiters):
        length = next((i for i, letter in enumerate(text) if letter in delimiters + ":=("), None)
        name = text[:length]
        text = "" if length is None else text[length:]
        if _SPACE.search(name) or text.startswith("("):
            return None  # of certain nodes: no such licence is defined here
        count = 1
        if text[:1] in (":", "="):
            count, text = _strtol(text[1:])
            if count < 0 or (text and text[0] not in delimiters):
                return None
        sums[name] += count
    return sums


def _for_tasks_23_02(text: str) -> tuple[str, bool]:
    """Return the licences, and whether all of the text was read: Slurm stops at nonsense."""
    found, is_whole = [], True
    while (at := text.find("license:")) >= 0:
        name, _, text = text[at + len("license:") :].partition(",")
        name, *numbers = name.split(":", 2)
        if not name and not numbers:
            continue
        if numbers == [""] or (
            len(numbers) == 2 and (not numbers[0] or not _COUNT.match(numbers[1]))
        ):
            is_whole = False
            break
        count = numbers[-1] if numbers and _COUNT.match(numbers[-1]) else "1"
        if int(count.rstrip("kKmMgGtTpP")) > 0:
            found.append(f"{name}:{count.rstrip('kKmMgGtTpP')}")
    return ",".join(found), is_whole


def _for_tasks_from_23_11(text: str) -> tuple[str, bool]:
    found, is_whole = [], True
    while (at := text.find("license")) >= 0:
        name, _, text = text[at + len("license") :].removeprefix("/").partition(",")
        if not name:
            continue
        sign = "=" if "=" in name else ":" if ":" in name else ""
        count = "1"
        if sign:
            name, _, count = name.rpartition(sign)
        # `=x` makes no sense, `:x` is a type, and only gres have types
        if not _COUNT.match(count) or ":" in name:
            is_whole = False
            break
        if int(count.rstrip("kKmMgGtTpP")) > 0:
            found.append(f"{name}={count.rstrip('kKmMgGtTpP')}")
    return ",".join(found), is_whole


def _no_licences(_text: str) -> tuple[str, bool]:
    return "", True


def _with(signs: str) -> Callable[[str], Licences]:
    return lambda text: _listed(text, signs)


_READERS: dict[str, tuple[Callable[[str], Licences], Callable[[str], tuple[str, bool]]]] = {
    "22.05": (_with(":"), _no_licences),
    "23.02": (_with(":"), _for_tasks_23_02),
    "23.11": (_with(":="), _for_tasks_from_23_11),
    "25.05": (_listed_from_25_05, _for_tasks_from_23_11),
}
VERSIONS = tuple(_READERS)
"""Those that brought a change."""


def licences(
    version: str, text: str | None, for_tasks: str | None, defined: Container[str]
) -> Licences:
    """Return how many of each licence a job then holds."""
    listed, wanted_for_tasks = _READERS[version]
    parts = [text or "", wanted_for_tasks(for_tasks or "")[0]]
    sums = listed(",".join(filter(None, parts)))
    if sums is None or any(name not in defined for name in sums):
        return None
    return sums


_ANY_BYTE: Any = {"encoding": "utf-8", "errors": "surrogateescape"}

LIMIT = 1024
"""Bytes of licences that a job may be submitted with; a modification may have more."""


def wishes(names: Collection[str], word: str = "") -> st.SearchStrategy[str]:
    """Texts in which users might ask for licences, in good form and none, of any length.

    They hold neither a NUL nor what is no byte.
    """
    letters = st.characters(min_codepoint=1, max_codepoint=0x7F) | st.characters(
        min_codepoint=0xDC80, max_codepoint=0xDCFF
    )
    joint = st.sampled_from([",", ";", "|", ",,", ";,", "||", "", " ", ", ", "\n", "/"])
    count = st.sampled_from(
        ["", "", ":1", ":2", "=3", ":", "=", ": 4", ":-1", ":x", "@server", "*2", "(n1)",
         "(n1,n2):1", ":1:2", "=2=1", ":4294967297", "k", " "]
    )  # fmt: skip
    words = [word, f"{word}/", f"{word}:", f"gres/{word}/", "gres/", ""] if word else [""]
    name = st.sampled_from([*names, "", "gpu"]) | st.sampled_from([*names]).map(str.upper)
    item = st.tuples(st.sampled_from(words), name, count, joint).map("".join)
    filler = st.integers(0, 2 * LIMIT).map(lambda length: "x" * length + ",")
    at_limit = st.lists(item, min_size=1, max_size=4).map(
        lambda items: f"tool,{','.join(filter(None, items))}".ljust(LIMIT, ",")
    )
    parts = item | item | item | filler | st.text(letters, max_size=20)
    texts = at_limit | st.lists(parts, max_size=12).map("".join)
    return texts.map(lambda text: text.encode(**_ANY_BYTE).decode(**_ANY_BYTE))


def check_stripped(
    version: str,
    written: tuple[str, str],
    kept: tuple[str, str],
    defined: Container[str],
    tokens: Container[str],
) -> None:
    """Check that no token is left, and that no request is refused for what was taken off.

    Where Slurm stops reading at nonsense, what stands behind it may come to count.
    """
    left = licences(version, *kept, defined)
    assert not left or not any(name in tokens for name in left)
    before = licences(version, *written, defined)
    _, is_whole = _READERS[version][1](written[1])
    if before is None or not is_whole:
        return
    assert left is not None
    own = Counter({name: n for name, n in before.items() if name not in tokens})
    if "license" not in written[1]:
        assert left == own
    else:
        assert left <= own  # several in one item for tasks go with the token
