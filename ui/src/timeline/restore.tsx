import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Schemas, type Workspace } from "@/api/client";
import { keys } from "@/api/queries";
import { visible } from "@/format/text";
import { Button } from "@/kit/button";
import { Dialog } from "@/kit/dialog";
import { Busy, FormError } from "@/kit/states";
import { toast } from "@/state/toasts";

interface Props {
  workspace: Workspace;
  snapshot: Schemas["WorkspaceSnapshot"];
  name: string;
  onClose: () => void;
}

const SHOWN = 200;

/** Brings files back as they were: all or some into this workspace, or all into a new one. */
export default function Restore({ workspace: w, snapshot: s, name, onClose }: Props) {
  const [into, setInto] = useState<"same" | "new">("same");
  const [left, setLeft] = useState<ReadonlySet<string>>(new Set());
  const [force, setForce] = useState(false);
  const [ignored, setIgnored] = useState(s.ignored_files > 0);
  const client = useQueryClient();
  const navigate = useNavigate({ from: "/$team/w/$key" });
  const path = { params: { path: { id: s.id } } };
  const plan = useQuery({
    queryKey: ["snapshot", s.id, "plan"],
    queryFn: () =>
      data(
        api.POST("/snapshots/{id}/restore", {
          ...path,
          body: { into: "same", dry_run: true, even_while_working: false, ignored: s.ignored_files > 0 },
        }),
      ),
    staleTime: 0,
  });
  const changed = plan.data?.changed ?? [];
  const paths = changed.filter((p) => !left.has(p));
  const lacking = plan.data?.ignored.length ?? 0;
  const kept = plan.data?.ignored_left.length ?? 0;
  const run = useMutation({
    mutationFn: () =>
      data(
        api.POST("/snapshots/{id}/restore", {
          ...path,
          body:
            into === "new"
              ? { into, dry_run: false, even_while_working: true, ignored }
              : { into, dry_run: false, even_while_working: force, ignored, ...(left.size > 0 ? { paths } : {}) },
        }),
      ),
    onSuccess: (r) => {
      void client.invalidateQueries({ queryKey: keys.timeline(w.id) });
      onClose();
      if (into === "new") {
        toast({ kind: "good", title: t`${r.workspace.key} has the files of this snapshot` });
        void navigate({ params: (p) => ({ ...p, key: r.workspace.key }), search: {} });
        return;
      }
      const n = r.changed.length + r.ignored.length;
      const alone = [
        r.conflicts.length > 0 &&
          t`These files were being written and were not restored: ${r.conflicts.map(visible).join(", ")}`,
        r.ignored_left.length > 0 &&
          t`These ignored files have changed since and were not restored: ${r.ignored_left.map(visible).join(", ")}`,
      ].filter(Boolean);
      toast({
        kind: alone.length > 0 ? "note" : "good",
        title: n === 1 ? t`1 file restored` : t`${n} files restored`,
        text: alone.length > 0 ? alone.join(". ") : t`The previous files are in the timeline.`,
      });
    },
  });
  const working = run.error && (run.error as { code?: string }).code === "agent_working";
  return (
    <Dialog open onClose={onClose} title={t`Restore`} about={name}>
      <form
        className="flex min-h-0 flex-col gap-3 overflow-y-auto p-4 md:p-5"
        onSubmit={(e) => {
          e.preventDefault();
          run.mutate();
        }}
      >
        <fieldset className="flex flex-col gap-1">
          <legend className="sr-only">
            <Trans>Destination</Trans>
          </legend>
          <label className="flex min-h-9 items-center gap-2">
            <input type="radio" name="into" checked={into === "same"} onChange={() => setInto("same")} />
            <Trans>This workspace. Its current files are saved first</Trans>
          </label>
          <label className="flex min-h-9 items-center gap-2">
            <input type="radio" name="into" checked={into === "new"} onChange={() => setInto("new")} />
            <Trans>A new workspace with its own branch</Trans>
          </label>
        </fieldset>
        {into === "same" && plan.isPending && (
          <Busy>
            <Trans>Checking what would change…</Trans>
          </Busy>
        )}
        {into === "same" && <FormError error={plan.error} />}
        {into === "same" && plan.data && changed.length === 0 && (
          <p>
            <Trans>The files already match the snapshot.</Trans>
          </p>
        )}
        {into === "same" && changed.length > 0 && (
          <fieldset className="max-h-64 overflow-y-auto border border-hairline p-2">
            <legend className="text-meta text-fg3">
              <Trans>Files that change</Trans>
            </legend>
            {changed.slice(0, SHOWN).map((p) => (
              <label key={p} className="flex min-h-8 items-center gap-2 break-all font-mono text-code">
                <input
                  type="checkbox"
                  checked={!left.has(p)}
                  onChange={(e) => {
                    const next = new Set(left);
                    if (e.target.checked) next.delete(p);
                    else next.add(p);
                    setLeft(next);
                  }}
                />
                {visible(p)}
              </label>
            ))}
            {changed.length > SHOWN && (
              <p className="text-fg3">
                <Trans>and {changed.length - SHOWN} more</Trans>
              </p>
            )}
          </fieldset>
        )}
        {s.ignored_files > 0 && (
          <label className="flex min-h-9 items-center gap-2">
            <input type="checkbox" checked={ignored} onChange={(e) => setIgnored(e.target.checked)} />
            <span>
              <Trans>Include ignored files ({s.ignored_files})</Trans>
              {into === "same" && plan.data && (
                <span className="text-fg3">
                  {" "}
                  · {lacking === 0 ? t`none missing` : t`${lacking} missing`}
                  {kept > 0 && t`, ${kept} changed since, not restored`}
                </span>
              )}
            </span>
          </label>
        )}
        <FormError error={run.error} />
        {working && (
          <label className="flex min-h-9 items-center gap-2">
            <input type="checkbox" checked={force} onChange={(e) => setForce(e.target.checked)} />
            <Trans>Restore while an agent is working</Trans>
          </label>
        )}
        <div className="flex justify-end">
          <Button
            type="submit"
            look="primary"
            disabled={into === "same" && paths.length === 0 && !(ignored && lacking > 0)}
            busy={run.isPending && t`Restoring`}
          >
            <Trans>Restore</Trans>
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
