"""`sluice serve`: the pages on which a site reads, questions and overrules Sluice."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.common import (
    DEFAULT_CONFIG,
    VERSION,
    CommandError,
    Files,
    files_options,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.serve.wire import Asked

DEFAULT_LISTEN = "unix:/run/sluice-serve/serve.sock"


@click.command()
@files_options
@click.option(
    "--listen",
    default=DEFAULT_LISTEN,
    show_default=True,
    envvar="SLUICE_SERVE_LISTEN",
    show_envvar=True,
    metavar="WHERE",
    help="unix:PATH, or ADDRESS:PORT on loopback.",
)
@click.option(
    "--socket-group",
    envvar="SLUICE_SERVE_SOCKET_GROUP",
    show_envvar=True,
    metavar="GROUP",
    help="The proxy's group, which may connect.",
)
@click.option(
    "--user-header",
    envvar="SLUICE_SERVE_USER_HEADER",
    show_envvar=True,
    metavar="NAME",
    help="The proxy's header with the user.",
)
@click.option(
    "--trust-loopback",
    is_flag=True,
    envvar="SLUICE_SERVE_TRUST_LOOPBACK",
    show_envvar=True,
    help="Accept it on loopback: any user here can send it.",
)
@click.option(
    "--tokens",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="SLUICE_SERVE_TOKENS",
    show_envvar=True,
    help="A file of users and tokens, mode 600.",
)
@click.option(
    "--operators",
    default="",
    envvar="SLUICE_SERVE_OPERATORS",
    show_envvar=True,
    metavar="USER,…",
    help="Users that may change something.",
)
@click.option(
    "--prefix",
    default="",
    envvar="SLUICE_SERVE_PREFIX",
    show_envvar=True,
    metavar="/PATH",
    help="Path of the pages at the proxy.",
)
def command(
    *,
    listen: str,
    socket_group: str | None,
    user_header: str | None,
    trust_loopback: bool,
    tokens: Path | None,
    operators: str,
    prefix: str,
    files: Files,
) -> None:
    """Serve the pages on which a site reads and questions Sluice.

    \b
    Now       lanes with load and tokens; jobs with I/O, jobs held for I/O
    Jobs      decisions, searchable, each with the explanation of `sluice why`
    Programs  predictions and the runs behind them, doubts, and interference
    Reviews   rules of administrators on predictions; for operators, the audit
    Model     models trained and published; for operators, reports

    Each page is there as JSON (now.json), each table as CSV. It listens only on loopback or a
    Unix socket: the site's web server stands in front and names the user in a header. Without
    one, users log in with tokens. All see what PrivateData permits.

    sluiced answers the pages: run this as user sluice-serve, SlurmUser or root. With --history
    it reads that file itself. It needs python3-flask and python3-waitress.

    \b
    Examples:
        sluice serve --user-header X-Remote-User --socket-group www-data
        (umask 077; echo "ann $(openssl rand -hex 32)" > tokens)
        sluice serve --listen 127.0.0.1:8642 --tokens tokens
        curl --oauth2-bearer "$TOKEN" http://127.0.0.1:8642/now.json
    """
    try:
        from sluice.serve.app import create_app
        from sluice.serve.server import bind, is_unix, serve
    except ModuleNotFoundError as error:
        raise CommandError(
            f"the pages need {error.name}: install python3-flask and python3-waitress, or "
            "`pip install sluice[serve]`"
        ) from error
    from sluice.serve.access import AccessError, Door
    from sluice.slurm.service import leave_at_signals

    if user_header and not (is_unix(listen) or trust_loopback):
        raise CommandError(
            f"{listen}: any user of this machine could send {user_header}; listen on a unix "
            "socket, or say --trust-loopback where only administrators have accounts"
        )
    config = files.config or (DEFAULT_CONFIG if DEFAULT_CONFIG.exists() else None)
    ask = _asker(config, files)
    try:
        door = Door(
            user_header=user_header,
            tokens=tokens,
            operators=frozenset(name for name in operators.split(",") if name),
        )
        listener = bind(listen, socket_group)
    except AccessError as error:
        raise CommandError(str(error)) from error
    click.echo(f"serving at {listen}", err=True)
    leave_at_signals()
    app = create_app(ask, door, version=VERSION, is_secure=is_unix(listen))
    serve(app, listener, prefix=prefix)


def _asker(config: Path | None, files: Files) -> Callable[[Asked], dict[str, Any]]:
    """Return what answers pages: the child of sluiced, or this process for a named history."""
    if files.named_history is None:
        from sluice.serve import wire

        return partial(wire.ask, wire.socket_path(files.settings()))
    from sluice.serve.pages import answer
    from sluice.serve.site import Site

    return partial(answer, Site(config, files.named_history))
