"""What `./kb` understands; standard library only, since it is read before anything is installed."""

import argparse
import os
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options of one `./kb` call; prints help or a usage error and exits where argparse does.

    What follows `test` or a management command belongs to pytest or that command, dashes included.
    """
    if arguments[:1] == ["test"] and arguments[1:2] not in (["-h"], ["--help"]):
        return argparse.Namespace(action="test", arguments=arguments[1:])
    return _parser().parse_args(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kb", description="Runs the knowledge platform from this folder.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="up | manage | test")
    _add_up(actions.add_parser("up", help="start everything and keep it running until INT or TERM"))
    manage = actions.add_parser("manage", help="run a management command in the same environment")
    _add_data(manage)
    manage.add_argument("arguments", nargs=argparse.REMAINDER, metavar="COMMAND …", help="`help` lists them")
    test = actions.add_parser("test", help="run the test suite")
    test.add_argument("arguments", nargs=argparse.REMAINDER, metavar="PYTEST-OPTION …")
    return parser


def _add_up(up: argparse.ArgumentParser) -> None:
    environ = os.environ
    port = environ.get("KB_PORT") or environ.get("CLAW_RAG_PORT") or "8000"
    host = environ.get("KB_HOST") or environ.get("CLAW_RAG_HOST") or "127.0.0.1"
    up.add_argument("--port", type=_port, default=port, help="port to serve, 0 for any free one (default: %(default)s)")
    up.add_argument("--host", default=host, help="address to listen on (default: %(default)s)")
    _add_data(up)
    up.add_argument("--json", action="store_true", help="print one line of JSON when ready, and nothing else")
    up.add_argument("--no-demo", action="store_true", help="do not ingest the project's own documents")
    up.add_argument("--no-torch", action="store_true", help="install without torch; needs a built model (KB_MODEL_DIR)")
    up.add_argument("--demo-upstream", action="store_true", help="answer from a stand-in instead of Anthropic's API")


def _add_data(parser: argparse.ArgumentParser) -> None:
    default = Path(os.environ.get("KB_DATA_DIR") or PROJECT / ".data")
    parser.add_argument(
        "--data", type=Path, default=default, metavar="DIR", help="data directory (default: %(default)s)"
    )


def _port(text: str) -> int:
    number = int(text) if text.isdecimal() else -1
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError("use a number from 0 to 65535")
    return number
