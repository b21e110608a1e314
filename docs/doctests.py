"""A hook of MkDocs: what doctest reads and nobody else is not shown."""

import re


def on_page_content(html, **_):
    return re.sub(r"[ \t]*# doctest: \+\w+", "", html).replace("&lt;BLANKLINE&gt;", "")
