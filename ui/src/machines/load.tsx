import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { mb } from "@/format/size";
import { cx } from "@/kit/cx";
import type { Machine } from "./api";

/** A figure this near its end is worth a look. */
const NEAR = 0.9;

/** How busy a machine is, as it tells each ten seconds. */
export function Load({ machine: m }: { machine: Machine }) {
  const l = m.load;
  const most = m.limits.sandboxes;
  return (
    <section aria-labelledby="machine-load">
      <h2 id="machine-load" className="mb-1 text-title font-semibold">
        <Trans>Now</Trans>
      </h2>
      <dl className="grid grid-cols-2 gap-x-6 gap-y-3 sm:grid-cols-4">
        <Figure label="CPU" value={`${Math.round(l.cpu * 100)} %`} part={l.cpu} />
        <Figure
          label={t`Memory`}
          value={mb(l.memory_used_mb)}
          of={m.memory_mb > 0 ? mb(m.memory_mb) : undefined}
          part={m.memory_mb > 0 ? l.memory_used_mb / m.memory_mb : undefined}
        />
        <Figure label={t`Disk free`} value={l.disk_free_mb > 0 ? mb(l.disk_free_mb) : t`not known`} />
        <Figure
          label={t`Running`}
          value={plural(l.sandboxes, { one: "# workspace", other: "# workspaces" })}
          of={most > 0 ? String(most) : undefined}
          part={most > 0 ? l.sandboxes / most : undefined}
        />
      </dl>
    </section>
  );
}

function Figure({ label, value, of, part }: { label: string; value: string; of?: string; part?: number }) {
  const near = part !== undefined && part >= NEAR;
  return (
    <div className="min-w-0">
      <dt className="text-meta text-fg3">{label}</dt>
      <dd>
        <span className={cx("tabular-nums", near && "font-medium text-needs")}>{value}</span>
        {of && (
          <span className="text-fg3">
            {" "}
            <Trans>of {of}</Trans>
          </span>
        )}
        {near && (
          <span className="text-meta text-needs">
            <Trans>, nearly full</Trans>
          </span>
        )}
        {part !== undefined && (
          <span aria-hidden className="mt-1 block h-1 overflow-hidden rounded-full bg-bg3">
            <span
              className={cx("block h-full rounded-full", near ? "bg-needs" : "bg-running")}
              style={{ width: `${Math.min(100, Math.max(part > 0 ? 2 : 0, part * 100))}%` }}
            />
          </span>
        )}
      </dd>
    </div>
  );
}
