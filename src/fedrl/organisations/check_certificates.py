"""What `fedrl federation check` says about certificates and keys."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fedrl.errors import FedRLError
from fedrl.organisations import certificates, node_keys
from fedrl.organisations.check_items import Item, fail, ok, skipped, warn
from fedrl.organisations.layout import ServerFiles, SiteFiles

SOON = timedelta(days=30)
SIGNER, HOST, KEY = "signer of server.crt", "host in server.crt", "key of server.crt"
RENEW = "fedrl federation init DIR --renew, on the machine that has ca.key"
NEW_KEY = "ask the operator for a new key (fedrl federation init DIR --add SITE)"


def dates(path: Path, do: str) -> Item:
    """Whether a certificate is valid now, and for how long."""
    item = f"dates of {path.name}"
    try:
        certificate = certificates.read(path)
    except FedRLError as error:
        return fail(item, str(error), "")
    begins, ends, now = certificates.valid_from(certificate), certificates.valid_until(certificate), datetime.now(UTC)
    if now > ends:
        return fail(item, f"it expired on {ends:%Y-%m-%d}", do)
    if now < begins:
        found = f"not valid before {begins:%Y-%m-%d %H:%M} UTC, and this machine's clock says {now:%Y-%m-%d %H:%M}"
        return fail(item, found, "set the clock (timedatectl set-ntp true)")
    if ends - now < SOON:
        return warn(item, f"it expires in {(ends - now).days} days, on {ends:%Y-%m-%d}", do)
    return ok(item, f"valid until {ends:%Y-%m-%d}")


def of_server(files: ServerFiles, host: str | None) -> Iterator[Item]:
    """Both certificates: dates, who signed the server's, whether it names the host, whether the key is its own."""
    yield dates(files.ca, "make a new federation (fedrl federation init) and hand out its folders")
    yield dates(files.certificate, RENEW)
    try:
        certificate, authority = certificates.read(files.certificate), certificates.read(files.ca)
    except FedRLError:  # the lines on dates have its sentence
        why = "server.crt or ca.crt cannot be read"
        yield from (skipped(item, why) for item in (SIGNER, HOST, KEY))
        return
    signed = certificates.is_signed_by(certificate, authority)
    yield (
        ok(SIGNER, "the authority in ca.crt")
        if signed
        else fail(SIGNER, "not the authority in ca.crt, which sites trust", RENEW)
    )
    found = f"it names {', '.join(certificates.names(certificate)) or 'no host'}"
    if host is None:
        yield skipped(HOST, "server.toml cannot be read")
    elif certificates.is_for_host(certificate, host):
        yield ok(HOST, found)
    else:
        yield fail(HOST, f"{found}, but sites connect to {host}", RENEW)
    try:
        matches = certificates.is_for_key(certificate, files.key)
        do = f"restore both from the same backup, or {RENEW}"
        found = "server.key belongs to another certificate"
        yield ok(KEY, "server.key belongs to it") if matches else fail(KEY, found, do)
    except FedRLError as error:
        yield fail(KEY, str(error), RENEW)


def key_pair(files: SiteFiles) -> Item:
    """Whether Flower can use the site's key, and the public half is its own."""
    try:
        same = node_keys.comparable(node_keys.public_of(files.key)) == node_keys.read_public(files.public_key)
    except FedRLError as error:
        return fail("key of this site", str(error), "")
    if not same:
        return fail("key of this site", f"{files.public_key.name} is not the public half of {files.key.name}", NEW_KEY)
    return ok("key of this site", f"{files.key.name} and {files.public_key.name} belong together")


def registered(files: ServerFiles, sites: list[str]) -> Iterator[Item]:
    """Whether every site has a public key of its own. One without a key is left out, as if it had not come yet."""
    keys: dict[bytes, str] = {}
    odd = [item for name in sites if (item := _registered(files, name, keys)) is not None]
    extra = sorted(path.stem for path in files.site_keys.glob("*.pub") if path.stem not in sites)
    do = "delete the file, or add the site to [sites]"
    odd += [warn(f"key of {name}", "federation.toml has no such site", do) for name in extra]
    yield from odd or [ok("keys of sites", f"one for each of {', '.join(sites)}")]


def _registered(files: ServerFiles, name: str, keys: dict[bytes, str]) -> Item | None:
    """What is wrong with the site's key, which joins those that are known."""
    item, path = f"key of {name}", files.site_keys / f"{name}.pub"
    give = f"copy its site.pub to {path}, or make a new key: fedrl federation init DIR --add {name}"
    if not path.exists():
        return warn(item, f"{path} is not there, so {name} cannot connect and is left out of every round", give)
    try:
        key = node_keys.read_public(path)
    except FedRLError as error:
        return fail(item, str(error), give)
    other = keys.setdefault(key, name)
    if other != name:
        return fail(
            item,
            f"the same as the key of {other}: each could act for the other",
            f"give {name} a key of its own: {give}",
        )
    return None


def authority_key(files: ServerFiles) -> Item:
    """The key of the authority can make a server's certificate for anybody: it should not be on this machine."""
    for path in (files.home / "ca.key", files.home.resolve().parent / "ca" / "ca.key"):
        if path.exists():
            do = "keep the folder ca on a disk that is not connected; only a new certificate needs it"
            return warn("key of the authority", f"{path} is on this machine: who reads it can act as the server", do)
    return ok("key of the authority", "not beside this folder")
