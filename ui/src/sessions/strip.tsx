import { t } from "@lingui/core/macro";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Session } from "@/api/client";
import { cx } from "@/kit/cx";
import { Icon } from "@/kit/icon";
import { Shape } from "@/kit/mark";
import { ACTIVE_TAB } from "./active-tab";
import { isShell, sessionMark } from "./sessions";

const TAB =
  "flex min-h-6 shrink-0 items-center gap-1.5 rounded-sm px-2 text-meta text-fg2 -outline-offset-2 hover:bg-bg2 aria-[current=page]:bg-bg3 aria-[current=page]:text-fg pointer-coarse:min-h-11";

/** What a link of the pane changes of the address. */
export interface PaneLink {
  tab: "terminal" | "conversation" | "shell" | undefined;
  session: string | undefined;
}

/** The name of a session, with a number where its agent runs more than once. */
function nameOf(sessions: readonly Session[], s: Session): string {
  const same = sessions.filter((x) => (isShell(s) ? isShell(x) : x.agent_name === s.agent_name));
  const name = isShell(s) ? t`Shell` : s.agent_name;
  return same.length > 1 || isShell(s) ? `${name} ${same.indexOf(s) + 1}` : name;
}

/** Agents first, then shells, each in the order they were started. */
export const inStrip = (list: readonly Session[]): Session[] =>
  [...list].sort((a, b) => Number(isShell(a)) - Number(isShell(b)) || a.started_at - b.started_at);

/** With many sessions the strip scrolls: the one in front must not be out of sight. */
const bringIntoView = (el: HTMLElement | null): void => el?.scrollIntoView({ block: "nearest", inline: "nearest" });

interface Props {
  /** In the order of the strip. */
  sessions: Session[];
  shown: Session | undefined;
  linkTo: (s: Session) => PaneLink;
  /** The tab in front is where focus goes from a terminal. */
  anchor: boolean;
  children: ReactNode;
}

/** The sessions of a workspace as tabs: its agents, and shells beside them. */
export function SessionStrip({ sessions, shown, linkTo, anchor, children }: Props) {
  return (
    <div className="squeezed:hidden flex min-h-9 shrink-0 items-center gap-1 border-b border-hairline bg-bg1 pr-1 pl-3 pointer-coarse:min-h-11">
      <nav aria-label={t`Sessions`} className="flex min-w-0 flex-1 items-center gap-1 overflow-x-auto py-1">
        {sessions.map((s) => {
          const mark = sessionMark(s);
          const front = s.id === shown?.id;
          return (
            <Link
              key={s.id}
              id={front && anchor ? ACTIVE_TAB : undefined}
              to="."
              search={(x) => ({ ...x, place: undefined, ...linkTo(s) })}
              ref={front ? bringIntoView : undefined}
              aria-current={front ? "page" : undefined}
              activeOptions={{ exact: true, includeSearch: true }}
              title={s.title || s.agent_name}
              className={cx(TAB, "max-w-60")}
            >
              <Shape kind={mark.mark} />
              <span className="truncate">
                {nameOf(sessions, s)}
                {s.title && s.title !== s.agent_name && <span className="text-fg3"> {s.title}</span>}
              </span>
              <span className="sr-only">{mark.word}</span>
            </Link>
          );
        })}
      </nav>
      {children}
    </div>
  );
}

/** The two views of one agent. */
export function ViewSwitch({ on, linkTo }: { on: "terminal" | "conversation"; linkTo: (v: typeof on) => PaneLink }) {
  const view = (v: typeof on, label: string) => (
    <Link
      to="."
      search={(x) => ({ ...x, place: undefined, ...linkTo(v) })}
      aria-current={v === on ? "page" : undefined}
      activeOptions={{ exact: true, includeSearch: true }}
      className={TAB}
    >
      <Icon name={v === "terminal" ? "terminal" : "comment"} size={14} className="text-fg3" />
      {label}
    </Link>
  );
  return (
    <nav aria-label={t`View of the agent`} className="flex shrink-0 items-center border-l border-hairline pl-1">
      {view("terminal", t`Terminal`)}
      {view("conversation", t`Conversation`)}
    </nav>
  );
}
