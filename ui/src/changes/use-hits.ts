import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { api, data } from "@/api/client";
import type { ReadingView } from "./diff/reading";
import { allLoaded, localHits, MOST_HITS } from "./diff/search";
import type { LineRange } from "./diff/types";
import { fixed } from "./source";

/** How long somebody must have stopped typing before the server is asked, ms. */
const PAUSE = 200;

interface Hits {
  hits: readonly LineRange[];
  more: boolean;
  busy: boolean;
  error: unknown;
}

/** Search hits in the diff: found locally if all lines are loaded, else by the server, which also searches folded files. */
export function useHits(workspaceId: string, view: ReadingView, ignoreSpace: boolean, text: string): Hits {
  const here = allLoaded(view);
  const [asked, setAsked] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setAsked(text), PAUSE);
    return () => clearTimeout(timer);
  }, [text]);
  const c = view.comparison;
  const from = c ? fixed(c.from) : "";
  const to = c ? fixed(c.to) : "";
  const found = useQuery({
    queryKey: ["workspace", workspaceId, "search", from, to, ignoreSpace, asked],
    queryFn: ({ signal }) => {
      const query = { from, to, q: asked, ...(ignoreSpace ? { ignore_space: true } : {}) };
      return data(api.GET("/workspaces/{id}/compare/search", { params: { path: { id: workspaceId }, query }, signal }));
    },
    enabled: !here && asked !== "" && text !== "" && c !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 30_000,
  });
  const local = useMemo(() => (here ? localHits(view, text) : []), [here, view, text]);
  const { files } = view;
  const remote = useMemo(() => {
    const place = new Map(files.map((f, i) => [f.file.path, i]));
    // The page orders files differently than the server.
    return (found.data?.items ?? [])
      .map((h): LineRange => ({ path: h.path, side: h.side, line: h.line, end_line: h.line }))
      .sort((a, b) => (place.get(a.path) ?? 0) - (place.get(b.path) ?? 0));
  }, [found.data, files]);
  if (text === "") return { hits: [], more: false, busy: false, error: undefined };
  if (here) return { hits: local, more: local.length >= MOST_HITS, busy: false, error: undefined };
  return {
    hits: asked === text ? remote : [],
    more: found.data?.truncated ?? false,
    busy: asked !== text || found.isFetching,
    error: asked === text ? found.error : undefined,
  };
}
