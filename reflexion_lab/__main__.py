"""`python -m reflexion_lab` is `reflexion-lab`."""

import sys

from reflexion_lab.cli import main

sys.exit(main())
