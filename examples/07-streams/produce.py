"""Somebody clicks: `python produce.py --seconds 10 | rota log append log://$PWD/clicks`."""

import argparse
import json
import random
import time

PAGES = ("/", "/shop", "/basket", "/thanks")


def main() -> None:
    """Print clicks, one for each line."""
    parser = argparse.ArgumentParser(description="Print clicks, one for each line.")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rate", type=int, default=500, help="clicks a second")
    asked = parser.parse_args()
    end = time.monotonic() + asked.seconds
    while time.monotonic() < end:
        for _ in range(max(1, asked.rate // 20)):
            print(json.dumps({"at": time.time(), "page": random.choice(PAGES)}))
        print(end="", flush=True)
        time.sleep(0.05)


if __name__ == "__main__":
    main()
