import { useQuery } from "@tanstack/react-query";
import { type ReactNode, Suspense, useState } from "react";
import { commitsQuery } from "@/api/queries";
import type { Comparison } from "@/diff/types";
import { useNow } from "@/format/now";
import { plural, short } from "@/format/text";
import { ago } from "@/format/time";
import { Icon } from "@/kit/icon";
import { Menu, MenuItem, MenuLabel, MenuLine } from "@/kit/menu";

export interface Sides {
  from: string;
  to: string;
}

export const EVERYTHING: Sides = { from: "base", to: "now" };

interface Props {
  workspaceId: string;
  comparison: Comparison;
  onChoose: (sides: Sides) => void;
}

/** The most commits and turns the menu names. */
const MOST = 15;

/** What is compared with what, and the choice of something else. */
export function CompareMenu({ workspaceId, comparison: c, onChoose }: Props) {
  const [used, setUsed] = useState(false);
  const is = (from: string, to: string) => c.from.rev === from && c.to.rev === to;
  const item = (from: string, to: string, label: ReactNode, hint?: ReactNode) => (
    <MenuItem
      key={`${from} ${to}`}
      onSelect={() => onChoose({ from, to })}
      hint={hint}
      icon={is(from, to) ? <Icon name="check" size={12} /> : <span className="w-3" />}
    >
      {label}
    </MenuItem>
  );
  return (
    <Menu
      align="start"
      trigger={
        <button
          type="button"
          onPointerDown={() => setUsed(true)}
          onFocus={() => setUsed(true)}
          className="control-h flex min-w-0 items-center gap-1 rounded-md px-1.5 text-meta text-fg2 hover:bg-bg2 hover:text-fg"
        >
          <span className="sr-only">Compare: </span>
          <span className="max-w-40 truncate">{c.from.label}</span>
          <span aria-hidden>→</span>
          <span className="sr-only">with</span>
          <span className="max-w-40 truncate">{c.to.label}</span>
          <Icon name="chevronDown" size={12} />
        </button>
      }
    >
      <MenuLabel>Compare</MenuLabel>
      {item("base", "now", "All changes")}
      {item("head", "now", "Not committed yet")}
      {item("review", "now", "Since your last review")}
      {/* What still loads here must not take the menu away that is open. */}
      <Suspense>{used && <Steps workspaceId={workspaceId} item={item} />}</Suspense>
    </Menu>
  );
}

interface StepsProps {
  workspaceId: string;
  item: (from: string, to: string, label: ReactNode, hint?: ReactNode) => ReactNode;
}

/** The commits, each with what was before it. */
function Steps({ workspaceId, item }: StepsProps) {
  const now = useNow();
  const commits = useQuery(commitsQuery(workspaceId));
  const list = commits.data ?? [];
  return (
    <>
      {list.length > 0 && (
        <>
          <MenuLine />
          <MenuLabel>A commit</MenuLabel>
          {list
            .slice(0, MOST)
            .map((k) =>
              item(
                `${k.commit}^`,
                k.commit,
                k.subject,
                `${short(k.commit)}, ${ago(k.at, now)}, ${plural(k.files, "file")}`,
              ),
            )}
        </>
      )}
    </>
  );
}
