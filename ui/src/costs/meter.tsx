import { cx } from "@/kit/cx";

/** A usage bar with marks at the warning thresholds. Put the figures next to it as text. */
export function Meter({
  percent,
  marks = [],
  className,
}: {
  percent: number;
  marks?: readonly number[];
  className?: string;
}) {
  const color = percent >= 100 ? "bg-failed" : percent >= 80 ? "bg-needs" : "bg-running";
  // Beyond the limit the bar is full and the mark of 100 % moves in.
  const all = Math.max(100, percent);
  return (
    <span aria-hidden className={cx("relative block h-1.5 rounded-full bg-bg3", className)}>
      <span
        className={cx("block h-full rounded-full", color)}
        style={{ width: `${Math.min(100, Math.max(percent > 0 ? 1 : 0, (percent / all) * 100))}%` }}
      />
      {marks
        .filter((m) => m > 0 && m <= all)
        .map((m) => (
          <span
            key={m}
            className="absolute -top-0.5 h-2.5 w-px bg-fg3"
            style={{ left: `calc(${(m / all) * 100}% - 1px)` }}
          />
        ))}
    </span>
  );
}
