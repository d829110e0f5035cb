"""One JSON object a line: what log readers and people with `jq` want."""

import json
import logging
from datetime import UTC, datetime

STANDARD = set(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Time, level, logger, message, whatever was passed as `extra`, and a traceback where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        line = {"at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
                "level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
        line |= {key: value for key, value in record.__dict__.items() if key not in STANDARD and key != "request"}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
