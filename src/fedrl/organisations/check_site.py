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

PROGRAMS = ("flower-supernode",)
PLACE = "place in the federation"


def items(files: SiteFiles) -> Iterator[Item]:
    public, private = (files.agreement, files.settings, files.ca, files.public_key), (files.key, files.secret)
    yield from check_items.files(public, private, "copy it from the folder that the operator gave you")
    site, agreement = None, None
    try:
        site = sites.read(files.home)
        yield ok("site.toml", f"site {site.name}, {site.clients} client{'s' * (site.clients != 1)}")
    except FedRLError as error:
        yield fail("site.toml", str(error), "")
    try:
        agreement = agreements.read(files.agreement)
        yield ok("federation.toml", check_items.in_short(agreement))
    except FedRLError as error:
        yield fail("federation.toml", str(error), "")
    yield _membership(site, agreement)
    yield key_pair(files)
    yield _secret(site)
    yield dates(files.ca, "ask the operator for the federation's present ca.crt")
    if site is None:
        yield from (skipped(name, "site.toml cannot be read") for name in check_link.NAMES)
    else:
        yield from check_link.items(site.server, files.ca)
    yield from check_items.package_versions(agreement)
    yield check_items.programs(PROGRAMS)
    if site is None or agreement is None or site.name not in agreement.sites:
        yield from (skipped(name, "correct the files above first") for name in check_environment.NAMES)
    else:
        patience = min(check_environment.PATIENCE * site.clients, check_environment.LONGEST)
        yield from check_environment.items(files.home, patience)
    yield check_items.disk(*files.written)
    yield check_items.running(files.home)


def _membership(site: Site | None, agreement: Agreement | None) -> Item:
    if site is None or agreement is None:
        return skipped(PLACE, "site.toml or federation.toml cannot be read")
    try:
        sites.check_membership(site, agreement)
    except FedRLError as error:
        return fail(PLACE, str(error), "")
    own = agreement.clients_of(site.name)
    numbers = f"client {own.start}" if len(own) == 1 else f"clients {own.start} to {own.stop - 1}"
    return ok(PLACE, f"{site.name} is {numbers} of {agreement.num_clients}, counted from 0")


def _secret(site: Site | None) -> Item:
    if site is None:
        return skipped("secret", "site.toml cannot be read")
    if site.shared_test_seed is not None:
        found = (
            "site.toml has shared_test_seed: whoever knows it can repeat this site's episodes and subtract its noise"
        )
        return warn("secret", found, "delete that line, unless this is a test")
    try:
        secret.read(site)
    except FedRLError as error:
        return fail("secret", str(error), "")
    return ok("secret", "32 bytes that only this site has")
