import { Link } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import type { Session } from "@/api/client";
import { count } from "@/format/text";
import { Button } from "@/kit/button";
import { Shape } from "@/kit/mark";
import { ACTIVE_TAB } from "@/sessions/active-tab";
import { hasEnded, isShell } from "@/sessions/sessions";
import { isOwn, terminalTab } from "./first-tab";
import type { Tab } from "./search";

/** The views of a workspace. Leaving a terminal puts the focus on the one that is open. */
export function WorkspaceTabs({
  tab,
  files,
  sessions,
  onNear,
  split,
  shown,
}: {
  tab: Tab;
  files: number;
  sessions: Session[];
  /** The session in front. */
  shown: Session | undefined;
  /** Somebody is about to open this one. */
  onNear: (tab: Tab) => void;
  /** Puts the open view beside the terminal, or takes away the one that is there. */
  split?: { label: string; onClick: () => void };
}) {
  const strip = useRef<HTMLElement>(null);
  // On a phone the strip is wider than the screen: the open one is brought into it.
  // biome-ignore lint/correctness/useExhaustiveDependencies: it moves with the tab
  useEffect(() => {
    const open = strip.current?.querySelector<HTMLElement>("[aria-current=page]");
    if (!strip.current || !open) return;
    const s = strip.current.getBoundingClientRect();
    const o = open.getBoundingClientRect();
    if (o.left < s.left || o.right > s.right) strip.current.scrollLeft += o.left - s.left - (s.width - o.width) / 2;
  }, [tab]);
  const waiting = sessions.some((s) => s.state === "waiting");
  const shells = sessions.filter((s) => isShell(s) && !hasEnded(s)).length;
  const items: { tab: Tab; label: string; after?: React.ReactNode }[] = [
    {
      tab: "terminal",
      label: "Terminal",
      after: waiting && tab !== "terminal" && (
        <>
          <Shape kind="needs" />
          <span className="sr-only">, needs you</span>
        </>
      ),
    },
    { tab: "conversation", label: "Conversation" },
    { tab: "changes", label: "Changes", after: files > 0 && <span className="tabular-nums">{count(files)}</span> },
    { tab: "merge", label: "Merge" },
    { tab: "shell", label: "Shell", after: shells > 0 && <span className="text-fg3">{shells}</span> },
    { tab: "history", label: "History" },
    { tab: "timeline", label: "Timeline" },
    { tab: "artifacts", label: "Artifacts" },
    { tab: "code", label: "Code" },
    { tab: "preview", label: "Preview" },
    { tab: "browser", label: "Browser" },
    { tab: "desktop", label: "Desktop" },
  ];
  return (
    <nav
      ref={strip}
      aria-label="Views of the workspace"
      className="squeezed:hidden flex gap-5 overflow-x-auto border-b border-hairline bg-bg1 px-4"
    >
      {items.map((i) => (
        <Link
          key={i.tab}
          id={i.tab === tab ? ACTIVE_TAB : undefined}
          to="."
          search={(s) => ({
            ...s,
            tab: i.tab === "terminal" ? terminalTab(shown) : i.tab,
            // The two views of one session.
            session: isOwn(shown) && (i.tab === "terminal" || i.tab === "conversation") ? shown.id : undefined,
            file: undefined,
            place: undefined,
            dialog: undefined,
            q: undefined,
            at: undefined,
            when: undefined,
            item: undefined,
          })}
          onPointerEnter={() => onNear(i.tab)}
          aria-current={i.tab === tab ? "page" : undefined}
          activeOptions={{ exact: true, includeSearch: true }}
          className="-mb-px flex min-h-9 items-center gap-1.5 border-b-2 border-transparent whitespace-nowrap text-fg2 -outline-offset-2 hover:text-fg aria-[current=page]:border-accent aria-[current=page]:text-fg pointer-coarse:min-h-11"
        >
          {i.label}
          {i.after}
        </Link>
      ))}
      {split && (
        <Button className="my-auto ml-auto shrink-0" onClick={split.onClick}>
          {split.label}
        </Button>
      )}
    </nav>
  );
}
