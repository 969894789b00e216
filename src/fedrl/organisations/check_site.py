"""What `fedrl federation check` looks at in the folder of a site."""

from collections.abc import Iterator

from fedrl.errors import FedRLError
from fedrl.organisations import agreement as agreements
from fedrl.organisations import check_environment, check_items, check_link, secret
from fedrl.organisations import site as sites
from fedrl.organisations.agreement import Agreement
from fedrl.organisations.check_certificates import dates, key_pair
from fedrl.organisations.check_items import Item, fail, ok, skipped, warn
from fedrl.organisations.layout import SiteFiles
from fedrl.organisations.site import Site

PROGRAMS = ("flower-supernode", "flower-superexec", "flwr-clientapp")


def items(files: SiteFiles) -> Iterator[Item]:
    public, private = (files.agreement, files.settings, files.ca, files.public_key), (files.key, files.secret)
    yield from check_items.files(public, private, "copy it from the folder that the operator handed over")
    site, agreement = None, None
    try:
        site = sites.read(files.home)
        yield ok("site.toml", f"site {site.name}, {_clients(site.clients)}")
    except FedRLError as error:
        yield fail("site.toml", str(error), "")
    try:
        agreement = agreements.read(files.agreement)
        text = (
            f"{agreement.name}: {agreement.rounds} rounds, {_clients(agreement.num_clients)} at {len(agreement.sites)} sites"
        )
        yield ok("federation.toml", f"{text}; digest {agreement.digest[:12]}")
    except FedRLError as error:
        yield fail("federation.toml", str(error), "")
    yield _membership(site, agreement)
    yield key_pair(files)
    yield _secret(site)
    yield dates(files.ca, "ask the operator for the ca.crt of the federation as it is now")
    if site is None:
        yield from (skipped(name, "site.toml cannot be read") for name in check_link.NAMES)
    else:
        yield from check_link.items(site.server, files.ca)
    yield from check_items.package_versions(agreement.versions if agreement else {})
    yield check_items.programs(PROGRAMS)
    if site is None or agreement is None or site.name not in agreement.sites:
        yield from (skipped(name, "the files above come first") for name in check_environment.NAMES)
    else:
        yield from check_environment.items(files.home)
    yield check_items.disk(files.home)
    yield check_items.in_use(files.home, "joined")


def _membership(site: Site | None, agreement: Agreement | None) -> Item:
    if site is None or agreement is None:
        return skipped("place in the federation", "site.toml or federation.toml cannot be read")
    try:
        sites.check_membership(site, agreement)
    except FedRLError as error:
        return fail("place in the federation", str(error), "")
    own = agreement.clients_of(site.name)
    numbers = str(own.start) if len(own) == 1 else f"{own.start} to {own.stop - 1}"
    return ok("place in the federation", f"{site.name} has client{'s' * (len(own) > 1)} {numbers} of {agreement.num_clients}")


def _secret(site: Site | None) -> Item:
    if site is None:
        return skipped("secret", "site.toml cannot be read")
    if site.shared_test_seed is not None:
        found = (
            "site.toml has shared_test_seed: whoever knows it can repeat this site's episodes and subtract its noise"
        )
        return warn("secret", found, "remove that line, unless this is a test")
    try:
        secret.read(site)
    except FedRLError as error:
        return fail("secret", str(error), "")
    return ok("secret", "32 bytes of this site's own")


def _clients(count: int) -> str:
    return f"{count} client{'s' * (count != 1)}"
