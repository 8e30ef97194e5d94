#!/usr/bin/env python
"""Django's command line for kbplatform; `./kb manage` calls it inside the right environment."""

import os
import sys


def main() -> None:
    """Run the management command named on the command line."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kbplatform.settings")
    from django.core.management import execute_from_command_line

    from kbplatform.environment import BadSetting

    try:
        execute_from_command_line(sys.argv)
    except BadSetting as error:
        sys.exit(f"kb: {error}")


if __name__ == "__main__":
    main()
