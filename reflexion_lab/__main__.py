"""`python -m reflexion_lab` is `reflexion-lab`."""

import sys

from reflexion_lab.cli.main import main

sys.exit(main())
