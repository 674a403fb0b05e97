"""The page of all references and how each was checked, made from `limen.citations`."""

from limen.citations import BIBTEX, CHECKED
from limen.web.text.references import references

HEAD = """# References

What `limen cite` and `limen.cite` give, and the public page with which each entry was compared: authors, title, place,
year, volume and pages. A public bibliography is the list of references of another paper or of a public repository.
First names and issue numbers that no page confirmed are left out. A preprint stays cited by its arXiv number where it
has been printed since, unless its title is now another.
"""


NEXT = "Next: [cite what you used](howto/save_load_cite.md), or [the gallery](gallery/index.md)."


def references_page() -> str:
    """One row for each entry, by key."""
    rows = [
        f"| `{entry['key']}` | {entry['authors']} ({entry['year']}). {_title(entry)}. {entry['where']}. "
        f"| {CHECKED[entry['key']]} |"
        for entry in references(tuple(sorted(BIBTEX)))
    ]
    return "\n".join([HEAD, "| key | reference | compared with |", "|---|---|---|", *rows, "", NEXT, ""])


def _title(entry: dict[str, str]) -> str:
    return f"[{entry['title']}]({entry['link']})" if "link" in entry else f"*{entry['title']}*"
