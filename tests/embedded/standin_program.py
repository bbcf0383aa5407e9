"""Stands in for the server or the host agent: answers /health on WARPLOOM_PORT, or sleeps; tells its environment."""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path


class Health(BaseHTTPRequestHandler):
    """Answers every path with health and with what the process was told."""

    def do_GET(self):
        body = json.dumps({"status": "ok", "schema": 1, "environment": ours()}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *arguments):
        """Stay silent."""


def ours():
    return {name: value for name, value in os.environ.items() if name.startswith("WARPLOOM_")}


def main():
    kind = sys.argv[1]
    if kind == "server":
        HTTPServer((os.environ["WARPLOOM_BIND"], int(os.environ["WARPLOOM_PORT"])), Health).serve_forever()
    elif kind == "host":
        file = Path(os.environ["WARPLOOM_HOME"]) / "run" / "host.environment"
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps(ours()))
        fresh.replace(file)
        threading.Event().wait()
    elif kind == "broken":
        sys.exit("the port of call is closed")


if __name__ == "__main__":
    main()
