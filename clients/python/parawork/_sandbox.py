import base64
import codecs
import math
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Union
from urllib.parse import quote

from ._client import Client, ParaworkError, events

OnText = Optional[Callable[[str], Any]]


@dataclass
class CommandResult:
    stdout: str
    stderr: str
    exit_code: int
    duration_ms: int
    truncated: bool


class CommandExitError(Exception):
    """A command ended with another exit code than 0. It has what the command printed."""

    def __init__(self, result: CommandResult, message: str = ""):
        super().__init__(message or f"The command ended with exit code {result.exit_code}.")
        self.stdout = result.stdout
        self.stderr = result.stderr
        self.exit_code = result.exit_code
        self.duration_ms = result.duration_ms
        self.truncated = result.truncated


class TimeoutError(CommandExitError):
    """A command did not end within its timeout_ms. It has what the command printed."""

    def __init__(self, result: CommandResult):
        super().__init__(result, "The command did not end in time.")


@dataclass
class CodeError:
    name: str
    value: str
    traceback: str


@dataclass
class Port:
    """How to reach a port: send the headers with each request to the url, until they expire."""

    url: str
    host: str
    headers: Dict[str, str]
    expires_at: float  # seconds since 1970


@dataclass
class Logs:
    stdout: str
    stderr: str


@dataclass
class Execution:
    """What code did. Code that failed does not raise: error says what was raised."""

    id: str
    state: str  # ok, failed, interrupted, timed_out, died, lost
    text: Optional[str]  # the value of the last expression
    logs: Logs
    error: Optional[CodeError]
    truncated: bool
    duration_ms: int
    results: List[Dict[str, Any]] = field(default_factory=list)


def _q(path: str) -> str:
    return "?path=" + quote(path, safe="")


class Commands:
    def __init__(self, sandbox: "Sandbox"):
        self._sandbox = sandbox

    def run(self, command: Union[str, List[str]], *, cwd: Optional[str] = None, envs: Optional[Dict[str, str]] = None, timeout_ms: Optional[int] = None,
            stdin: Optional[str] = None, sudo: Optional[bool] = None, on_stdout: OnText = None, on_stderr: OnText = None) -> CommandResult:
        """Runs a command; with sudo as root. Raises CommandExitError when its exit code is not 0."""
        s = self._sandbox
        body = {"command": command, "cwd": cwd, "env": envs, "timeout_ms": timeout_ms, "stdin": stdin, "sudo": sudo}
        if not on_stdout and not on_stderr:
            return _finished(s._client.json("POST", s._path + "/exec", body=body))
        decode = {name: codecs.getincrementaldecoder("utf-8")("replace").decode for name in ("stdout", "stderr")}
        call = {"stdout": on_stdout, "stderr": on_stderr}
        with s._client.send("POST", s._path + "/exec", body=body, accept="text/event-stream") as answer:
            for name, data in events(answer):
                if name == "command":
                    return _finished(data)
                if name in decode:
                    text, then = decode[name](base64.b64decode(data["data"])), call[name]
                    if then and text:
                        then(text)
        raise AssertionError("unreachable")


def _finished(r: Dict[str, Any]) -> CommandResult:
    code = r.get("exit_code")
    result = CommandResult(r["stdout"], r["stderr"], -1 if code is None else code, r["duration_ms"], r["truncated"])
    if r.get("state") == "timed_out":
        raise TimeoutError(result)
    if result.exit_code != 0:
        raise CommandExitError(result)
    return result


class Files:
    def __init__(self, sandbox: "Sandbox"):
        self._sandbox = sandbox

    def read(self, path: str, format: str = "text") -> Union[str, bytes]:
        """Returns the text of a file; its bytes with format="bytes"."""
        s = self._sandbox
        with s._client.send("GET", s._path + "/files" + _q(path), accept="*/*") as answer:
            data = answer.read()
        return data if format == "bytes" else data.decode()

    def write(self, path: str, data: Union[str, bytes]) -> None:
        s = self._sandbox
        s._client.send("PUT", s._path + "/files" + _q(path), raw=data.encode() if isinstance(data, str) else data).close()

    def list(self, path: str = "") -> "List[Dict[str, Any]]":
        s = self._sandbox
        return s._client.json("GET", s._path + "/files/list" + (_q(path) if path else ""))["items"]

    def remove(self, path: str) -> None:
        """Removes a file, or a folder with everything in it."""
        s = self._sandbox
        s._client.send("DELETE", s._path + "/files" + _q(path) + "&recursive=true").close()

    def exists(self, path: str) -> bool:
        s = self._sandbox
        try:
            s._client.json("GET", s._path + "/files/stat" + _q(path))
            return True
        except ParaworkError as error:
            if error.status == 404 or error.code == "not_a_directory":  # a part of the path may be a file
                return False
            raise


class Sandbox:
    """A sandbox of a Parawork server. In a with statement, it ends at the end."""

    def __init__(self, client: Client, info: Dict[str, Any]):
        self._client = client
        self.sandbox_id: str = info["id"]
        self.info = info
        self._path = "/sandboxes/" + quote(self.sandbox_id, safe="")
        self.commands = Commands(self)
        self.files = Files(self)

    @classmethod
    def create(cls, *, key: Optional[str] = None, purpose: str = "execution", executor: Optional[str] = None, image: Optional[str] = None,
               network: Optional[Dict[str, Any]] = None, replace: bool = False, timeout_ms: Optional[int] = None,
               url: Optional[str] = None, token: Optional[str] = None, team: Optional[str] = None) -> "Sandbox":
        """Makes a sandbox, or finds your live one with the same key and purpose. It ends when nobody used it for timeout_ms.

        network is {"mode": "open", "allow" or "none", "allow": [hosts]}: never more than the team's sandboxes reach. A live one with another image
        or network is an error, unless replace is true: then it ends first.
        """
        client = Client(url, token, team)
        body = {"key": key, "purpose": purpose, "executor": executor, "image": image, "network": network, "replace": replace, "idle_seconds": None if timeout_ms is None else math.ceil(timeout_ms / 1000)}
        again = key is not None  # a second request finds what the first one made
        return cls(client, client.json("POST", client.team_path() + "/sandboxes", body=body, again=again))

    @classmethod
    def connect(cls, sandbox_id: str, *, url: Optional[str] = None, token: Optional[str] = None) -> "Sandbox":
        client = Client(url, token)
        return cls(client, client.json("GET", "/sandboxes/" + quote(sandbox_id, safe="")))

    @classmethod
    def list(cls, *, url: Optional[str] = None, token: Optional[str] = None, team: Optional[str] = None) -> "List[Dict[str, Any]]":
        client, found, query = Client(url, token, team), [], ""
        while True:
            page = client.json("GET", client.team_path() + "/sandboxes" + query)
            found += page["items"]
            if not page["next_cursor"]:
                return found
            query = "?cursor=" + quote(page["next_cursor"], safe="")

    def run_code(self, code: str, *, language: str = "python", kernel: Optional[str] = None, timeout_ms: Optional[int] = None, on_stdout: OnText = None,
                 on_stderr: OnText = None, on_result: Optional[Callable[[Dict[str, Any]], Any]] = None) -> Execution:
        body = {"language": language, "code": code, "kernel": kernel, "timeout_ms": timeout_ms}
        with self._client.send("POST", self._path + "/code", body=body, accept="text/event-stream") as answer:
            for name, data in events(answer):
                if name == "stdout" and on_stdout:
                    on_stdout(data["text"])
                elif name == "stderr" and on_stderr:
                    on_stderr(data["text"])
                elif name == "result" and on_result:
                    on_result(data)
                elif name == "run":
                    return _execution(data)
        raise AssertionError("unreachable")

    def get_port(self, port: int) -> Port:
        p = self._client.json("GET", f"{self._path}/ports/{port}")
        return Port(p["url"], p["host"], p["headers"], p["expires_at"] / 1000)

    def get_host(self, port: int) -> str:
        """The host of get_port, whose headers it takes to reach it."""
        return self.get_port(port).host

    def set_timeout(self, ms: int) -> None:
        """Lets the sandbox live at least so long from now. It never shortens."""
        self.info = self._client.json("POST", self._path + "/extend", body={"seconds": math.ceil(ms / 1000)}, again=True)

    def kill(self) -> bool:
        """Ends the sandbox. Returns whether it existed."""
        try:
            self._client.send("DELETE", self._path).close()
            return True
        except ParaworkError as error:
            if error.status == 404:
                return False
            raise

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_: Any) -> None:
        self.kill()


def _execution(run: Dict[str, Any]) -> Execution:
    text = next((r.get("data") for r in run["results"] if r["main"] and r["mime"] == "text/plain"), None)
    error = run["error"] and CodeError(run["error"]["name"], run["error"]["value"], run["error"]["traceback"])
    return Execution(run["id"], run["state"], text, Logs(run["stdout"], run["stderr"]), error or None, run["truncated"], run["duration_ms"], run["results"])
