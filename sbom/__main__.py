"""The supply chain: `python -m sbom bill | licences | scan`, run by make."""

from __future__ import annotations

import sys
from pathlib import Path

from sbom.bill import write_bill
from sbom.licences import check_licences
from sbom.scan import check_vulnerabilities

COMMANDS = {"bill": write_bill, "licences": check_licences, "scan": check_vulnerabilities}


def main() -> int:
    """Run the command that was named, and give its exit code."""
    if len(sys.argv) != 2 or sys.argv[1] not in COMMANDS:
        print(f"usage: python -m sbom {' | '.join(COMMANDS)}", file=sys.stderr)
        return 2
    return COMMANDS[sys.argv[1]](Path(__file__).resolve().parent.parent)


if __name__ == "__main__":
    sys.exit(main())
