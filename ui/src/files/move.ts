/** What a key asks of a tree: go to another row, open or close this one, or use it. */
export type Move = { to: number } | { open: boolean } | "use" | undefined;

interface Node {
  depth: number;
  kind: string;
  open?: boolean;
}

/** What a key means on a row of a tree, as everywhere: arrows, Home, End, Enter. */
export function treeMove(key: string, rows: readonly Node[], at: number): Move {
  const row = rows[at];
  if (!row) return undefined;
  const to = (i: number): Move => ({ to: Math.min(rows.length - 1, Math.max(0, i)) });
  switch (key) {
    case "ArrowDown":
      return to(at + 1);
    case "ArrowUp":
      return to(at - 1);
    case "Home":
      return to(0);
    case "End":
      return to(rows.length - 1);
    case "ArrowRight":
      if (row.kind !== "folder") return to(at);
      return row.open ? to(at + 1) : { open: true };
    case "ArrowLeft":
      if (row.kind === "folder" && row.open) return { open: false };
      return to(rows.slice(0, at).findLastIndex((r) => r.depth < row.depth));
    case "Enter":
      return "use";
  }
  return undefined;
}
