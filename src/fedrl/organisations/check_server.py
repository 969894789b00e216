"""What `fedrl federation check` looks at in the folder of the server."""

from collections.abc import Iterator

from fedrl.errors import FedRLError
from fedrl.organisations import addresses, check_items, init, ports, proxy, tables
from fedrl.organisations import agreement as agreements
from fedrl.organisations.agreement import Agreement
from fedrl.organisations.check_certificates import authority_key, of_server, registered
from fedrl.organisations.check_items import Item, fail, ok, skipped
from fedrl.organisations.layout import ServerFiles
from fedrl.organisations.status import is_held
from fedrl.records import lock

PROGRAMS = ("flower-superlink", "flower-superexec", "flwr-serverapp", "flwr")


def items(files: ServerFiles) -> Iterator[Item]:
    public = (files.agreement, files.settings, files.ca, files.certificate)
    yield from check_items.files(public, (files.key,), "restore it from your backup, or make a new federation")
    try:
        yield ok("server.toml", f"sites connect to {init.server_address(files)}")
    except FedRLError as error:
        yield fail("server.toml", str(error), "")
    agreement = None
    try:
        agreement = agreements.read(files.agreement)
        text = f"{agreement.name}: {agreement.rounds} rounds, {agreement.num_clients} clients at {len(agreement.sites)} sites"
        yield ok("federation.toml", f"{text}; digest {agreement.digest[:12]}, the same at every site")
    except FedRLError as error:
        yield fail("federation.toml", str(error), "")
    yield _method(agreement)
    yield from of_server(files)
    yield authority_key(files)
    if agreement is None:
        yield skipped("keys of sites", "federation.toml cannot be read")
    else:
        yield from registered(files, list(agreement.sites))
    yield _port(files)
    try:
        yield ok("nginx", proxy.program())
    except FedRLError as error:
        yield fail("nginx", str(error), "")
    yield from check_items.package_versions(agreement.versions if agreement else {})
    yield check_items.programs(PROGRAMS)
    yield check_items.disk(files.home)
    yield check_items.in_use(files.home, "served")


def _method(agreement: Agreement | None) -> Item:
    """Whether the method can be built. It may be somebody else's module, so whatever it raises is a line."""
    if agreement is None:
        return skipped("method", "federation.toml cannot be read")
    try:
        from fedrl.organisations import parts

        known = parts.of(agreement)
        parts.check(known.method(known.federation))
    except FedRLError as error:
        return fail("method", str(error), "")
    except Exception as error:
        return fail(
            "method", f"building it raised {type(error).__name__}: {error}", "correct federation.toml or that module"
        )
    return ok("method", f"{(agreement.tables['method'] or agreement.tables['recipe'] or {}).get('name')} can be built")


def _port(files: ServerFiles) -> Item:
    try:
        listen = addresses.parse_listen(str(tables.read(files.settings).get("listen", "")), f"{files.settings}: listen")
    except FedRLError as error:
        return fail("port", str(error), "")
    error = ports.trouble(listen.host, listen.port)
    if error is None:
        return ok("port", f"{listen} is free")
    if not ports.is_taken(error):
        do = "listen on an address of this machine (0.0.0.0 is all), and on a port above 1023 without root's rights"
        return fail("port", f"nobody can listen on {listen} ({error.strerror})", do)
    if is_held(files.home):
        return ok("port", f"{listen} is taken by this server itself, which runs (process {lock.owner(files.home)})")
    do = "end it, or write another port in server.toml, also in `address`, and tell the sites"
    return fail("port", f"{listen} is taken by {ports.holder(listen.port)}", do)
