"""`fedrl federation init`: what it writes, and what to do next."""

import shlex
from pathlib import Path

import typer

from fedrl.cli import output
from fedrl.organisations import init
from fedrl.organisations.init import Added, Created


def carry_out(
    folder: Path,
    sites: str | None,
    address: str | None,
    listen: str | None,
    environment: str | None,
    *,
    add: str | None,
    renew: bool,
) -> None:
    _check(sites, address, listen, environment, add, renew)
    if renew:
        _say_renewed(folder, f"{init.renew(folder):%Y-%m-%d}")
    elif add is not None:
        _say_added(folder, add, init.add(folder, add, environment))
    elif sites is None or address is None:
        missing = "--sites a,b:3" if sites is None else "--address HOST:PORT"
        raise typer.BadParameter(f"a new federation needs {missing}")
    else:
        _say_created(folder, init.create(folder, sites.split(","), address, listen, environment))


def _check(
    sites: str | None, address: str | None, listen: str | None, environment: str | None, add: str | None, renew: bool
) -> None:
    new = {"--sites": sites, "--address": address, "--listen": listen}
    given = [name for name, value in new.items() if value is not None]
    if add is not None and renew:
        raise typer.BadParameter("--add and --renew are two jobs; say one of them, then the other")
    job = "--add" if add is not None else "--renew"
    if (add is not None or renew) and given:
        raise typer.BadParameter(f"{given[0]} is for a new federation, {job} changes one that is there; drop one")
    if renew and environment is not None:
        raise typer.BadParameter("--environment is for sites, --renew for the server's certificate; drop one")


def _say_created(folder: Path, made: Created) -> None:
    console, names = output.screen(), list(made.sites)
    output.say(console, f"{folder}: ca, server, {', '.join(names)}")
    if made.note:
        output.say(
            console,
            f"{made.note}, so federation.toml has CartPole's [spaces]; `fedrl federation check` at a site prints its own",
            "yellow",
        )
    first = shlex.quote(str(folder / names[0]))
    server = shlex.quote(str(folder / "server"))
    lines = (
        f"1. Agree on {folder / 'server' / 'federation.toml'}; after a change, copy it into the folder of every site.",
        f"2. Hand each site its folder, and nobody else's: it holds a private key ({folder / names[0]} is {names[0]}'s).",
        f"3. Move {folder / 'ca'} to a disk that is not connected; it is needed for `--renew` only.",
        f"4. On the server's machine: fedrl federation check {server} && fedrl federation serve {server}",
        "5. At each site, name its environment in site.toml, then: "
        f"fedrl federation check {first} && fedrl federation join {first}",
    )
    output.say(console, f"\nThe server listens on {made.listen}, sites connect to {made.address}. Next:", "dim")
    for line in lines:
        output.say(console, line, "dim")


def _say_added(folder: Path, name: str, made: Added) -> None:
    console, home = output.screen(), made.files.home
    if made.revoked is not None:
        output.say(console, f"{name}'s old key is revoked and kept as {made.revoked}")
    if made.is_new:
        output.say(console, f"{home}: a new folder with a new key; hand it to the site")
    else:
        output.say(console, f"{home}: a new key; hand the site its site.key and site.pub. The rest of its folder stays")
    if made.is_new and made.revoked is not None:
        output.say(
            console,
            f"If {name} still has its folder, it takes only site.key and site.pub from here: with another secret and no "
            "memory it would be another client.",
            "yellow",
        )
    _say_restart(folder, f"sites/{name}.pub")


def _say_renewed(folder: Path, until: str) -> None:
    new = f"{folder / 'server'}: a new server.crt and server.key, valid until {until}; sites need nothing new"
    output.say(output.screen(), new)
    _say_restart(folder, "server.crt and server.key")


def _say_restart(folder: Path, changed: str) -> None:
    server = shlex.quote(str(folder / "server"))
    console = output.screen()
    output.say(console, f"\nNext:  copy {changed} to the server's folder, if that is on another machine by now,", "dim")
    output.say(console, f"       and stop the server and start it again: fedrl federation serve {server}", "dim")
