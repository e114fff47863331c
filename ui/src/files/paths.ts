import { t } from "@lingui/core/macro";
import { useEffect, useState } from "react";
import { apiUrl } from "@/api/client";
import { ApiError } from "@/api/problem";
import type { PathsAnswer, PathsAsk } from "./paths.worker";

export type FoundPaths = Omit<PathsAnswer, "id" | "failed"> & { typed: string };

let worker: Worker | undefined;
let asks = 0;
const waiting = new Map<number, { done: (a: PathsAnswer) => void; failed: (e: unknown) => void }>();

function start(): Worker {
  const w = new Worker(new URL("./paths.worker.ts", import.meta.url), { type: "module" });
  w.onmessage = (m: MessageEvent<PathsAnswer>) => {
    waiting.get(m.data.id)?.done(m.data);
    waiting.delete(m.data.id);
  };
  w.onerror = () => {
    for (const { failed } of waiting.values())
      failed(new Error(t`The list of files could not be searched. Reload the page.`));
    waiting.clear();
    worker = undefined;
  };
  return w;
}

/** The paths of a workspace that fit what was typed best. With whole, each word is in them as it is. */
export function findPaths(workspace: string, typed: string, most: number, whole = false): Promise<FoundPaths> {
  worker ??= start();
  const id = ++asks;
  return new Promise((resolve, reject) => {
    waiting.set(id, {
      done: (a) => (a.failed ? reject(problem(a.failed)) : resolve({ ...a, typed })),
      failed: reject,
    });
    const url = apiUrl(`/workspaces/${encodeURIComponent(workspace)}/paths`);
    worker?.postMessage({ id, url, typed, most, whole } satisfies PathsAsk);
  });
}

function problem({ status, body }: { status: number; body: string }): ApiError {
  try {
    const p = JSON.parse(body) as { code?: string; message?: string; detail?: string; request_id?: string };
    return new ApiError(status, {
      code: p.code ?? "",
      message: p.detail ?? p.message ?? "",
      request_id: p.request_id ?? "",
    });
  } catch {
    return new ApiError(status, { code: "network", message: t`The server cannot be reached.`, request_id: "" });
  }
}

interface Finding {
  found?: FoundPaths;
  error?: unknown;
  /** What is shown is of what was typed before. */
  late: boolean;
}

/** Finds paths while someone types. Nothing is searched while nothing is typed. */
export function usePaths(workspace: string | undefined, typed: string, most: number, whole = false): Finding {
  const [state, setState] = useState<{ found?: FoundPaths; error?: unknown }>({});
  const wanted = typed.trim();
  useEffect(() => {
    if (!workspace || !wanted) {
      setState({});
      return;
    }
    let here = true;
    findPaths(workspace, wanted, most, whole).then(
      (found) => here && setState({ found }),
      (error) => here && setState({ error }),
    );
    return () => {
      here = false;
    };
  }, [workspace, wanted, most, whole]);
  return { ...state, late: Boolean(wanted) && state.found?.typed !== wanted && !state.error };
}
