import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Schemas, type Workspace } from "@/api/client";
import { changesQuery, commitsQuery, mergePreviewQuery } from "@/api/queries";
import { useTeam } from "@/app/team";
import { plural, short, visible } from "@/format/text";
import { Button } from "@/kit/button";
import { Dialog, DialogBody, DialogFoot } from "@/kit/dialog";
import { Check, Choice, TextArea } from "@/kit/field";
import { Mark } from "@/kit/mark";
import { Busy, copyText, Failure, FormError } from "@/kit/states";
import { toast, toastError } from "@/state/toasts";

type Strategy = "merge" | "squash" | "rebase";
type Result = Schemas["MergeResult"];

/** Merging the branch back into its base: how, what would happen, and then. Nothing is ever half merged. */
export default function MergeDialog({ workspace: w, onClose }: { workspace: Workspace; onClose: () => void }) {
  const team = useTeam();
  const client = useQueryClient();
  const navigate = useNavigate({ from: "/$team/w/$key" });
  const [strategy, setStrategy] = useState<Strategy>("merge");
  const [message, setMessage] = useState("");
  const [archive, setArchive] = useState(false);
  const changes = useQuery(changesQuery(w.id));
  const commits = useQuery(commitsQuery(w.id));
  const preview = useQuery(mergePreviewQuery(w.id, strategy, changes.data?.head_commit ?? ""));
  const plan = preview.data;
  const possible = plan !== undefined && !plan.up_to_date && plan.conflicts.length === 0;

  const merge = useMutation({
    mutationFn: () =>
      data(
        api.POST("/workspaces/{id}/merge", {
          params: { path: { id: w.id } },
          body: { strategy, ...(message.trim() && strategy !== "rebase" ? { message: message.trim() } : {}) },
        }),
      ),
    onSuccess: async (result) => {
      void client.invalidateQueries({ queryKey: ["workspace", w.id] });
      void client.invalidateQueries({ queryKey: ["team", team.slug, "workspaces"] });
      if (!result.merged) {
        // The base moved between the look and the merge: show what stands in the way now.
        void preview.refetch();
        return;
      }
      onClose();
      toast({
        kind: "good",
        title: `Merged into ${result.base}`,
        text: `${result.base} is at ${short(result.commit)} now.`,
      });
      if (archive) await putAway();
    },
  });
  const putAway = async () => {
    try {
      await api.POST("/workspaces/{id}/archive", { params: { path: { id: w.id } } });
      await navigate({ to: "/$team/w", params: { team: team.slug } });
      void client.invalidateQueries({ queryKey: ["team", team.slug, "workspaces"] });
    } catch (error) {
      toastError("Merged, but not archived", error, () => void putAway());
    }
  };
  const go = () => {
    if (possible && !merge.isPending && !preview.isFetching) merge.mutate();
  };

  return (
    <Dialog
      open
      onClose={onClose}
      wide
      title={`Merge into ${w.base}`}
      about={
        <>
          <span className="font-mono text-[12px]">{w.branch}</span>
          {commits.data && <>, {plural(commits.data.length, "commit")}</>}
        </>
      }
    >
      <form
        className="flex min-h-0 flex-1 flex-col"
        onSubmit={(e) => {
          e.preventDefault();
          go();
        }}
        onKeyDown={(e) => {
          if ((e.ctrlKey || e.metaKey) && e.key === "Enter") {
            e.preventDefault();
            go();
          }
        }}
      >
        <DialogBody className="flex flex-col gap-4">
          <Choice<Strategy>
            name="strategy"
            legend="How"
            value={strategy}
            onChange={setStrategy}
            options={[
              { value: "merge", label: "Merge", hint: "Keeps every commit and joins them by a merge commit." },
              { value: "squash", label: "Squash", hint: "One commit on the base with all changes." },
              { value: "rebase", label: "Rebase", hint: "Puts the commits on top of the base, one after another." },
            ]}
          />
          <Outlook
            workspace={w}
            query={{ pending: preview.isPending, error: preview.error, retry: () => void preview.refetch() }}
            plan={plan}
            onClose={onClose}
          />
          {strategy !== "rebase" && (
            <TextArea
              label="Message"
              rows={2}
              placeholder={strategy === "squash" ? w.name : `Merge ${w.branch} into ${w.base}`}
              value={message}
              onChange={(e) => setMessage(e.target.value)}
            />
          )}
          <Check
            label="Archive the workspace afterwards"
            checked={archive}
            onChange={(e) => setArchive(e.target.checked)}
          />
          <FormError error={merge.error} />
        </DialogBody>
        <DialogFoot>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            type="submit"
            look="primary"
            keys="mod+enter"
            disabled={!possible || preview.isFetching}
            busy={merge.isPending && "Merging"}
          >
            {strategy === "squash" ? "Squash and merge" : strategy === "rebase" ? "Rebase and merge" : "Merge"}
          </Button>
        </DialogFoot>
      </form>
    </Dialog>
  );
}

interface OutlookProps {
  workspace: Workspace;
  query: { pending: boolean; error: unknown; retry: () => void };
  plan: Result | undefined;
  onClose: () => void;
}

/** What would happen, tried without touching anything. */
function Outlook({ workspace: w, query, plan, onClose }: OutlookProps) {
  const navigate = useNavigate({ from: "/$team/w/$key" });
  if (query.pending) return <Busy>Trying the merge…</Busy>;
  if (query.error) return <Failure what="The merge could not be tried." error={query.error} retry={query.retry} />;
  if (!plan) return null;
  return (
    <section aria-label="What would happen" aria-live="polite" className="flex flex-col gap-1.5">
      {plan.up_to_date ? (
        <p className="text-fg2">
          Nothing to merge: <span className="font-mono text-[12px]">{plan.base}</span> has every commit of this branch.
        </p>
      ) : plan.conflicts.length > 0 ? (
        <div>
          <Mark kind="failed" word={`${plural(plan.conflicts.length, "file")} in conflict`} />
          <ul
            // biome-ignore lint/a11y/noNoninteractiveTabindex: a list that scrolls must be reachable by keyboard
            tabIndex={0}
            aria-label="Files in conflict"
            className="mt-1 max-h-40 overflow-y-auto rounded-sm bg-bg2 px-2 py-1"
          >
            {plan.conflicts.map((c) => (
              <li key={c.path} className="flex justify-between gap-3">
                <span className="font-mono text-[12px] break-all">{visible(c.path)}</span>
                <span className="shrink-0 text-fg3">{c.kind}</span>
              </li>
            ))}
          </ul>
          <p className="mt-1.5 text-fg2">
            Nothing was changed. Bring <span className="font-mono text-[12px]">{plan.base}</span> into the branch,
            resolve there, commit, and merge again.
          </p>
          <div className="mt-2 flex flex-wrap gap-2">
            <Button
              onClick={() => {
                onClose();
                void navigate({ search: (s) => ({ ...s, dialog: undefined, tab: "shell", session: undefined }) });
              }}
            >
              Open a shell
            </Button>
            <Button
              onClick={() =>
                void copyText(
                  `Merge ${plan.base} into this branch and resolve the conflicts in:\n${plan.conflicts.map((c) => c.path).join("\n")}\nThen commit.`,
                  "a prompt for the agent",
                )
              }
            >
              Copy a prompt for the agent
            </Button>
          </div>
        </div>
      ) : (
        <>
          <Mark kind="merged" word="No conflicts" />
          <p className="text-fg2">
            {plural(plan.commits, "commit")}, {plural(plan.files, "file")}.{" "}
            {plan.fast_forward
              ? `${plan.base} moves forward to ${short(plan.head)}.`
              : `${plan.base} moves from ${short(plan.base_commit)}${plan.commit ? ` to ${short(plan.commit)}` : ""}.`}
          </p>
        </>
      )}
      {plan.warnings.map((text) => (
        <p key={text} className="flex gap-2 text-needs">
          <span aria-hidden>◆</span>
          <span>{text}</span>
        </p>
      ))}
      {(w.agents.state === "working" || w.agents.state === "waiting") &&
        plan.conflicts.length === 0 &&
        !plan.up_to_date && (
          <p className="text-meta text-fg3">A session is still at work here. Only what is committed is merged.</p>
        )}
    </section>
  );
}
