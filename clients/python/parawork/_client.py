import json
import os
import time
import urllib.error
import urllib.request
from typing import Any, Iterator, Optional, Tuple
from urllib.parse import quote

RETRIES = 3
BUSY = {429, 502, 503, 504}


class ParaworkError(Exception):
    """An error of the server. code is stable; the message is for people."""

    def __init__(self, status: int, code: str, message: str, details: Optional[dict] = None, request_id: str = ""):
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.details = details
        self.request_id = request_id


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would take the token to another server."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


class Client:
    def __init__(self, url: Optional[str] = None, token: Optional[str] = None, team: Optional[str] = None):
        self.url = (url or os.environ.get("PARAWORK_URL", "")).rstrip("/")
        self.token = token or os.environ.get("PARAWORK_TOKEN", "")
        self.team = team or os.environ.get("PARAWORK_TEAM", "")
        self.opener = urllib.request.build_opener(_NoRedirect)
        if not self.url:
            raise ValueError("Name the server: the argument url, or PARAWORK_URL.")
        if not self.token:
            raise ValueError("Give an API token: the argument token, or PARAWORK_TOKEN.")

    def team_path(self) -> str:
        if not self.team:
            raise ValueError("Name the team by its slug: the argument team, or PARAWORK_TEAM.")
        return "/teams/" + quote(self.team, safe="")

    def send(self, method: str, path: str, body: Optional[dict] = None, raw: Optional[bytes] = None, accept: str = "application/json",
             again: Optional[bool] = None, timeout: Optional[float] = None, key: Optional[str] = None) -> Any:
        """Returns the open answer. again: the request may be sent twice without harm."""
        again = method != "POST" if again is None else again
        sent = {"Authorization": "Bearer " + self.token, "Accept": accept}
        if key:
            sent["Idempotency-Key"] = key
        if body is not None:
            raw = json.dumps({k: v for k, v in body.items() if v is not None}).encode()
            sent["Content-Type"] = "application/json"
        elif raw is not None:
            sent["Content-Type"] = "application/octet-stream"
        for attempt in range(RETRIES + 1):
            last = not again or attempt == RETRIES
            wait = 0.2 * 2**attempt
            try:
                request = urllib.request.Request(self.url + "/api/v1" + path, data=raw, headers=sent, method=method)
                return self.opener.open(request, timeout=timeout)
            except urllib.error.HTTPError as error:
                with error:
                    if last or error.code not in BUSY:
                        raise _problem(error) from None
                    asked = error.headers.get("Retry-After", "")
                    wait = min(int(asked), 30) if asked.isdigit() else wait
            except OSError:
                if last:
                    raise
            time.sleep(wait)

    def json(self, method: str, path: str, **options: Any) -> Any:
        with self.send(method, path, **options) as answer:
            return json.load(answer)


def _problem(error: urllib.error.HTTPError) -> ParaworkError:
    p: Any = None
    try:
        p = json.load(error)
    except ValueError:
        pass  # it did not come from the server: a proxy, for example
    return _failure(error.code, p)


def _failure(status: int, p: Any) -> ParaworkError:
    p = p if isinstance(p, dict) else {}
    message = p.get("message") or f"The server answered {status}."
    return ParaworkError(status, p.get("code", ""), message, p.get("details"), p.get("request_id", ""))


def events(answer: Any) -> Iterator[Tuple[str, Any]]:
    """The events of an answer of text/event-stream."""
    name, data = "message", []
    for line in answer:
        line = line.decode().rstrip("\r\n")
        if line.startswith("event:"):
            name = line[6:].strip()
        elif line.startswith("data:"):
            data.append(line[5:])
        elif not line:
            if data:
                value = json.loads("\n".join(data))
                if name == "error":
                    raise _failure(0, value)
                yield name, value
            name, data = "message", []
    raise ConnectionError("The connection ended before the answer did.")
