import time
import uuid
from typing import Any, Callable, Dict, List, Optional
from urllib.parse import quote

from ._client import Client, ParaworkError

ENDED = {"completed", "failed", "timeout", "cancelled"}


class Job:
    """Work that an agent does without a person. info is the job as the API shows it."""

    def __init__(self, client: Client, info: Dict[str, Any]):
        self._client = client
        self.job_id: str = info["id"]
        self.info = info
        self._path = "/jobs/" + quote(self.job_id, safe="")

    @classmethod
    def create(cls, prompt: str, agent: str, *, key: Optional[str] = None, url: Optional[str] = None, token: Optional[str] = None,
               team: Optional[str] = None, **fields: Any) -> "Job":
        """Asks for a job. fields are those of the API, such as project_id, timeout_ms and artifacts.

        A request that is repeated with its key is answered with the first job.
        """
        client = Client(url, token, team)
        body = {"prompt": prompt, "agent": agent, **fields}
        return cls(client, client.json("POST", client.team_path() + "/jobs", body=body, again=True, key=key or uuid.uuid4().hex))

    @classmethod
    def connect(cls, job_id: str, *, url: Optional[str] = None, token: Optional[str] = None) -> "Job":
        client = Client(url, token)
        return cls(client, client.json("GET", "/jobs/" + quote(job_id, safe="")))

    @property
    def status(self) -> str:
        return self.info["status"]

    @property
    def output(self) -> str:
        return self.info["output"]

    @property
    def artifacts(self) -> List[Dict[str, Any]]:
        return self.info["artifacts"]

    def refresh(self) -> "Job":
        self.info = self._client.json("GET", self._path)
        return self

    def wait(self, *, poll: float = 2, on_change: Optional[Callable[["Job"], Any]] = None) -> "Job":
        """Waits until the job has ended, however it did: look at status."""
        shown = None
        while True:
            if on_change and (self.status, self.info["reason"]) != shown:
                shown = (self.status, self.info["reason"])
                on_change(self)
            if self.status in ENDED:
                return self
            time.sleep(poll)
            self.refresh()

    def cancel(self) -> "Job":
        """Cancels the job. What was done stays."""
        self.info = self._client.json("POST", self._path + "/cancel", again=True)
        return self

    def delete(self) -> None:
        """Deletes the job with its artifacts. One that has not ended is cancelled first."""
        self._client.send("DELETE", self._path).close()

    def read(self, name: str) -> bytes:
        """Returns the content of an artifact."""
        for a in self.artifacts:
            if a["name"] == name:
                with self._client.send("GET", "/artifacts/" + quote(a["id"], safe="") + "/content", accept="*/*") as answer:
                    return answer.read()
        raise ParaworkError(404, "artifact_not_found", f"The job left no artifact {name!r}.")
