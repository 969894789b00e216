"""`fedrl federation …`: real federations, of organisations with environments of their own."""

from pathlib import Path
from typing import Annotated

import typer

from fedrl.cli.interrupts import interrupts_afterwards
from fedrl.cli.options import Json

federation = typer.Typer(rich_markup_mode="markdown")

Server = Annotated[Path, typer.Argument(metavar="DIR/server", help="The server's folder, which `init` made.")]
Site = Annotated[Path, typer.Argument(metavar="DIR/SITE", help="The folder that the site was given.")]
Either = Annotated[Path, typer.Argument(metavar="DIR/…", help="The server's folder, or a site's.")]


@federation.callback(invoke_without_command=True)
def organisations(context: typer.Context) -> None:
    """Train one policy with other organisations, each with environments of its own that never leave.

    Three steps (needs the extra: pip install 'fedrl[flower]'):

    - fedrl federation init wards --sites a,b,c --address fed.example.org:8443

    - fedrl federation serve wards/server    on the server's machine

    - fedrl federation join wards/a    at each organisation, with the folder it was given
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@federation.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write, or a federation that is there.")],
    sites: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="The organisations: a,b:3,c are three sites, of which b has three clients."),
    ] = None,
    address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where sites reach the server; its certificate names HOST.")
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="IP:PORT",
            help="Where the server listens. Default: the address itself if it is an IP address, else on all interfaces.",
        ),
    ] = None,
    environment: Annotated[
        str | None,
        typer.Option(
            metavar="ENV",
            help="What the sites' files begin with: an id of Gymnasium, or module:function. If it can be opened here, its "
            "spaces are filled in. Default: CartPole-v1.",
        ),
    ] = None,
    add: Annotated[
        str | None,
        typer.Option(
            metavar="SITE",
            help="Make the folder of a site that federation.toml lists; if it has a key already, revoke that, make another.",
        ),
    ] = None,
    renew: Annotated[
        bool, typer.Option("--renew", help="Issue the server's certificate again, for two years; needs DIR/ca.")
    ] = False,
) -> None:
    """Write the folders of a federation: one for the server, and one to hand to each site.

    They hold a certificate authority, the server's certificate, a key pair and a secret for each site, and settings to start
    from, which train CartPole-v1 with FedAvg and PPO. Nothing is sent anywhere.

    Examples:

    - fedrl federation init wards --sites a,b,c --address fed.example.org:8443

    - fedrl federation init here --sites a,b --address 127.0.0.1:8443    (to try it on one machine)

    - fedrl federation init wards --add d

    - fedrl federation init wards --renew
    """
    from fedrl.cli.federation_init import carry_out

    carry_out(folder, sites, address, listen, environment, add=add, renew=renew)


@federation.command()
def serve(folder: Server) -> int | None:
    """Run the server of a federation until its rounds are done. After a crash or Ctrl-C the same command continues.

    Starts Flower's SuperLink and a proxy (nginx) in front of it, both with TLS; sites are known by their keys.
    The log, checkpoints, policy and figures are in DIR/server/run.

    Example: fedrl federation serve wards/server
    """
    with interrupts_afterwards():
        from fedrl.organisations.serve import serve as run_server

    return run_server(folder)


@federation.command()
def join(folder: Site) -> int | None:
    """Take part in a federation as a site, until its rounds are done. After a crash or Ctrl-C the same command continues.

    Starts Flower's SuperNode, which connects to the server, and a worker, which has the site's environments; nobody connects
    to this machine. What clients remember stays in DIR/SITE/memory.

    Example: fedrl federation join wards/a
    """
    with interrupts_afterwards():
        from fedrl.organisations.join import join as take_part

    return take_part(folder)


@federation.command()
def check(folder: Either, json: Json = False) -> int | None:
    """Look for everything that would stop the server or a site, before it starts: one line each, with what to do about it.

    Certificates, clocks, ports, versions, imports, spaces, the environment's first steps, disk. The exit code is 1 if
    anything would.

    Examples:

    - fedrl federation check wards/server

    - fedrl federation check wards/a
    """
    from fedrl.organisations.check import check as look

    return look(folder, as_json=json)


@federation.command()
def status(folder: Server, json: Json = False) -> int | None:
    """Say which sites are there, since when, which round it is, and who was left out and why.

    Example: fedrl federation status wards/server
    """
    from fedrl.organisations.status import show

    return show(folder, as_json=json)
