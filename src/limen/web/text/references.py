"""References of an experiment, readable: authors, title, where, year, and a link where there is one."""

import re
import unicodedata
from typing import Any

from limen.citations import BIBTEX

_ACCENTS = {"'": "\u0301", "`": "\u0300", '"': "\u0308", "^": "\u0302", "~": "\u0303", "=": "\u0304", "c": "\u0327",
            "v": "\u030c", "u": "\u0306", "H": "\u030b", ".": "\u0307"}  # fmt: skip
_LETTERS = {r"\o": "ø", r"\O": "Ø", r"\l": "ł", r"\L": "Ł", r"\ss": "ß", r"\ae": "æ", r"\i": "ı"}


def references(keys: tuple[str, ...]) -> list[dict[str, Any]]:
    """One entry per key: `authors`, `title`, `where` with volume and pages, `year` and perhaps `link`."""
    found = []
    for key in keys:
        fields = _fields(BIBTEX[key])
        authors = [_name(author) for author in re.split(r"\s+and\s+", fields.get("author", ""))]
        arxiv = re.search(r"(\d{4}\.\d{4,5})", " ".join(fields.values()))
        entry = {
            "key": key,
            "authors": ", ".join(authors[:-1]) + (" & " if len(authors) > 1 else "") + authors[-1],
            "title": fields.get("title", ""),
            "where": _where(fields),
            "year": fields.get("year", ""),
        }
        if arxiv is not None:
            entry["link"] = f"https://arxiv.org/abs/{arxiv.group(1)}"
        found.append(entry)
    return found


def _name(author: str) -> str:
    """First names before the last."""
    last, _, first = author.partition(",")
    return f"{first.strip()} {last.strip()}".strip()


def _where(fields: dict[str, str]) -> str:
    """Journal, proceedings or publisher, then volume(number) and pages as far as there are any."""
    place = next((fields[name] for name in ("journal", "booktitle", "publisher") if name in fields), "")
    issue = f"({fields['number']})" if "number" in fields else ""
    numbered = f"{place} {fields['volume']}{issue}" if "volume" in fields else place
    return f"{numbered}, {fields['pages']}" if "pages" in fields else numbered


def _fields(entry: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for match in re.finditer(r"(\w+)\s*=\s*\{", entry):
        depth, at = 1, match.end()
        while depth and at < len(entry):
            depth += {"{": 1, "}": -1}.get(entry[at], 0)
            at += 1
        fields.setdefault(match.group(1).lower(), _readable(entry[match.end() : at - 1]))
    return fields


def _readable(latex: str) -> str:
    """BibTeX's accents as letters, braces dropped."""

    def accented(match: re.Match[str]) -> str:
        letter = {r"\i": "i"}.get(match.group(2), match.group(2))
        return unicodedata.normalize("NFC", letter + _ACCENTS[match.group(1)])

    text = re.sub(r"\\(['`\"^~=.])\s*\{?(\\i|[A-Za-z])\}?", accented, latex)
    text = re.sub(r"\\([cvuH])(?:\s*\{|\s+)(\\i|[A-Za-z])\}?", accented, text)
    for command, letter in _LETTERS.items():
        text = re.sub(re.escape(command) + r"(?![a-zA-Z])", letter, text)
    return " ".join(re.sub(r"[{}$]", "", text).replace("--", "–").replace("\\&", "&").split())
