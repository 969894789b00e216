"""Whether this site and the server belong together, by what the server says of itself: a sentence for both if not.

The server compares again what the site answers (`sites.py`): each protects itself.
"""

import json
import re
from typing import Any

from fedrl.engines.versions import PACKAGES, about
from fedrl.organisations import agreement as agreements
from fedrl.organisations import versions
from fedrl.organisations.agreement import Agreement
from fedrl.organisations.site import Site

LONGEST = 64  # characters of a name or a version


def mismatch(site: Site, agreement: Agreement, words: dict[str, Any]) -> str | None:
    """Why the server that says `words` cannot have this site; None if it can."""
    who = f"site {site.name}"
    if words["agreement"] != agreement.text:
        where = agreements.difference(agreement, str(words["agreement"]))
        return f"{who}: federation.toml is not the server's: {where}; get the server's file and start join again"
    if words["site"] != site.name:
        return (
            f"{who}: its key is that of site {_plain(words['site'])}; correct `site` in site.toml, or put its own site.key "
            "and site.pub back, and start join again"
        )
    there, here = json.loads(str(words["about"])), about()
    others = {name: _plain(there[name]) for name in here if name in there and there[name] != here[name]}
    if not others:
        return None
    differing = ", ".join(f"{name} is {here[name]} here and {number} there" for name, number in others.items())
    packages = {name: number for name, number in others.items() if name in PACKAGES}
    do = versions.install(packages) if packages else "give JAX the same settings"
    return f"{who} is not like the server: {differing}; {do}, and start join again"


def _plain(word: Any) -> str:
    """A name or version that the server says, as a terminal and a command to be copied may hold it."""
    return re.sub(r"[^\w.+-]", "?", str(word)[:LONGEST], flags=re.ASCII)
