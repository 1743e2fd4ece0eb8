"""Every benchmark, each in a process of its own: `python -m bench [NAME…]`."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import bench

NO_BENCHMARKS = {"__main__", "hdg", "svsm"}  # the runner, and peers that are measured against


def main(names: list[str]) -> int:
    """Run the named benchmarks, all of them by default; the worst exit code."""
    modules = (module.name for module in pkgutil.iter_modules(bench.__path__))
    known = [name for name in modules if name not in NO_BENCHMARKS]
    strange = [name for name in names if name not in known]
    if strange:
        print(f"no benchmark '{strange[0]}' ({', '.join(known)})", file=sys.stderr)
        return 2
    codes = []
    for name in names or known:
        print(f"== {name}", flush=True)
        codes.append(
            subprocess.run([sys.executable, "-m", f"bench.{name}"], check=False).returncode
        )
    return max(codes, default=0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
