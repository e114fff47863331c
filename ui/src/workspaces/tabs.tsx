import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useEffect, useRef } from "react";
import { count } from "@/format/text";
import { IconButton } from "@/kit/button";
import { cx } from "@/kit/cx";
import { Icon, PATHS } from "@/kit/icon";
import { Shape } from "@/kit/mark";
import { Menu, MenuItem } from "@/kit/menu";
import { AGENT, ARTIFACT, CLOCK, CODE, DIFF, EYE, GLOBE, MERGE } from "@/kit/more-icons";
import { ACTIVE_TAB } from "@/sessions/active-tab";
import { EXTRA, type Extra, MAIN, type Side, type WorkspaceSearch } from "./search";

const NAMES: Record<Side, string> = {
  changes: t`Changes`,
  files: t`Files`,
  merge: t`Checks & merge`,
  timeline: t`Timeline`,
  history: t`History`,
  artifacts: t`Artifacts`,
  code: "Code",
  preview: t`Preview`,
  browser: t`Browser`,
  desktop: t`Desktop`,
};

const ICONS: Record<Side, string> = {
  changes: DIFF,
  files: PATHS.folder,
  merge: MERGE,
  timeline: CLOCK,
  history: CLOCK,
  artifacts: ARTIFACT,
  code: CODE,
  preview: EYE,
  browser: GLOBE,
  desktop: PATHS.machine,
};

const KEYS: Record<Extra, string> = { artifacts: "g l", code: "g x", preview: "g e", browser: "g v", desktop: "g j" };

const TAB =
  "-mb-px flex min-h-9 shrink-0 items-center gap-1.5 border-b-2 border-transparent whitespace-nowrap text-fg2 -outline-offset-2 hover:text-fg aria-[current=page]:border-accent aria-[current=page]:text-fg pointer-coarse:min-h-11";

interface Props {
  /** The view that is open here; none while the agent is in front of everything. */
  side: Side | undefined;
  files: number;
  extras: readonly Extra[];
  /** Where the views lead to. */
  to: (next: Side, before: WorkspaceSearch) => WorkspaceSearch;
  onOpen: (next: Side) => void;
  onClose: (extra: Extra) => void;
  /** Somebody is about to open this one. */
  onNear: (side: Side) => void;
  /** Where there is one pane: the agent's place among the views. */
  agent?: { to: (before: WorkspaceSearch) => WorkspaceSearch; needs: boolean };
  /** At the end. */
  children?: ReactNode;
}

/** The views of a workspace beside its agent. */
export function SideTabs({ side, files, extras, to, onOpen, onClose, onNear, agent, children }: Props) {
  const strip = useRef<HTMLDivElement>(null);
  // The strip may be wider than its pane: the open one is brought into it.
  // biome-ignore lint/correctness/useExhaustiveDependencies: it moves with the tab
  useEffect(() => {
    const open = strip.current?.querySelector<HTMLElement>("[aria-current=page]");
    if (!strip.current || !open) return;
    const s = strip.current.getBoundingClientRect();
    const o = open.getBoundingClientRect();
    if (o.left < s.left || o.right > s.right) strip.current.scrollLeft += o.left - s.left - (s.width - o.width) / 2;
  }, [side]);
  const shown = EXTRA.filter((e) => extras.includes(e));
  const rest = EXTRA.filter((e) => !extras.includes(e));
  const link = (tab: Side) => {
    const current = tab === side || (tab === "timeline" && side === "history");
    return (
      <Link
        key={tab}
        id={current && agent ? ACTIVE_TAB : undefined}
        to="."
        search={(s) => to(tab, s)}
        onPointerEnter={() => onNear(tab)}
        aria-current={current ? "page" : undefined}
        activeOptions={{ exact: true, includeSearch: true }}
        className={TAB}
      >
        <Icon path={ICONS[tab]} size={14} className="text-fg3" />
        {NAMES[tab]}
        {tab === "changes" && files > 0 && <span className="text-fg3 tabular-nums">{count(files)}</span>}
      </Link>
    );
  };
  return (
    <nav
      aria-label={t`Views of the workspace`}
      className="squeezed:hidden flex shrink-0 items-stretch border-b border-hairline bg-bg1 pr-1"
    >
      <div ref={strip} className="flex min-w-0 flex-1 gap-4 overflow-x-auto px-4">
        {agent && (
          <Link
            id={side === undefined ? ACTIVE_TAB : undefined}
            to="."
            search={agent.to}
            aria-current={side === undefined ? "page" : undefined}
            activeOptions={{ exact: true, includeSearch: true }}
            className={TAB}
          >
            <Icon path={AGENT} size={14} className="text-fg3" />
            <Trans>Agent</Trans>
            {agent.needs && side !== undefined && (
              <>
                <Shape kind="needs" />
                <span className="sr-only">
                  <Trans>, needs you</Trans>
                </span>
              </>
            )}
          </Link>
        )}
        {MAIN.map(link)}
        {shown.map((e) => (
          <span key={e} className="flex shrink-0 items-center">
            {link(e)}
            <IconButton
              label={t`Close ${NAMES[e]}`}
              onClick={() => onClose(e)}
              className="h-6! w-6! pointer-coarse:h-11! pointer-coarse:w-11!"
            >
              <Icon name="close" size={12} />
            </IconButton>
          </span>
        ))}
        {rest.length > 0 && (
          <span className="flex shrink-0 items-center">
            <Menu
              align="start"
              trigger={
                <IconButton label={t`More views`} className="h-7! w-7! pointer-coarse:h-11! pointer-coarse:w-11!">
                  <Icon name="plus" size={14} />
                </IconButton>
              }
            >
              {rest.map((e) => (
                <MenuItem
                  key={e}
                  icon={<Icon path={ICONS[e]} className="text-fg3" />}
                  keys={KEYS[e]}
                  onSelect={() => onOpen(e)}
                >
                  {NAMES[e]}
                </MenuItem>
              ))}
            </Menu>
          </span>
        )}
      </div>
      {children && <div className={cx("flex shrink-0 items-center gap-0.5")}>{children}</div>}
    </nav>
  );
}

/** The two halves of what happened: the steps, and what was printed. */
export function TimelineSwitch({ side, to }: { side: "timeline" | "history"; to: Props["to"] }) {
  const half = (tab: "timeline" | "history", label: string) => (
    <Link
      to="."
      search={(s) => to(tab, s)}
      aria-current={tab === side ? "page" : undefined}
      activeOptions={{ exact: true, includeSearch: true }}
      className="flex min-h-6 items-center rounded-sm px-2 text-meta text-fg2 -outline-offset-2 hover:bg-bg2 aria-[current=page]:bg-bg3 aria-[current=page]:text-fg pointer-coarse:min-h-11"
    >
      {label}
    </Link>
  );
  return (
    <nav aria-label={t`What happened`} className="flex shrink-0 gap-1 border-b border-hairline bg-bg0 px-3 py-1">
      {half("timeline", t`Events`)}
      {half("history", t`History`)}
    </nav>
  );
}
