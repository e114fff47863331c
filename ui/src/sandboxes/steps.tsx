import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import type { Step } from "@/api/client";
import { useNow } from "@/format/now";
import { duration } from "@/format/time";
import { type MarkKind, Shape } from "@/kit/mark";
import { Output } from "@/kit/states";
import type { MakingStep } from "./remote";
import { progressPart, progressWords } from "./remote-words";

const STEP: Record<Step["state"], { mark: MarkKind; word: string }> = {
  pending: { mark: "idle", word: t`Waiting` },
  running: { mark: "running", word: t`In progress` },
  done: { mark: "merged", word: t`Done` },
  failed: { mark: "failed", word: t`Failed` },
  cancelled: { mark: "stopped", word: t`Cancelled` },
  skipped: { mark: "stopped", word: t`Skipped` },
};

/** One named step: its state, how long it took or takes, how progressed it is, what it says. */
export function StepRow({ step: s }: { step: Step | MakingStep }) {
  const now = useNow(1000);
  const time = s.started_at ? (s.ended_at ?? Math.max(now, s.started_at)) - s.started_at : 0;
  const look = STEP[s.state];
  const long = s.detail.includes("\n") || s.detail.length > 120;
  const progressed = "done" in s ? s : undefined;
  const progress = progressed ? progressWords(progressed) : "";
  const part = progressed && s.state === "running" ? progressPart(progressed) : undefined;
  return (
    <li className="border-t border-hairline py-2 first:border-t-0">
      <div className="flex items-baseline gap-2.5">
        <Shape kind={look.mark} className="translate-y-px" />
        <span className="min-w-0 flex-1">
          <span className={s.state === "pending" ? "text-fg3" : ""}>{s.title}</span>
          <span className="sr-only">: {look.word}</span>
          {s.detail && !long && <span className="block text-meta break-words text-fg3">{s.detail}</span>}
        </span>
        {/* Seconds and bytes that count up are for the eye: read aloud they would drown the steps. */}
        <span aria-hidden className="text-meta text-fg3 tabular-nums">
          {progress && <span className="mr-2">{progress}</span>}
          {s.state === "skipped" ? t`not needed` : s.started_at ? duration(time) : ""}
        </span>
      </div>
      {part !== undefined && (
        <div
          role="progressbar"
          aria-label={s.title}
          aria-valuemin={0}
          aria-valuemax={100}
          aria-valuenow={Math.round(part * 100)}
          className="mt-1.5 ml-5 h-1 overflow-hidden rounded-full bg-bg3"
        >
          <div className="h-full rounded-full bg-running" style={{ width: `${part * 100}%` }} />
        </div>
      )}
      {long && (
        <details open={s.state === "failed"} className="pl-5">
          <summary className="w-fit cursor-pointer text-meta text-accent">
            <Trans>Output</Trans>
          </summary>
          <Output text={s.detail} />
        </details>
      )}
    </li>
  );
}
