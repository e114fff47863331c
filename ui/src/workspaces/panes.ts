import { useEffect, useState } from "react";
import { isNumber, recall, remember } from "@/state/remember";
import { type AgentView, asAgentView, asExtra, asSide, type Extra, type Side, type Tab } from "./search";

/** Below this width (px) of the page there is one pane. */
export const TWO_FROM = 960;
const LEAST = 380; // px: neither pane gets smaller

const SHARE = "panes.share";
const ALONE = "panes.alone";
/** The agent's part of the width: the changes need a little more than half. */
const USUAL = 0.44;

const inRange = (share: number, width: number) => {
  const least = Math.min(0.5, LEAST / width);
  return Math.min(1 - least, Math.max(least, share));
};

/** How the width is shared, remembered for this person. */
export function useShare(width: number) {
  const [share, setShare] = useState(() => recall(SHARE, isNumber) ?? USUAL);
  const set = (next: number) => {
    const fits = inRange(next, width);
    setShare(fits);
    remember(SHARE, fits);
  };
  return { share: inRange(share, width), least: inRange(0, width), set, reset: () => set(USUAL) };
}

/** Whether the agent's pane is alone, remembered for this person; or for now the pane beside it. */
export function useAlone() {
  const [alone, set] = useState<"agent" | "side" | undefined>(() =>
    recall(ALONE, (v): v is true => v === true) ? "agent" : undefined,
  );
  const setAlone = (next: typeof alone) => {
    remember(ALONE, next === "agent");
    set(next);
  };
  return [alone, setAlone] as const;
}

/** What the panes of a workspace show. */
export interface Kept {
  view?: AgentView;
  session?: string;
  side: Side;
  extras: Extra[];
}

function keptOf(v: unknown): Kept {
  const k = (typeof v === "object" && v !== null ? v : {}) as Record<string, unknown>;
  const extras = Array.isArray(k.extras) ? k.extras.flatMap((e) => asExtra(e) ?? []) : [];
  return {
    view: asAgentView(k.view),
    session: typeof k.session === "string" ? k.session : undefined,
    side: asSide(k.side) ?? "changes",
    extras: [...new Set(extras)],
  };
}

const isThing = (v: unknown): v is object => typeof v === "object" && v !== null;

/** After an address: what each pane shows. The one the address does not name keeps what it showed. */
export function keep(old: Kept, tab: Tab | undefined, session: string | undefined): Kept {
  const side = asSide(tab);
  if (!side) return { ...old, view: asAgentView(tab), session };
  const extra = asExtra(side);
  return {
    ...old,
    side,
    // The history's session is one to play.
    session: side === "history" ? old.session : (session ?? old.session),
    extras: extra && !old.extras.includes(extra) ? [...old.extras, extra] : old.extras,
  };
}

/** Remembers what the panes of a workspace show, as its address says it. */
export function useKept(workspaceId: string, tab: Tab | undefined, session: string | undefined) {
  const key = `panes.${workspaceId}`;
  const [kept, setKept] = useState(() => keptOf(recall(key, isThing)));
  const now = keep(kept, tab, session);
  const text = JSON.stringify(now);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the text says all of it
  useEffect(() => {
    setKept(now);
    remember(key, now);
  }, [key, text]);
  const close = (extra: Extra) => setKept((old) => ({ ...old, extras: old.extras.filter((e) => e !== extra) }));
  return { kept: now, close };
}
