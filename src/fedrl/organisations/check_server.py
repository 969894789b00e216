"""What `fedrl federation check` looks at in the folder of the server."""

from collections.abc import Iterator
from pathlib import Path

from fedrl.errors import FedRLError
from fedrl.organisations import agreement as agreements
from fedrl.organisations import check_items, ports, proxy, server_settings
from fedrl.organisations.agreement import Agreement
from fedrl.organisations.check_certificates import authority_key, of_server, registered
from fedrl.organisations.check_items import Item, fail, ok, skipped, warn
from fedrl.organisations.layout import ServerFiles
from fedrl.organisations.model_files import NO_FILES, NotAgreed
from fedrl.organisations.server_settings import ServerSettings
from fedrl.organisations.status import is_held
from fedrl.records import lock

PROGRAMS = ("flower-superlink", "flower-superexec", "flwr-serverapp", "flwr")


def items(files: ServerFiles) -> Iterator[Item]:
    public = (files.agreement, files.settings, files.ca, files.certificate)
    yield from check_items.files(public, (files.key,), "restore it from your backup, or make a new federation")
    settings, agreement = None, None
    try:
        settings = server_settings.read(files)
        yield ok("server.toml", f"sites connect to {settings.address}")
    except FedRLError as error:
        yield fail("server.toml", str(error), "")
    try:
        agreement = agreements.read(files.agreement)
        yield ok("federation.toml", check_items.in_short(agreement))
    except FedRLError as error:
        yield fail("federation.toml", str(error), "")
    yield _method(agreement, files.model)
    yield from of_server(files, settings.address.host if settings else None)
    yield authority_key(files)
    if agreement is None:
        yield skipped("keys of sites", "federation.toml cannot be read")
    else:
        yield from registered(files, list(agreement.sites))
    yield _port(files, settings)
    yield _nginx(settings)
    yield from check_items.package_versions(agreement)
    yield check_items.programs(PROGRAMS)
    yield check_items.disk(*files.written)
    yield check_items.running(files.home)


def _method(agreement: Agreement | None, model: Path) -> Item:
    """Whether the method can be built. It may be somebody else's module, so whatever it raises is a line."""
    if agreement is None:
        return skipped("method", "federation.toml cannot be read")
    try:
        from fedrl.organisations import parts, server_app

        known = parts.of(agreement, model=model)
        algorithm = known.method(known.federation)
        parts.check(algorithm)
        server_app.check_late(agreement, algorithm)
    except NotAgreed as error:
        return fail("method", NO_FILES, error.proposal)
    except FedRLError as error:
        return fail("method", str(error), "correct federation.toml and hand it out, or install what is missing")
    except Exception as error:
        found = f"building it raised {type(error).__name__}: {error}"
        return fail("method", found, "correct federation.toml, or the module it names")
    return ok("method", f"{(agreement.tables['method'] or agreement.tables['recipe'] or {}).get('name')} can be built")


def _nginx(settings: ServerSettings | None) -> Item:
    if settings is not None and not settings.proxy:
        return warn("nginx", "server.toml does without", "delete proxy = false, unless this is a try on one machine")
    try:
        return ok("nginx", proxy.program())
    except FedRLError as error:
        return fail("nginx", str(error), "")


def _port(files: ServerFiles, settings: ServerSettings | None) -> Item:
    if settings is None:
        return skipped("port", "server.toml cannot be read")
    listen = settings.listen
    error = ports.trouble(listen.host, listen.port)
    if error is None:
        return ok("port", f"{listen} is free")
    if not ports.is_taken(error):
        do = "in server.toml, listen on an address of this machine (0.0.0.0 means all); ports below 1024 need root"
        return fail("port", f"this server cannot listen on {listen} ({error.strerror})", do)
    if is_held(files.home):
        return ok(
            "port", f"{listen} is taken by this server itself, which is running (process {lock.owner(files.home)})"
        )
    do = "stop it, or write another port in server.toml, in `address` too, and tell the sites"
    return fail("port", f"{listen} is taken by {ports.holder(listen.port)}", do)
