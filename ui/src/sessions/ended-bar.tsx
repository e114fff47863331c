import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { COMMAND, SETUP } from "@/agents/built-in";
import { api, data, type Session } from "@/api/client";
import { keys } from "@/api/queries";
import { Button } from "@/kit/button";
import { Mark } from "@/kit/mark";
import { noteProblem } from "@/sandboxes/problem";
import { useTeam } from "@/state/team";
import { toastError } from "@/state/toasts";
import type { Exit } from "@/terminal/state";
import { endOf, hasEnded, isShell, sessionMark } from "./sessions";

/** How a session ended and why, and how to go on. */
export function EndedBar({ session, exit }: { session: Session; exit: Exit | undefined }) {
  const team = useTeam();
  const client = useQueryClient();
  const navigate = useNavigate({ from: "/$team/w/$key" });
  // The terminal learns about the end before the list is refetched.
  const s: Session =
    hasEnded(session) || !exit
      ? session
      : {
          ...session,
          state: exit.state === "failed" || exit.state === "lost" ? exit.state : "exited",
          state_reason: exit.reason,
          exit_code: exit.exitCode ?? null,
          exit_signal: exit.signal,
          ended_at: exit.endedAt || null,
        };
  const mark = sessionMark(s);
  const resume = useMutation({
    mutationFn: () => data(api.POST("/sessions/{id}/resume", { params: { path: { id: s.id } } })),
    onSuccess: async (next) => {
      client.setQueryData<Session[]>(keys.sessions(s.workspace_id), (list) => [
        next,
        ...(list ?? []).filter((x) => x.id !== next.id),
      ]);
      void client.invalidateQueries({ queryKey: keys.sessions(s.workspace_id) });
      await navigate({ search: (x) => ({ ...x, session: next.id }) });
    },
    onError: (error) =>
      // The place's message is shown above the terminal.
      noteProblem(s.workspace_id, error) ||
      toastError(t`${s.agent_name} did not start again`, error, () => resume.mutate()),
  });
  const afresh = isShell(s) || s.agent === COMMAND;
  return (
    <div className="flex flex-wrap items-center gap-x-4 gap-y-2 border-t border-hairline bg-bg2 px-4 py-2">
      <p role="status" className="flex min-w-0 flex-1 basis-60 flex-wrap items-baseline gap-x-2">
        <Mark kind={mark.mark} word={s.agent_name} />
        <span className="min-w-0 break-words text-fg2">{endOf(s)}</span>
      </p>
      <Link
        to="."
        search={(x) => ({ ...x, tab: "history", session: s.id, at: 0 })}
        className="text-accent hover:underline"
      >
        <Trans>Replay</Trans>
      </Link>
      {s.can_resume && s.agent !== SETUP && team.can("terminal.type") && (
        <Button busy={resume.isPending && (afresh ? t`Starting` : t`Resuming`)} onClick={() => resume.mutate()}>
          {afresh ? t`Start again` : t`Resume`}
        </Button>
      )}
    </div>
  );
}
