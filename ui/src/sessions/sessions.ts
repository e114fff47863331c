import { t } from "@lingui/core/macro";
import { SETUP, SHELL } from "@/agents/built-in";
import type { Session } from "@/api/client";
import { sentence } from "@/format/text";
import { duration, limitText } from "@/format/time";
import type { MarkKind } from "@/kit/mark";

export const isShell = (s: Session): boolean => s.agent === SHELL;
export const hasEnded = (s: Session): boolean => s.state === "exited" || s.state === "failed" || s.state === "lost";

/** Whether a user ended it: then a nonzero exit code is not a failure. */
const stopped = (s: Session): boolean => /stop/i.test(s.state_reason);

/** What stands in a terminal in which nothing was printed yet. A program that prints nothing is not starting for ever. */
export const blankWords = (s: Session): string =>
  s.state === "starting" ? t`Starting ${s.agent_name}` : t`${s.agent_name} runs and has not printed anything yet.`;

/** Where a session stands, by shape and word. */
export function sessionMark(s: Session): { mark: MarkKind; word: string } {
  switch (s.state) {
    case "starting":
      return { mark: "setup", word: t`Starting` };
    case "working":
      if (s.attention?.reason === "stuck") return { mark: "needs", word: t`Stuck` };
      return { mark: "running", word: t`Working` };
    case "waiting":
      return { mark: "needs", word: t`Needs you` };
    case "idle":
      switch (s.attention?.reason) {
        case "failed":
          return { mark: "failed", word: t`Failed` };
        case "limited":
          return { mark: "stopped", word: limitText(s.attention.until, Date.now()) };
        case "stuck":
          return { mark: "needs", word: t`Stuck` };
        case "finished":
          return { mark: "review", word: t`Finished` };
      }
      return { mark: "idle", word: t`Idle` };
    case "exited":
      if (s.exit_code === 0) return { mark: "done", word: t`Done` };
      return isShell(s) || stopped(s) ? { mark: "stopped", word: t`Ended` } : { mark: "failed", word: t`Failed` };
    case "failed":
      return { mark: "failed", word: t`Failed` };
    case "lost":
      return { mark: "failed", word: t`Lost` };
  }
}

/** How a session ended and why, in a sentence. */
export function endOf(s: Session): string {
  const time = s.ended_at ? t` after ${duration(s.ended_at - s.started_at)}` : "";
  const why = s.state_reason.trim();
  // Do not repeat what the exit code or signal already says.
  const because = why && !/^(exit|exited|ended|signal)( (with|by) .*)?$/i.test(why) ? ` ${sentence(why)}` : "";
  if (s.state === "lost") return t`Lost${time}.${because || t` Its sandbox no longer exists.`}`;
  if (s.exit_signal) return t`Ended by ${s.exit_signal}${time}.${because}`;
  if (s.exit_code === 0) return t`Done${time}.${because}`;
  if (s.exit_code !== null) return t`Exited with code ${s.exit_code}${time}.${because}`;
  return s.state === "failed" ? t`Failed${time}.${because}` : t`Ended${time}.${because}`;
}

/** The session to show first: one that needs attention, else the newest running, else the newest. */
export function preferred(list: readonly Session[]): Session | undefined {
  const newest = [...list].sort((a, b) => b.started_at - a.started_at);
  return (
    newest.find((s) => s.state === "waiting") ??
    newest.find((s) => !hasEnded(s)) ??
    newest.find((s) => s.agent !== SETUP) ??
    newest[0]
  );
}
