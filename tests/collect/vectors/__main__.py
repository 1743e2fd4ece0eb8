"""Write the shared vectors again: `python -m tests.collect.vectors`, after a change
that is meant.
"""

import json

from tests.collect.vectors.vectors import INTEGERS, VECTORS, integers, made, written

VECTORS.write_text(written(made()), encoding="utf-8")
INTEGERS.write_text(json.dumps(integers()) + "\n", encoding="utf-8")
