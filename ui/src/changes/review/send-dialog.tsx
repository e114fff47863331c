import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { COMMAND, SHELL } from "@/agents/built-in";
import { api, data, type Session } from "@/api/client";
import { agentsQuery, keys, sessionsQuery } from "@/api/queries";
import type { ChangesContext } from "@/changes/extension";
import { visible, within } from "@/format/text";
import { Button } from "@/kit/button";
import { Dialog, DialogBody, DialogFoot } from "@/kit/dialog";
import { inputClass, TextArea } from "@/kit/field";
import { FormError } from "@/kit/states";
import { wakeFor } from "@/sandboxes/acts";
import { hasEnded, sessionMark } from "@/sessions/sessions";
import { useStore } from "@/state/store";
import { useTeam } from "@/state/team";
import { toast, toastError } from "@/state/toasts";
import { type Review, sendReview, type Verdict } from "./data";
import { alsoTo, byWork, reads } from "./recipients";
import { revisionOf, writingIn } from "./writing";

interface Props {
  context: ChangesContext;
  draft: Review | undefined;
  onClose: () => void;
}

const VERDICTS: [Verdict, string, string][] = [
  ["comment", t`Comment`, t`Without approving or requesting changes.`],
  ["changes", t`Request changes`, t`It must not be merged as it is.`],
  ["approve", t`Approve`, t`Applies only to the files as you read them.`],
];

/** Sends all drafts as one review: a summary, a verdict, and recipients. */
export default function SendDialog({ context: c, draft, onClose }: Props) {
  const id = c.workspace.id;
  const team = useTeam();
  const client = useQueryClient();
  const unfinished = useStore(writingIn(id)).filter((x) => x.text.trim() !== "").length;
  const sessions = useQuery(sessionsQuery(id));
  const agents = useQuery(agentsQuery(team.slug));
  const comments = draft?.comments.length ?? 0;
  const [body, setBody] = useState(draft?.body ?? "");
  const [verdict, setVerdict] = useState<Verdict>(draft?.verdict || "comment");
  const [chosen, setChosen] = useState<string>();
  useKept(id, draft, body, verdict);

  const mayType = team.can("terminal.type");
  const mayApprove = team.can("workspace.merge");
  const all = (sessions.data ?? []).filter(reads);
  const live = byWork(all.filter((s) => !hasEnded(s)));
  const resumable = all.filter((s) => hasEnded(s) && s.can_resume).slice(0, 5);
  const startable =
    live.length > 0
      ? []
      : (agents.data ?? []).filter((a) => a.enabled && a.installed && a.agent !== SHELL && a.agent !== COMMAND);
  // Default recipient: the agent that worked here last, if there is something to send.
  const usual = !mayType || verdict === "approve" ? "" : (live[0]?.id ?? resumable[0]?.id ?? "");
  const to = chosen ?? usual;
  const others = to ? live.filter((s) => s.id !== to) : [];
  const [also, setAlso] = useState<ReadonlySet<string>>(new Set());

  const send = useMutation({
    mutationFn: async () => {
      let session = to;
      if (to.startsWith("new:")) {
        const started = await data(
          api.POST("/workspaces/{id}/sessions", { params: { path: { id } }, body: { agent: to.slice(4) } }),
        );
        session = started.id;
        setChosen(session); // a second try does not start another one
      }
      const review = await sendReview(id, {
        verdict,
        body,
        session_id: session || null,
        from: revisionOf(c.comparison.from),
        revision: revisionOf(c.comparison.to),
      });
      return {
        review,
        missed: await alsoTo(
          review,
          others.filter((s) => also.has(s.id)),
        ),
      };
    },
    onSuccess: ({ review: r, missed }) => {
      sent.current = true;
      if (r.session_id) wakeFor(client, id);
      toast({
        kind: "good",
        title: r.state === "queued" ? t`The review is queued for the agent` : t`The review was sent`,
        text: r.state === "queued" && r.waits ? t`It waits: ${r.waits}.` : undefined,
      });
      for (const [s, error] of missed) toastError(t`The review was not delivered to ${nameOf(s)}`, error);
      onClose();
    },
    onSettled: () => {
      going.current = false;
      void client.invalidateQueries({ queryKey: keys.reviews(id) });
      void client.invalidateQueries({ queryKey: keys.sessions(id) });
    },
  });
  const sent = useRef(false);
  const nothing = verdict !== "approve" && comments === 0 && !body.trim();
  const going = useRef(false); // send.isPending comes only with the next drawing, and a key can be pressed twice before it
  const go = () => {
    if (nothing || going.current) return;
    going.current = true;
    send.mutate();
  };

  return (
    <Dialog
      open
      onClose={onClose}
      title={t`Review`}
      about={
        comments > 0
          ? t`${plural(comments, { one: "# comment", other: "# comments" })}, sent together.`
          : t`No line comments yet.`
      }
    >
      <form
        className="flex min-h-0 flex-1 flex-col"
        onSubmit={(e) => {
          e.preventDefault();
          go();
        }}
        onKeyDown={(e) => {
          if (e.key !== "Enter" || !(e.ctrlKey || e.metaKey)) return;
          e.preventDefault();
          go();
        }}
      >
        <DialogBody className="flex flex-col gap-4">
          <TextArea
            label={t`Summary`}
            hint={t`Saved as a draft while you write.`}
            rows={4}
            maxLength={60_000}
            value={body}
            onChange={(e) => setBody(e.target.value)}
            data-first
          />
          <fieldset className="flex flex-col gap-1">
            <legend className="mb-1 font-medium">
              <Trans>Verdict</Trans>
            </legend>
            {VERDICTS.map(([v, name, about]) => (
              <label key={v} className="flex min-h-6 items-baseline gap-2 pointer-coarse:min-h-11">
                <input
                  type="radio"
                  name="verdict"
                  value={v}
                  checked={verdict === v}
                  disabled={v === "approve" && !mayApprove}
                  onChange={() => setVerdict(v)}
                />
                <span>
                  {name} <span className="text-meta text-fg3">{about}</span>
                </span>
              </label>
            ))}
          </fieldset>
          <div>
            <label htmlFor="review-to" className="mb-1 block font-medium">
              <Trans>Send to</Trans>
            </label>
            <select
              id="review-to"
              value={to}
              disabled={!mayType}
              onChange={(e) => setChosen(e.target.value)}
              className={inputClass}
            >
              {live.map((s) => (
                <option key={s.id} value={s.id}>
                  {nameOf(s)} ({within(sessionMark(s).word)})
                </option>
              ))}
              {resumable.map((s) => (
                <option key={s.id} value={s.id}>
                  <Trans>Resume {nameOf(s)}</Trans>
                </option>
              ))}
              {startable.map((a) => (
                <option key={a.agent} value={`new:${a.agent}`}>
                  <Trans>Start {visible(a.name)}</Trans>
                </option>
              ))}
              <option value="">
                <Trans>People only</Trans>
              </option>
            </select>
            {mayType && others.length > 0 && (
              <fieldset className="mt-2 flex flex-col">
                <legend className="text-fg2">
                  <Trans>Also to</Trans>
                </legend>
                {others.map((s) => (
                  <label key={s.id} className="flex min-h-7 items-center gap-2 break-words pointer-coarse:min-h-11">
                    <input
                      type="checkbox"
                      checked={also.has(s.id)}
                      onChange={(e) => {
                        const next = new Set(also);
                        if (e.target.checked) next.add(s.id);
                        else next.delete(s.id);
                        setAlso(next);
                      }}
                    />
                    <span className="min-w-0">
                      {nameOf(s)} <span className="text-meta text-fg3">{within(sessionMark(s).word)}</span>
                    </span>
                  </label>
                ))}
              </fieldset>
            )}
            <p className="mt-1 text-meta text-fg3">{whatHappens(to, live.find((s) => s.id === to)?.state)}</p>
          </div>
          {unfinished > 0 && (
            <p className="text-fg2">
              <Trans>
                {plural(unfinished, { one: "# comment", other: "# comments" })} you are writing{" "}
                {unfinished === 1 ? t`is` : t`are`} not added yet and will not be sent.
              </Trans>
            </p>
          )}
          {c.comparison.newer > 0 && (
            <p className="text-fg2">
              <Trans>
                {plural(c.comparison.newer, { one: "# file", other: "# files" })} changed since you started reading. The
                review applies to what you read.
              </Trans>
            </p>
          )}
          {send.isError && <FormError error={send.error} />}
        </DialogBody>
        <DialogFoot>
          {nothing && (
            <span className="mr-auto text-meta text-fg3">
              <Trans>Write a summary or comment on lines first.</Trans>
            </span>
          )}
          <Button onClick={onClose}>
            <Trans>Not yet</Trans>
          </Button>
          <Button
            type="submit"
            look="primary"
            disabled={nothing}
            busy={send.isPending && t`Sending`}
            title="Ctrl+Enter"
          >
            <Trans>Send</Trans>
          </Button>
        </DialogFoot>
      </form>
    </Dialog>
  );
}

/** An agent and its prompt, to distinguish two of a kind. */
const nameOf = (s: Session): string => visible(s.agent_name) + (s.title ? `, ${visible(s.title).slice(0, 60)}` : "");

function whatHappens(to: string, state: string | undefined): string {
  if (!to) return t`Everyone in the team who can see the workspace can read it.`;
  if (to.startsWith("new:")) return t`The agent starts with the review as its first message.`;
  if (!state) return t`The agent resumes and gets the review first.`;
  return state === "idle"
    ? t`The agent gets it immediately.`
    : t`The agent gets it when it is idle. Until then you can take it back.`;
}

/** Saves the draft on the server, debounced. */
function useKept(id: string, draft: Review | undefined, body: string, verdict: Verdict) {
  const client = useQueryClient();
  const saved = useRef({ body: draft?.body ?? "", verdict: draft?.verdict ?? "" });
  useEffect(() => {
    if (body === saved.current.body && (body === "" || verdict === saved.current.verdict)) return;
    const timer = setTimeout(() => {
      saved.current = { body, verdict };
      // Text that cannot be saved now is sent with the review, or saved with the next edit.
      void api
        .PUT("/workspaces/{id}/review", { params: { path: { id } }, body: { body, verdict } })
        .then(({ data: d }) => d && client.setQueryData([...keys.reviews(id), "draft"], d))
        .catch(() => {
          saved.current = { body: "", verdict: "" };
        });
    }, 800);
    return () => clearTimeout(timer);
  }, [id, body, verdict, client]);
}
