"""``python -m joulesim``."""

import sys

from joulesim.cli import main

sys.exit(main())
