"""Whether servers that are not ours answer.

Run as a program, so that their client libraries stay out of the supervisor.
The address comes by the environment: an argument would show its password to every user of the machine.
"""

import os
import sys

OLDEST_POSTGRES = 15


def probe_database(url: str) -> str:
    """An empty string where the database will do, else what is wrong with it."""
    import psycopg

    try:
        with psycopg.connect(url, connect_timeout=10) as connection:
            major = connection.info.server_version // 10000
    except psycopg.Error as error:
        return " ".join(str(error).split())
    return "" if major >= OLDEST_POSTGRES else f"it is Postgres {major}; Optimize needs {OLDEST_POSTGRES} or newer"


def probe_redis(url: str) -> str:
    """An empty string where the server answers, else what is wrong with it."""
    import redis

    try:
        redis.Redis.from_url(url.replace("redis+socket://", "unix://", 1), socket_connect_timeout=10).ping()
    except (redis.RedisError, ValueError) as error:
        return " ".join(str(error).split())
    return ""


PROBES = {"DATABASE_URL": probe_database, "REDIS_URL": probe_redis}


def main() -> int:
    """Probe the server that the named variable names; print what is wrong."""
    variable = sys.argv[1]
    fault = PROBES[variable](os.environ[variable])
    print(fault)
    return 1 if fault else 0


if __name__ == "__main__":
    sys.exit(main())
