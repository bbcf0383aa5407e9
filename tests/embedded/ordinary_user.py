"""Becomes an ordinary user where it is root, and runs a Postgres and a Valkey through a crash."""

import json
import os
import pwd
import signal
import sys
from pathlib import Path

import redis
import stacks

from warploom.embedded.postgres import Postgres
from warploom.embedded.valkey import Valkey


def become_ordinary():
    if os.geteuid() == 0:
        entry = pwd.getpwnam("nobody")
        os.setgroups([])
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)


def main():
    become_ordinary()
    home = Path(sys.argv[1])
    postgres, valkey = Postgres(home), Valkey(home)
    try:
        stacks.sql(
            postgres.start(), "create table kept (word text)", "insert into kept values ('thread') returning word"
        )
        os.kill(stacks.pid_of(postgres), signal.SIGKILL)
        word = stacks.sql(postgres.start(), "select word from kept")
        pong = redis.Redis.from_url(valkey.start()).ping()
        owner = postgres.data.stat().st_uid
        sys.stdout.write(
            json.dumps({"word": word, "pong": pong, "owner": owner, "user": os.geteuid(), "url": postgres.url})
        )
    finally:
        valkey.stop()
        postgres.stop()


main()
