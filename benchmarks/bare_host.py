"""The floor's host agent: waits for orders, sends a survey-sized body. Run as `python -m benchmarks.bare_host PORT`."""

import json
import sys
from http.client import HTTPConnection

BODY = json.dumps({"provider": "bare", "cards": [{"uuid": f"GPU-{n}", "used_mib": 400} for n in range(2)]})


def main(port: int) -> None:
    orders, surveys = HTTPConnection("127.0.0.1", port), HTTPConnection("127.0.0.1", port)
    while True:
        orders.request("GET", "/orders")
        orders.getresponse().read()
        surveys.request("POST", "/survey", BODY, {"Content-Type": "application/json"})
        surveys.getresponse().read()


if __name__ == "__main__":
    main(int(sys.argv[1]))
