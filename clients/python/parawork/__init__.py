"""A client of the sandboxes and jobs of a Parawork server, in the shape of E2B's. It needs the standard library only."""

from ._client import ParaworkError
from ._job import Job
from ._sandbox import CodeError, CommandExitError, CommandResult, Execution, Logs, Port, Sandbox, TimeoutError

__all__ = ["CodeError", "CommandExitError", "CommandResult", "Execution", "Job", "Logs", "ParaworkError", "Port", "Sandbox", "TimeoutError"]
