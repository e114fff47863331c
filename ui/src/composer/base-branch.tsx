import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useState } from "react";
import type { Project, Schemas } from "@/api/client";
import { tell } from "@/api/problem";
import { branchesQuery, fetchBranches } from "@/api/queries";
import { useNow } from "@/format/now";
import { count } from "@/format/text";
import { age, ago } from "@/format/time";
import { Combobox } from "@/kit/combobox";
import { Icon } from "@/kit/icon";
import { Output } from "@/kit/states";

type Branch = Schemas["Branch"];

interface Props {
  project: Project;
  /** "" is the project's default branch. */
  value: string;
  onChange: (name: string) => void;
}

/** The branch the work starts from, as a chip. The remote is fetched first. */
export function BaseBranch({ project, value, onChange }: Props) {
  const branches = useQuery(branchesQuery(project.id));
  const fetching = useFetch(project.id);
  const now = useNow();
  const items = branches.data?.items ?? [];
  const chosen = chosenBranch(items, project, value);
  const failed = branches.data?.fetch_error ?? "";
  return (
    <Combobox
      chip
      label={t`From branch`}
      value={chosen?.name ?? value}
      shown={
        chosen ? (
          <span className="flex min-w-0 items-center gap-1.5">
            <Icon name="git" size={12} className="shrink-0" />
            <span className="truncate">{chosen.name}</span>
          </span>
        ) : branches.isPending ? (
          t`Loading the branches…`
        ) : (
          t`No branch`
        )
      }
      onChange={onChange}
      options={items.map((b) => ({ value: b.name, text: b.name, row: <BranchRow branch={b} now={now} /> }))}
      empty={t`No matching branch.`}
      foot={
        <div className="flex items-center justify-between gap-3">
          <span>
            {fetching.busy
              ? t`Fetching from the remote…`
              : failed
                ? t`The last fetch failed.`
                : branches.data?.fetched_at
                  ? t`Fetched ${ago(branches.data.fetched_at, now)}.`
                  : t`Newest first.`}
          </span>
          <button
            type="button"
            disabled={fetching.busy}
            onClick={fetching.run}
            className="min-h-6 text-accent hover:underline disabled:opacity-55"
          >
            <Trans>Fetch again</Trans>
          </button>
        </div>
      }
    />
  );
}

const chosenBranch = (items: readonly Branch[], project: Project, value: string) =>
  items.find((b) => b.name === (value || project.default_branch)) ?? items.find((b) => b.default);

/** What there is to know about the chosen branch: that it is behind its upstream, or that the fetch failed. */
export function BranchNotes({ project, value, onChange }: Props) {
  const branches = useQuery(branchesQuery(project.id));
  const now = useNow();
  const items = branches.data?.items ?? [];
  const chosen = chosenBranch(items, project, value);
  const behind = chosen && chosen.behind > 0 && chosen.upstream ? chosen : undefined;
  const failed = branches.data?.fetch_error ?? "";
  return (
    <>
      {branches.isError && <p className="text-meta text-failed">{tell(branches.error).message}</p>}
      {behind && (
        <p className="text-meta text-needs">
          <Trans>
            {behind.name} is {count(behind.behind)} behind {behind.upstream}.
          </Trans>{" "}
          {items.some((b) => b.name === behind.upstream) && (
            <button
              type="button"
              onClick={() => onChange(behind.upstream)}
              className="min-h-6 text-accent hover:underline"
            >
              <Trans>Start from {behind.upstream}</Trans>
            </button>
          )}
        </p>
      )}
      {failed && (
        <details className="text-meta">
          <summary className="w-fit cursor-pointer text-needs">
            <Trans>
              The fetch failed. Branches are from{" "}
              {branches.data?.fetched_at ? ago(branches.data.fetched_at, now) : t`the clone`}.
            </Trans>
          </summary>
          <Output text={failed} className="max-h-28" />
        </details>
      )}
    </>
  );
}

/** Fetches once when the composer opens or the project changes, and on demand. */
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
    b.default && t`default`,
    b.behind > 0 && t`${count(b.behind)} behind`,
    b.ahead > 0 && t`${count(b.ahead)} ahead`,
    b.checked_out && t`in ${b.checked_out}`,
  ].filter(Boolean);
  return (
    <span className="flex min-w-0 items-baseline gap-2" title={b.subject}>
      <span className="max-w-full shrink-0 truncate font-mono text-code">{b.name}</span>
      {notes.length > 0 && <span className="min-w-0 truncate text-meta text-fg3">{notes.join(", ")}</span>}
      <span className="ml-auto shrink-0 text-meta text-fg3">{b.commit_at ? age(b.commit_at, now) : ""}</span>
    </span>
  );
}
