"""Runs one benchmark by its name."""

import sys
from collections.abc import Callable

from bench import embedding, gateway, retrieval

BENCHMARKS: dict[str, Callable[[list[str]], int]] = {
    "retrieval": retrieval.main,
    "gateway": gateway.main,
    "embedding": embedding.main,
}


def main() -> int:
    """Run the benchmark named first on the command line; return its exit status."""
    name, options = (sys.argv[1:2] or [""])[0], sys.argv[2:]
    if name not in BENCHMARKS:
        print(f"usage: python -m bench {'|'.join(BENCHMARKS)} [options]", file=sys.stderr)
        return 2
    return BENCHMARKS[name](options)


if __name__ == "__main__":
    sys.exit(main())
