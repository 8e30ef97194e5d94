"""Start the stand-in: `python -m proxy.demo_upstream [--port 9100] [--json]`."""

import argparse
import asyncio
import ipaddress
import json
import signal
import socket
import sys

from aiohttp import web

from .server import DemoUpstream


def main() -> int:
    """Serve until INT or TERM. Exit status 2 for an address that isn't a loopback one."""
    parser = argparse.ArgumentParser(prog="python -m proxy.demo_upstream", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="loopback address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=9100, help="port to listen on; 0 takes a free one (9100)")
    parser.add_argument("--json", action="store_true", help="print one line of JSON when it serves")
    options = parser.parse_args()
    if not _is_loopback(options.host):
        parser.error("--host: the stand-in listens on loopback addresses only")
    return asyncio.run(_serve(options.host, options.port, as_json=options.json))


async def _serve(host: str, port: int, *, as_json: bool) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    runner = web.AppRunner(DemoUpstream().app(), handler_cancellation=True, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        listening = socket.create_server((host, port), family=_family(host), backlog=512)
    except OSError as why:
        sys.stderr.write(f"demo upstream: {host} port {port}: {why.strerror}\n")
        return 1
    await web.SockSite(runner, listening).start()
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{listening.getsockname()[1]}"
    line = json.dumps({"ready": True, "url": url}) if as_json else f"The stand-in serves at {url}"
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
    await stop.wait()
    await runner.cleanup()
    return 0


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


if __name__ == "__main__":
    sys.exit(main())
