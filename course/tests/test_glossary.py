"""The glossary: its entries, and the page that shows them."""

from __future__ import annotations

import nbformat
from attend import glossary
from attend.curriculum import CHAPTERS

MOST_WORDS = 30


def test_each_term_is_there_once_and_short():
    terms = glossary.terms()
    names = [term.name.casefold() for term in terms]
    assert len(set(names)) == len(names)
    assert names == sorted(names)
    for term in terms:
        assert term.meaning.endswith("."), term.name
        assert len(term.meaning.split()) <= MOST_WORDS, term.name
        assert "|" not in term.name + term.symbol + term.meaning, term.name  # of a table


def test_each_chapter_that_is_ready_has_terms():
    known = {chapter.id for chapter in CHAPTERS}
    used = [term.chapter for term in glossary.terms()]
    assert set(used) <= known
    for chapter in CHAPTERS:
        if chapter.is_ready():
            assert used.count(chapter.id) >= 2, chapter.id


def test_the_page_links_the_chapters_that_are_ready():
    page = nbformat.reads(glossary.page(["03_attention"]).decode(), 4)
    nbformat.validate(page)
    table = page.cells[2].source
    assert "[03](03_attention.ipynb) |" in table
    assert "| 24 |" in table
    assert len(table.splitlines()) == len(glossary.terms()) + 2
