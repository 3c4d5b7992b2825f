"""Reservations about data sets (partial, a stand-in, of uncertain identity), shown beside their names."""

from collections.abc import Iterable

from datasets.catalogue import entries

DAGGER = "†"


def marks() -> dict[str, str]:
    """Return the mark of every marked data set: one is marked as soon as any of its sources is."""
    found = {name: {s.mark for s in entry.sources} - {""} for name, entry in entries().items()}
    return {name: ", ".join(sorted(m)) for name, m in found.items() if m}


def marked(name: str) -> str:
    """Return a data set's name as tables and reports write it: with a dagger and the mark, if it has one."""
    mark = marks().get(name)
    return f"{name}{DAGGER} ({mark})" if mark else name


def footnote(names: Iterable[str]) -> str:
    """Return the sentence that names the marked data sets among `names`; "" if there is none."""
    listed = [marked(name) for name in sorted(set(names)) if name in marks()]
    return f"Marked data sets: {', '.join(listed)}." if listed else ""


def marked_reasons(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return (name, what is reserved about it) of the marked data sets among `names`, in the catalogue's words."""
    found = []
    for name in sorted(set(names) & set(marks())):
        sources = [source for source in entries()[name].sources if source.mark]
        found.append((name, " ".join(dict.fromkeys(s.note for s in sources if s.note)) or marks()[name]))
    return found
