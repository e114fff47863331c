import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { type ReactNode, Suspense, useState } from "react";
import type { Workspace } from "@/api/client";
import { commitsQuery } from "@/api/queries";
import { useNow } from "@/format/now";
import { short, visible } from "@/format/text";
import { ago } from "@/format/time";
import { useAction } from "@/keys/keyboard";
import { Icon } from "@/kit/icon";
import { Menu, MenuItem, MenuLabel, MenuLine } from "@/kit/menu";
import { lazy } from "@/kit/part";
import type { Comparison } from "./diff/types";
import { reviewsQuery } from "./review/data";
import { MERGED, type Sides } from "./sides";
import { statesQuery } from "./states";

const CompareDialog = lazy(() => import("./compare-dialog"));

interface Props {
  workspace: Workspace;
  comparison: Comparison;
  onChoose: (sides: Sides) => void;
}

/** The most commits and turns the menu names: all of them are in the dialog. */
const MOST = 6;

/** Shows the compared states and lets the user choose others. */
export function CompareMenu({ workspace: w, comparison: c, onChoose }: Props) {
  const [used, setUsed] = useState(false);
  const [dialog, setDialog] = useState(false);
  useAction("diff.compare", () => setDialog(true));
  const is = (from: string, to: string) => c.from.rev === from && c.to.rev === to;
  const item = (from: string, to: string, label: ReactNode, hint?: ReactNode, disabled?: boolean) => (
    <MenuItem
      key={`${from} ${to}`}
      onSelect={() => onChoose({ from, to })}
      hint={hint}
      disabled={disabled}
      icon={is(from, to) ? <Icon name="check" size={12} /> : <span className="w-3" />}
    >
      {label}
    </MenuItem>
  );
  return (
    <>
      <Menu
        align="start"
        trigger={
          <button
            type="button"
            onPointerDown={() => setUsed(true)}
            onFocus={() => setUsed(true)}
            className="control-h flex min-w-0 items-center gap-1 rounded-md px-1.5 text-meta text-fg2 hover:bg-bg2 hover:text-fg"
          >
            <span className="sr-only">
              <Trans>Compare:</Trans>{" "}
            </span>
            <span className="max-w-40 truncate">{visible(c.from.label)}</span>
            <span aria-hidden>→</span>
            <span className="sr-only">
              <Trans>with</Trans>
            </span>
            <span className="max-w-40 truncate">{visible(c.to.label)}</span>
            <Icon name="chevronDown" size={12} />
          </button>
        }
      >
        <MenuLabel>
          <Trans>Compare</Trans>
        </MenuLabel>
        {item("base", "now", t`All changes`)}
        {item("head", "now", t`Uncommitted changes`)}
        {/* What still loads here must not take the menu away that is open. */}
        <Suspense>{used && <Steps workspace={w} item={item} />}</Suspense>
        <MenuLine />
        <MenuItem
          onSelect={() => setDialog(true)}
          keys="d"
          icon={<span className="w-3" />}
          hint={t`Any two commits, turns or snapshots`}
        >
          <Trans>Choose both sides…</Trans>
        </MenuItem>
      </Menu>
      <Suspense>
        {dialog && (
          <CompareDialog
            workspace={w}
            start={{ from: c.from.rev, to: c.to.rev }}
            onChoose={(sides) => {
              setDialog(false);
              onChoose(sides);
            }}
            onClose={() => setDialog(false)}
          />
        )}
      </Suspense>
    </>
  );
}

interface StepsProps {
  workspace: Workspace;
  item: (from: string, to: string, label: ReactNode, hint?: ReactNode, disabled?: boolean) => ReactNode;
}

/** The user's last review, the merge, and the newest commits and turns, each compared with the state before it. */
function Steps({ workspace: w, item }: StepsProps) {
  const now = useNow();
  const reviews = useQuery(reviewsQuery(w.id));
  const commits = useQuery(commitsQuery(w.id));
  const states = useInfiniteQuery(statesQuery(w.id, false));
  const sent = reviews.data?.items.some((r) => r.mine && r.sent_at && r.state !== "cancelled");
  const turns = (states.data?.pages[0]?.snapshots ?? []).filter((s) => s.kind === "turn").slice(0, MOST);
  const list = (commits.data ?? []).slice(0, MOST);
  return (
    <>
      {item(
        "review",
        "now",
        t`Since your last review`,
        sent === false ? t`You have not sent a review yet` : undefined,
        sent === false,
      )}
      {w.merged_commit &&
        item(MERGED.from, MERGED.to, t`What was merged`, w.merged_at ? ago(w.merged_at, now) : undefined)}
      {turns.length > 0 && (
        <>
          <MenuLine />
          <MenuLabel>
            <Trans>A turn of an agent</Trans>
          </MenuLabel>
          {turns.map((s) =>
            item(
              `${s.id}^`,
              s.id,
              visible(s.title) || t`A turn`,
              `${ago(s.at, now)}, ${plural(s.files, { one: "# file", other: "# files" })}`,
            ),
          )}
        </>
      )}
      {list.length > 0 && (
        <>
          <MenuLine />
          <MenuLabel>
            <Trans>A commit</Trans>
          </MenuLabel>
          {list.map((k) =>
            item(
              `${k.commit}^`,
              k.commit,
              visible(k.subject),
              `${short(k.commit)}, ${ago(k.at, now)}, ${plural(k.files, { one: "# file", other: "# files" })}`,
            ),
          )}
        </>
      )}
    </>
  );
}
