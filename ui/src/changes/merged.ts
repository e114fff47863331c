import { createElement, Fragment, type ReactNode, useEffect, useMemo, useState } from "react";
import type { Reading } from "./diff/reading";
import type { Anchor } from "./diff/rows";
import type { ChangedFile, Comparison, HunkPlace, LineRange } from "./diff/types";
import type { ChangesContext, LineSlot } from "./extension";
import { extensions } from "./extensions";

/** All extensions combined. A new object when any of them changed. */
export interface Merged {
  workspace: string;
  comparison: Comparison;
  slots: ReadonlyMap<string, LineSlot>;
  actsOnLines: boolean;
  lineActions: (at: LineRange) => ReactNode;
  hunkActions: (hunk: HunkPlace) => ReactNode;
  fileActions: (file: ChangedFile) => ReactNode;
  fileMarks: (file: ChangedFile) => ReactNode;
  toolbar: ReactNode;
  foot: ReactNode;
}

/** Calls all extensions and passes their widgets to the reading. */
export function useMerged(reading: Reading, context: ChangesContext): Merged {
  // The list is the same on every render.
  const all = useSame(extensions.map((use) => use(context)));
  const { comparison } = context;
  const workspace = context.workspace.id;
  const merged = useMemo<Merged>(() => {
    const each = <A>(pick: (e: (typeof all)[number]) => ((of: A) => ReactNode) | undefined) => {
      const asked = all.map(pick).filter((f) => f !== undefined);
      return (of: A): ReactNode => (asked.length === 0 ? undefined : together(asked.map((f) => f(of))));
    };
    const slots = new Map<string, LineSlot>();
    for (const e of all) for (const s of e.lineSlots ?? []) slots.set(s.key, s);
    return {
      workspace,
      comparison,
      slots,
      actsOnLines: all.some((e) => e.lineActions),
      lineActions: each((e) => e.lineActions),
      hunkActions: each((e) => e.hunkActions),
      fileActions: each((e) => e.fileActions),
      fileMarks: each((e) => e.fileMarks),
      toolbar: together(all.map((e) => e.toolbar)),
      foot: together(all.map((e) => e.foot)),
    };
  }, [workspace, comparison, all]);
  const { slots } = merged;
  useEffect(() => {
    const anchors = new Map<string, Anchor[]>();
    for (const s of slots.values()) {
      const of = anchors.get(s.path) ?? [];
      of.push({ key: s.key, side: s.side, line: s.line });
      anchors.set(s.path, of);
    }
    reading.setAnchors(anchors);
  }, [reading, slots]);
  const heads = all.some((e) => e.hunkActions) && !context.ignoreSpace;
  useEffect(() => reading.setOptions({ hunkHeads: heads }), [reading, heads]);
  return merged;
}

function together(parts: readonly ReactNode[]): ReactNode {
  const some = parts.filter((p) => p !== undefined && p !== null && p !== false);
  return some.length === 0 ? undefined : some.map((p, i) => createElement(Fragment, { key: i }, p));
}

/** The same list as before while its items are the same. */
function useSame<T>(list: readonly T[]): readonly T[] {
  const [previous, setPrevious] = useState(list);
  const same = previous.length === list.length && previous.every((x, i) => Object.is(x, list[i]));
  if (!same) setPrevious(list);
  return same ? previous : list;
}
