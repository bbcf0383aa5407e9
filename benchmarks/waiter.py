"""A waiter's process: for each ticket on stdin it waits and prints the monotonic time at which it had its lease.

Run as `python -m benchmarks.waiter URL AGENT`, or with `bare` for AGENT to wait on the floor's server.
"""

import sys
import time
from http.client import HTTPConnection
from urllib.parse import urlsplit

from warploom.client.connection import Client
from warploom.domain.callers import Caller


def main(url: str, agent: str) -> None:
    client = Client(url, Caller(session_key=agent, agent=agent))
    address = urlsplit(url)
    bare = HTTPConnection(address.hostname or "", address.port)
    for line in sys.stdin:
        print("waiting", flush=True)
        if agent == "bare":
            bare.request("GET", "/wait")
            bare.getresponse().read()
            lease = "bare"
        else:
            answer = client.wait(line.strip(), 30)
            lease = answer.lease or "none"
        print(f"{time.monotonic_ns()} {lease}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
