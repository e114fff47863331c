import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import type { Workspace } from "@/api/client";
import { ApiError } from "@/api/problem";
import { executorsQuery } from "@/api/queries";
import { useStore } from "@/state/store";
import { useTeam } from "@/state/team";
import { clearProblem, fromWords, problems, type ServeProblem } from "./problem";
import { sandboxQuery } from "./queries";
import type { Place, RemoteSandbox } from "./remote";
import { findPlace, livesIn } from "./which";

export interface Watched {
  place: Place | undefined;
  /** The name of the place, for people. */
  name: string;
  sandbox: RemoteSandbox | undefined;
  /** Its place has a disk of its own. */
  remote: boolean;
  /** It is being made, step by step. */
  starting: boolean;
  /** Why its place did not serve, until it does. */
  problem: ServeProblem | undefined;
}

/** A workspace's place and sandbox as they are now. */
export function useWatched(w: Workspace): Watched {
  const team = useTeam();
  const executors = useQuery(executorsQuery(team.slug));
  const place: Place | undefined = findPlace(executors.data, w);
  const query = useQuery(sandboxQuery(w.id, true));
  // A record of another place, or of none by now, says nothing of this one.
  const gone = query.error instanceof ApiError && query.error.status === 404;
  const sandbox: RemoteSandbox | undefined = gone ? undefined : query.data;
  const here = sandbox !== undefined && livesIn(sandbox) === livesIn(w);
  const remote = place?.own_disk ?? (here && sandbox.own_disk);
  const problem = useStore(problems)[w.id];
  const serves = here && (sandbox.state === "running" || sandbox.state === "starting");
  useEffect(() => {
    if (serves) clearProblem(w.id);
  }, [serves, w.id]);
  const failed = remote && here && sandbox.state === "failed" ? fromWords(sandbox.state_reason) : undefined;
  return {
    place,
    name: place?.name ?? (w.runner_name || w.executor),
    sandbox,
    remote,
    starting: remote && sandbox?.state === "starting" && sandbox.steps.length > 0,
    problem: serves ? undefined : (problem ?? failed),
  };
}
