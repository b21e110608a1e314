"""A hook of MkDocs: sessions of Python are highlighted as such, and what doctest reads and nobody else is not shown."""

import re

SESSION = re.compile(r"^```python\n(?=>>> )", re.MULTILINE)
OPTION = re.compile(r"[ \t]*# doctest: \+\w+")


def on_page_markdown(markdown, **_):
    return OPTION.sub("", SESSION.sub("```pycon\n", markdown)).replace("<BLANKLINE>", "")


def on_page_content(html, **_):  # of docstrings
    return re.sub(r'(<span class="c1">)?[ \t]*# doctest: \+\w+(</span>)?', "", html).replace("&lt;BLANKLINE&gt;", "")
