import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useState } from "react";
import type { Project, Schemas } from "@/api/client";
import { tell } from "@/api/problem";
import { branchesQuery, fetchBranches } from "@/api/queries";
import { useNow } from "@/format/now";
import { count } from "@/format/text";
import { age, ago } from "@/format/time";
import { Combobox } from "@/kit/combobox";
import { Field } from "@/kit/field";
import { Output } from "@/kit/states";

type Branch = Schemas["Branch"];

interface Props {
  project: Project;
  /** "" is the project's default branch. */
  value: string;
  onChange: (name: string) => void;
  error?: string;
}

/** The branch the work starts from. The remote is fetched first; how old and how far behind a branch is, is said. */
export function BaseBranch({ project, value, onChange, error }: Props) {
  const branches = useQuery(branchesQuery(project.id));
  const fetching = useFetch(project.id);
  const now = useNow();
  const items = branches.data?.items ?? [];
  const chosen = items.find((b) => b.name === (value || project.default_branch)) ?? items.find((b) => b.default);
  const behind = chosen && chosen.behind > 0 && chosen.upstream ? chosen : undefined;
  const fetchError = branches.data?.fetch_error ?? "";

  return (
    <div className="min-w-0">
      <Field
        label="From"
        error={error ?? (branches.isError ? tell(branches.error).message : undefined)}
        hint={
          fetching.busy
            ? "Fetching from the remote…"
            : branches.data?.fetched_at
              ? `Fetched ${ago(branches.data.fetched_at, now)}.`
              : undefined
        }
      >
        {(ids) => (
          <Combobox
            {...ids}
            label="Base branch"
            value={chosen?.name ?? value}
            shown={
              chosen ? (
                <span className="font-mono text-[12px]">{chosen.name}</span>
              ) : branches.isPending ? (
                "Loading the branches…"
              ) : (
                "No branch"
              )
            }
            onChange={onChange}
            options={items.map((b) => ({ value: b.name, text: b.name, row: <BranchRow branch={b} now={now} /> }))}
            empty="No matching branch."
            foot={
              <div className="flex items-center justify-between gap-3">
                <span>{fetching.busy ? "Fetching…" : fetchError ? "The last fetch failed." : "Newest first."}</span>
                <button
                  type="button"
                  disabled={fetching.busy}
                  onClick={fetching.run}
                  className="min-h-6 text-accent hover:underline disabled:opacity-55"
                >
                  Fetch again
                </button>
              </div>
            }
          />
        )}
      </Field>
      {behind && (
        <p className="mt-1 text-meta text-needs">
          {behind.name} is {count(behind.behind)} behind {behind.upstream}.{" "}
          {items.some((b) => b.name === behind.upstream) && (
            <button
              type="button"
              onClick={() => onChange(behind.upstream)}
              className="min-h-6 text-accent hover:underline"
            >
              Start from {behind.upstream}
            </button>
          )}
        </p>
      )}
      {fetchError && !fetching.busy && (
        <details className="mt-1 text-meta">
          <summary className="w-fit cursor-pointer text-needs">
            The fetch failed. Branches are from{" "}
            {branches.data?.fetched_at ? ago(branches.data.fetched_at, now) : "the clone"}.
          </summary>
          <Output text={fetchError} className="max-h-28" />
        </details>
      )}
    </div>
  );
}

/** Fetches once when the dialog opens or the project changes, and on demand. */
function useFetch(projectId: string): { busy: boolean; run: () => void } {
  const client = useQueryClient();
  const [busy, setBusy] = useState(false);
  const run = useCallback(() => {
    setBusy(true);
    fetchBranches(client, projectId)
      .catch(() => {}) // the list itself says what is wrong
      .finally(() => setBusy(false));
  }, [client, projectId]);
  useEffect(run, [run]);
  return { busy, run };
}

function BranchRow({ branch: b, now }: { branch: Branch; now: number }) {
  const notes = [
    b.default && "default",
    b.behind > 0 && `${count(b.behind)} behind`,
    b.ahead > 0 && `${count(b.ahead)} ahead`,
    b.checked_out && `in ${b.checked_out}`,
  ].filter(Boolean);
  return (
    <span className="flex min-w-0 items-baseline gap-2" title={b.subject}>
      <span className="max-w-full shrink-0 truncate font-mono text-[12px]">{b.name}</span>
      {notes.length > 0 && <span className="min-w-0 truncate text-meta text-fg3">{notes.join(", ")}</span>}
      <span className="ml-auto shrink-0 text-meta text-fg3">{b.commit_at ? age(b.commit_at, now) : ""}</span>
    </span>
  );
}
