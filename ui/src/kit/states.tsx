import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import type { ReactNode } from "react";
import { tell } from "@/api/problem";
import { toast } from "@/state/toasts";
import { Button } from "./button";
import { FORM_ERROR } from "./classes";
import { cx } from "./cx";
import { Icon } from "./icon";

interface EmptyProps {
  title: string;
  children?: ReactNode;
  action?: ReactNode;
  /** It is the whole page: its title is the page's. */
  top?: boolean;
}

/** Nothing here yet: one sentence, one action. */
export function Empty({ title, children, action, top }: EmptyProps) {
  const Title = top ? "h1" : "h2";
  return (
    <div className="grid h-full grid-cols-1 place-items-center p-6">
      <div className="max-w-full text-center sm:max-w-md">
        <Title className="text-title font-semibold">{title}</Title>
        {children && <div className="mt-1 text-fg2">{children}</div>}
        {action && <div className="mt-4 flex flex-wrap justify-center gap-2">{action}</div>}
      </div>
    </div>
  );
}

/** An error shown in place of content: what failed, why, and what to do. */
export function Failure({
  what,
  error,
  retry,
  className,
}: {
  what: string;
  error: unknown;
  retry?: () => void;
  className?: string;
}) {
  const shown = tell(error);
  return (
    <div role="alert" className={cx("max-w-xl panel p-3", className)}>
      <p className="flex items-baseline gap-2 font-medium">
        <span aria-hidden className="text-failed">
          ▲
        </span>
        {what}
      </p>
      <p className="mt-1 break-words text-fg2">{shown.message}</p>
      {shown.output && <Output text={shown.output} />}
      <div className="mt-2 flex flex-wrap items-center gap-3">
        {retry && (
          <Button onClick={retry}>
            <Trans>Try again</Trans>
          </Button>
        )}
        <RequestId id={shown.requestId} />
      </div>
    </div>
  );
}

/** The error of a form, above its buttons. */
export function FormError({ error }: { error: unknown }) {
  if (!error) return null;
  const shown = tell(error);
  return (
    <div role="alert" className={FORM_ERROR}>
      <p className="break-words text-failed">{shown.message}</p>
      {shown.output && <Output text={shown.output} />}
      <RequestId id={shown.requestId} />
    </div>
  );
}

function RequestId({ id }: { id: string }) {
  if (!id) return null;
  return (
    <p className="mt-1 font-mono text-micro text-fg3 select-all">
      <Trans>request {id}</Trans>
    </p>
  );
}

/** Somebody else's words, such as git's. */
export function Output({ text, className }: { text: string; className?: string }) {
  return (
    <pre
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
      tabIndex={0}
      role="region"
      aria-label={t`Output`}
      className={cx(
        "mt-2 max-h-48 overflow-auto rounded-sm bg-bg2 px-2 py-1.5 text-code leading-[18px] break-words whitespace-pre-wrap text-fg",
        className,
      )}
    >
      {text}
    </pre>
  );
}

/** Rows in grey while something loads; they appear only after 200 ms. */
export function Skeleton({ rows = 4, label = t`Loading` }: { rows?: number; label?: string }) {
  return (
    <div role="status" className="late p-4">
      <span className="sr-only">{label}</span>
      {Array.from({ length: rows }, (_, i) => (
        <div
          key={i}
          aria-hidden
          className="mb-3 h-3 rounded-sm bg-bg3"
          style={{ width: `${[72, 48, 60, 36][i % 4]}%` }}
        />
      ))}
    </div>
  );
}

/** Something under way, with words. */
export function Busy({ children }: { children: ReactNode }) {
  return (
    <span role="status" className="late inline-flex items-center gap-2 text-fg2">
      <span aria-hidden className="pulse-mark size-2 rounded-full bg-running" />
      {children}
    </span>
  );
}

/** Monospace text with a copy button. */
export function CopyLine({ text, label }: { text: string; label: string }) {
  return (
    <div className="flex items-center gap-1 rounded-md bg-bg2 pl-2.5">
      <code className="min-w-0 flex-1 py-1 text-code break-words whitespace-pre-wrap select-all">{text}</code>
      <button
        type="button"
        aria-label={t`Copy ${label}`}
        title={t`Copy ${label}`}
        onClick={() => void copyText(text, label)}
        className="control-h control-w grid shrink-0 place-items-center rounded-md text-fg2 hover:text-fg"
      >
        <Icon name="copy" size={14} />
      </button>
    </div>
  );
}

/** Copies text and confirms it. On plain HTTP from another machine browsers offer no clipboard API, so it falls back to execCommand. */
export async function copyText(text: string, what: string): Promise<void> {
  try {
    if (navigator.clipboard) await navigator.clipboard.writeText(text);
    else copyTheOldWay(text);
    toast({ title: t`Copied ${what}`, lasts: 2500 });
  } catch {
    toast({
      kind: "bad",
      title: t`Could not copy ${what}`,
      text: t`The browser blocked the clipboard. Select the text and copy it manually.`,
    });
  }
}

function copyTheOldWay(text: string): void {
  const area = document.createElement("textarea");
  area.value = text;
  area.style.position = "fixed";
  area.style.opacity = "0";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) throw new Error("copy blocked");
}

/** Added and removed lines. */
export function Counts({
  additions,
  deletions,
  className,
}: {
  additions: number;
  deletions: number;
  className?: string;
}) {
  return (
    <span className={cx("whitespace-nowrap tabular-nums", className)}>
      <span className="text-add">+{additions}</span> <span className="text-del">−{deletions}</span>
    </span>
  );
}
