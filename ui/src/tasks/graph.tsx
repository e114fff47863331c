import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { layers, statusWord, type Task } from "./tasks";

const W = 190;
const H = 44;
const GAP_X = 60;
const GAP_Y = 14;

/** What waits for what, from left to right. */
export default function Graph({ tasks, open }: { tasks: Task[]; open: (t: Task) => void }) {
  const columns = layers(tasks);
  const at = new Map<string, { x: number; y: number }>();
  columns.forEach((column, i) => {
    column.forEach((t, j) => {
      at.set(t.id, { x: i * (W + GAP_X), y: j * (H + GAP_Y) });
    });
  });
  if (at.size === 0)
    return (
      <p className="text-fg2">
        <Trans>No open task waits for another.</Trans>
      </p>
    );
  const rows = Math.max(...columns.map((c) => c.length));
  const width = columns.length * (W + GAP_X);
  const height = rows * (H + GAP_Y);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, also by keys
    <section aria-label={t`Dependencies`} tabIndex={0} className="overflow-auto">
      <div className="relative" style={{ width, height }}>
        <svg width={width} height={height} className="absolute inset-0 text-fg3" aria-hidden>
          <marker id="task-arrow" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6" markerHeight="6" orient="auto">
            <path d="M0,0 L6,3 L0,6 Z" fill="currentColor" />
          </marker>
          {columns.flat().flatMap((t) =>
            t.blocked_by.map((b) => {
              const from = at.get(b);
              const to = at.get(t.id);
              if (!from || !to) return null;
              const [x1, y1, x2, y2] = [from.x + W, from.y + H / 2, to.x, to.y + H / 2];
              return (
                <path
                  key={`${b} ${t.id}`}
                  d={`M${x1},${y1} C${x1 + GAP_X / 2},${y1} ${x2 - GAP_X / 2},${y2} ${x2},${y2}`}
                  fill="none"
                  stroke="currentColor"
                  markerEnd="url(#task-arrow)"
                />
              );
            }),
          )}
        </svg>
        {columns.flat().map((t) => (
          <button
            key={t.uid}
            type="button"
            onClick={() => open(t)}
            className="absolute overflow-hidden rounded-md border border-control bg-bg1 px-2 py-1 text-left hover:bg-bg2"
            style={{ left: at.get(t.id)?.x, top: at.get(t.id)?.y, width: W, height: H }}
          >
            <span className="block truncate">{t.title}</span>
            <span className="block truncate text-meta text-fg3">
              {t.id}, {statusWord(t.status)}
              {t.blocked_by.length > 0 && (
                <span className="sr-only">
                  <Trans>, waits for {t.blocked_by.join(", ")}</Trans>
                </span>
              )}
            </span>
          </button>
        ))}
      </div>
    </section>
  );
}
