import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import type { Schemas } from "@/api/client";
import { memory } from "@/format/size";
import { count } from "@/format/text";
import { cx } from "@/kit/cx";
import { whole } from "./words";

type Sandbox = Schemas["Sandbox"];

/** A figure near its limit is worth a look before it is reached. */
const NEAR = 0.9;

interface MeterProps {
  label: string;
  value: string;
  /** Part of the limit in use, 0 to 1; undefined without a limit. */
  part?: number;
  limit?: string;
}

function Meter({ label, value, part, limit }: MeterProps) {
  const near = part !== undefined && part >= NEAR;
  return (
    <div className="min-w-0">
      <dt className="text-meta text-fg3">{label}</dt>
      <dd>
        <span className={cx("tabular-nums", near && "font-medium text-needs")}>{value}</span>
        {limit && (
          <span className="text-fg3">
            {" "}
            <Trans>of {limit}</Trans>
          </span>
        )}
        {near && (
          <span className="text-meta text-needs">
            <Trans>, near its limit</Trans>
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

/** What a sandbox uses now, beside what it may use. */
export function Meters({ sandbox: s }: { sandbox: Sandbox }) {
  const u = s.usage;
  const l = whole(s.limits);
  const cores = u.cpu_percent / 100;
  const share = (used: number, most: number) => (most > 0 ? used / most : undefined);
  return (
    <dl className="grid grid-cols-2 gap-x-6 gap-y-3 sm:grid-cols-4">
      <Meter
        label="CPU"
        value={`${Math.round(u.cpu_percent)} %`}
        part={share(cores, l.cpus)}
        limit={l.cpus > 0 ? `${count(l.cpus * 100)} %` : undefined}
      />
      <Meter
        label={t`Memory`}
        value={memory(u.memory_bytes)}
        part={share(u.memory_bytes, l.memory_mb * 2 ** 20)}
        limit={l.memory_mb > 0 ? memory(l.memory_mb * 2 ** 20) : undefined}
      />
      <Meter
        label={t`Processes`}
        value={count(u.processes)}
        part={share(u.processes, l.processes)}
        limit={l.processes > 0 ? count(l.processes) : undefined}
      />
      <Meter
        label={t`Disk`}
        value={
          u.disk_bytes === null
            ? t`not measured yet`
            : u.disk_at_least
              ? t`over ${memory(u.disk_bytes)}`
              : memory(u.disk_bytes)
        }
        part={share(u.disk_bytes ?? 0, l.disk_mb * 2 ** 20)}
        limit={l.disk_mb > 0 ? memory(l.disk_mb * 2 ** 20) : undefined}
      />
    </dl>
  );
}

/** The same in one line for the head of a workspace: only what is at work. */
export function usageLine(s: Sandbox): string {
  const most = whole(s.limits).memory_mb;
  const used = memory(s.usage.memory_bytes);
  return `${Math.round(s.usage.cpu_percent)} % CPU, ${most > 0 ? t`${used} of ${memory(most * 2 ** 20)}` : used}`;
}
