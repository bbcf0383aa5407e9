"""One torture run, told line by line."""

import random
import sys


def main(arguments: list[str]) -> int:
    """Run it; 1 when anything was wrong."""
    from torture.run import run_torture
    from torture.world import Plan

    handovers = int(arguments[0]) if arguments else 300
    seed = int(arguments[1]) if len(arguments) > 1 else random.randrange(10**6)
    verdict = run_torture(Plan(seed, handovers), lambda line: print(line, flush=True))
    return 0 if verdict.is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
