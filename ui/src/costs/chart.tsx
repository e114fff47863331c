import { t } from "@lingui/core/macro";
import { type KeyboardEvent, type PointerEvent, useEffect, useId, useRef, useState } from "react";
import { cx } from "@/kit/cx";
import { barAt, labelled, ticks } from "./scale";

export interface Bar {
  key: string;
  /** Below the bar. */
  short: string;
  /** Read out and shown when the bar is chosen. */
  long: string;
  /** One value for each of the series. */
  values: readonly number[];
  /** It is not over yet: its values grow. */
  open?: boolean;
}

interface Props {
  label: string;
  /** From the bottom up: the first is filled, the second hatched, so that they differ in grey, too. */
  series: readonly string[];
  bars: readonly Bar[];
  /** A value on the axis, and one that is read. */
  axis: (v: number) => string;
  value: (v: number) => string;
  /** The action of Enter or a double click on a bar; its label is shown on a button. */
  open?: { words: (bar: Bar) => string; act: (bar: Bar) => void };
}

const HEIGHT = 220;
const TOP = 8;
const BOTTOM = 22;
const LEFT = 56;

/**
 * An SVG bar chart over time. The chart is one slider: arrows, touch and mouse select a bar, whose values are shown below.
 */
export function BarChart({ label, series, bars, axis, value, open }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const hatch = useId();
  const [chosen, setChosen] = useState<number | undefined>();
  if (bars.length === 0) return null;
  const sums = bars.map((b) => b.values.reduce((a, v) => a + v, 0));
  const lines = ticks(Math.max(...sums));
  const top = Math.max(lines.at(-1) ?? 0, 1);
  const plot = Math.max(width - LEFT, 1);
  const y = (v: number) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - Math.max(v, 0) / top);
  const step = plot / bars.length;
  const gap = Math.min(6, step * 0.22);
  const at = chosen === undefined ? undefined : Math.min(chosen, bars.length - 1);
  const read = at === undefined ? undefined : bars[at];
  const shown = labelled(bars.length, plot);

  const move = (e: PointerEvent<HTMLDivElement>) => {
    const area = e.currentTarget.getBoundingClientRect();
    setChosen(barAt(e.clientX - area.left - LEFT, area.width - LEFT, bars.length));
  };
  const press = (e: KeyboardEvent) => {
    const now = at ?? bars.length - 1;
    const to: Record<string, number> = {
      ArrowRight: at === undefined ? 0 : now + 1,
      ArrowUp: at === undefined ? 0 : now + 1,
      ArrowLeft: at === undefined ? now : now - 1,
      ArrowDown: at === undefined ? now : now - 1,
      Home: 0,
      End: bars.length - 1,
      PageUp: now + 7,
      PageDown: now - 7,
    };
    if (e.key === "Enter" && read && open) open.act(read);
    else if (e.key === "Escape") setChosen(undefined);
    else if (e.key in to) setChosen(Math.min(bars.length - 1, Math.max(0, to[e.key]!)));
    else return;
    e.preventDefault();
  };
  const said = (b: Bar) =>
    `${b.long}${b.open ? t`, so far` : ""}: ${series.map((s, i) => `${s} ${value(b.values[i] ?? 0)}`).join(", ")}`;

  return (
    // Keep the selection while the pointer moves to the button below.
    <div
      role="group"
      onPointerLeave={(e) =>
        e.pointerType === "mouse" && !e.currentTarget.contains(document.activeElement) && setChosen(undefined)
      }
      onBlur={(e) => !e.currentTarget.contains(e.relatedTarget) && setChosen(undefined)}
    >
      <div
        ref={box}
        role="slider"
        tabIndex={0}
        aria-label={label}
        aria-orientation="horizontal"
        aria-valuemin={1}
        aria-valuemax={bars.length}
        aria-valuenow={(at ?? bars.length - 1) + 1}
        aria-valuetext={said(read ?? bars.at(-1)!)}
        onKeyDown={press}
        onPointerMove={move}
        onPointerDown={move}
        onDoubleClick={() => read && open?.act(read)}
        className="touch-pan-y rounded-sm select-none"
      >
        <svg aria-hidden width={width} height={HEIGHT} className="block overflow-visible">
          <defs>
            <pattern id={hatch} width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
              <rect width="5" height="5" className="fill-bg1" />
              <rect width="2.4" height="5" className="fill-review" />
            </pattern>
          </defs>
          {lines.map((v) => (
            <g key={v}>
              <line x1={LEFT} x2={width} y1={y(v)} y2={y(v)} className="stroke-hairline" />
              <text x={LEFT - 8} y={y(v) + 4} textAnchor="end" className="fill-fg2 text-code tabular-nums">
                {axis(v)}
              </text>
            </g>
          ))}
          {at !== undefined && (
            <rect x={LEFT + at * step} y={TOP} width={step} height={HEIGHT - TOP - BOTTOM} className="fill-bg2" />
          )}
          {bars.map((b, i) => (
            <g key={b.key}>
              {b.values.map((v, s) => {
                const below = b.values.slice(0, s).reduce((a, x) => a + x, 0);
                const height = Math.max(y(below) - y(below + v), v > 0 ? 1 : 0);
                return (
                  height > 0 && (
                    <rect
                      key={series[s]}
                      x={LEFT + i * step + gap / 2}
                      width={Math.max(step - gap, 1)}
                      y={y(below) - height}
                      height={height}
                      {...(s === 0 ? {} : { style: { fill: `url(#${hatch})` } })}
                      className={cx(s === 0 ? "fill-running" : "stroke-review", b.open && "opacity-75")}
                    />
                  )
                );
              })}
            </g>
          ))}
          {shown.map((i) => (
            <text
              key={bars[i]!.key}
              x={LEFT + (i + 0.5) * step}
              y={HEIGHT - 6}
              textAnchor="middle"
              className="fill-fg2 text-code tabular-nums"
            >
              {bars[i]!.short}
            </text>
          ))}
        </svg>
      </div>
      <div className="mt-1 flex min-h-7 flex-wrap items-center gap-x-4 gap-y-1" style={{ paddingLeft: LEFT }}>
        {series.map((s, i) => (
          <span key={s} className="inline-flex items-center gap-1.5 whitespace-nowrap">
            <Swatch hatched={i > 0} />
            {s}
            {read && <span className="font-medium tabular-nums">{value(read.values[i] ?? 0)}</span>}
          </span>
        ))}
        {read && (
          <span className="text-fg2">
            {read.long}
            {read.open && t`, so far`}
          </span>
        )}
        {read && open && (
          <button type="button" onClick={() => open.act(read)} className="min-h-6 text-accent hover:underline">
            {open.words(read)}
          </button>
        )}
      </div>
    </div>
  );
}

function Swatch({ hatched }: { hatched: boolean }) {
  return (
    <svg aria-hidden width="12" height="12">
      <rect x=".5" y=".5" width="11" height="11" className={hatched ? "fill-bg1 stroke-review" : "fill-running"} />
      {hatched && <path d="M1 7 7 1M3 11 11 3M8 11 11 8" className="stroke-review" strokeWidth="1.4" />}
    </svg>
  );
}

/** The width of an element, followed as it changes. */
function useWidth(ref: React.RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(800);
  useEffect(() => {
    const el = ref.current;
    if (!el) return;
    const look = () => setWidth(Math.max(Math.floor(el.getBoundingClientRect().width), 120));
    look();
    const watch = new ResizeObserver(look);
    watch.observe(el);
    return () => watch.disconnect();
  }, [ref]);
  return width;
}
