"""What `fedrl federation check` says about certificates and keys."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fedrl.errors import FedRLError
from fedrl.organisations import certificates, init, node_keys
from fedrl.organisations.check_items import Item, fail, ok, skipped, warn
from fedrl.organisations.layout import ServerFiles, SiteFiles

SOON = timedelta(days=30)
RENEW = "fedrl federation init --renew, where ca.key is"
NEW_KEY = "ask the operator for a new key: fedrl federation init DIR --add SITE"


def dates(path: Path, do: str) -> Item:
    """Whether a certificate is valid now, and for how long."""
    item = f"dates of {path.name}"
    try:
        certificate = certificates.read(path)
    except FedRLError as error:
        return fail(item, str(error), "")
    begins, ends, now = certificates.valid_from(certificate), certificates.valid_until(certificate), datetime.now(UTC)
    if now > ends:
        return fail(item, f"expired on {ends:%Y-%m-%d}", do)
    if now < begins:
        return fail(
            item,
            f"valid from {begins:%Y-%m-%d %H:%M} UTC on, and this clock says {now:%Y-%m-%d %H:%M}",
            "set the clock",
        )
    if ends - now < SOON:
        return warn(item, f"ends in {(ends - now).days} days, on {ends:%Y-%m-%d}", do)
    return ok(item, f"valid until {ends:%Y-%m-%d}")


def of_server(files: ServerFiles) -> Iterator[Item]:
    """Both certificates: dates, who signed the server's, which host it names, whether the key is its own."""
    yield dates(files.ca, "make a new federation: fedrl federation init")
    yield dates(files.certificate, RENEW)
    try:
        certificate, authority = certificates.read(files.certificate), certificates.read(files.ca)
    except FedRLError:  # the lines on dates have its sentence
        yield skipped("server.crt", "it or ca.crt cannot be read")
        return
    signed = certificates.is_signed_by(certificate, authority)
    yield (
        ok("signer of server.crt", "the authority in ca.crt")
        if signed
        else fail("signer of server.crt", "not the authority in ca.crt, which is the one that sites trust", RENEW)
    )
    try:
        host = init.server_address(files).host
        named = certificates.is_for_host(certificate, host)
        found = f"it names {', '.join(certificates.names(certificate))}"
        item = "host in server.crt"
        yield ok(item, found) if named else fail(item, f"{found}, and sites connect to {host}", RENEW)
    except FedRLError as error:
        yield fail("host in server.crt", str(error), "")
    try:
        matches = certificates.is_for_key(certificate, files.key)
        do = f"restore both from one backup, or {RENEW}"
        item = "key of server.crt"
        yield ok(item, "server.key is its own") if matches else fail(item, "server.key is the key of another one", do)
    except FedRLError as error:
        yield fail("key of server.crt", str(error), RENEW)


def key_pair(files: SiteFiles) -> Item:
    """Whether Flower can use the site's key, and the public half is its own."""
    try:
        same = node_keys.comparable(node_keys.public_of(files.key)) == node_keys.read_public(files.public_key)
    except FedRLError as error:
        return fail("key of this site", str(error), "")
    if not same:
        return fail("key of this site", f"{files.public_key.name} is not the public half of {files.key.name}", NEW_KEY)
    return ok("key of this site", f"{files.public_key.name} is its public half")


def registered(files: ServerFiles, sites: list[str]) -> Iterator[Item]:
    """Whether every site has a public key of its own."""
    keys: dict[bytes, str] = {}
    bad = False
    for name in sites:
        try:
            key = node_keys.read_public(files.site_keys / f"{name}.pub")
        except FedRLError as error:
            bad = True
            yield fail(f"key of {name}", str(error), f"put site.pub of that site there, or: init DIR --add {name}")
            continue
        if key in keys:
            bad = True
            yield fail(f"key of {name}", f"the same as that of {keys[key]}: they could act for each other", NEW_KEY)
        keys[key] = name
    extra = sorted(path.stem for path in files.site_keys.glob("*.pub") if path.stem not in sites)
    for name in extra:
        yield warn(f"key of {name}", "federation.toml has no such site", "remove the key, or add the site to [sites]")
    if not bad and not extra:
        yield ok("keys of sites", f"one for each of {', '.join(sites)}")


def authority_key(files: ServerFiles) -> Item:
    """The key of the authority can make a server's certificate for anybody: it should not be on this machine."""
    for path in (files.home / "ca.key", files.home.resolve().parent / "ca" / "ca.key"):
        if path.exists():
            do = "move the folder ca to a disk that is not connected; it is needed for new certificates only"
            return warn("key of the authority", f"{path} is on this machine", do)
    return ok("key of the authority", "not on this machine, as far as can be seen from this folder")
