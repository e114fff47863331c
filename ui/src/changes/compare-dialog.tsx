import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import type { Workspace } from "@/api/client";
import { commitsQuery } from "@/api/queries";
import { useNow } from "@/format/now";
import { short, visible } from "@/format/text";
import { ago, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { Combobox, type Option } from "@/kit/combobox";
import { Dialog, DialogBody, DialogFoot } from "@/kit/dialog";
import { Field } from "@/kit/field";
import { Failure } from "@/kit/states";
import { nameOf } from "@/timeline/name";
import { reviewsQuery } from "./review/data";
import type { Sides } from "./sides";
import { statesQuery } from "./states";

interface Props {
  workspace: Workspace;
  start: Sides;
  onChoose: (sides: Sides) => void;
  onClose: () => void;
}

/** Any two states of the workspace: its base, branch and files, what was merged, commits, turns and snapshots. */
export default function CompareDialog({ workspace: w, start, onChoose, onClose }: Props) {
  const now = useNow();
  const [from, setFrom] = useState(start.from);
  const [to, setTo] = useState(start.to);
  const [polls, setPolls] = useState(false);
  const commits = useQuery(commitsQuery(w.id));
  const reviews = useQuery(reviewsQuery(w.id));
  const states = useInfiniteQuery({ ...statesQuery(w.id, polls), placeholderData: (old) => old });
  const options = useMemo(() => {
    const row = (value: string, name: string, hint: string): Option => ({
      value,
      text: hint ? `${name} · ${hint}` : name,
      row: (
        <span className="flex min-w-0 flex-col py-1">
          <span className="truncate">{name}</span>
          {hint && <span className="truncate text-meta text-fg3">{hint}</span>}
        </span>
      ),
    });
    const out = [
      row("base", t`Base`, w.base),
      row("head", t`Branch`, w.branch),
      row("now", t`Now`, t`the files as they are`),
    ];
    if (reviews.data?.items.some((r) => r.mine && r.sent_at && r.state !== "cancelled"))
      out.push(row("review", t`Your last review`, t`the files you read then`));
    if (w.merged_commit) {
      out.push(row("merged^", t`Before the merge`, w.base));
      out.push(row("merged", t`The merge`, short(w.merged_commit)));
    }
    const timed: [number, Option][] = [];
    for (const k of commits.data ?? [])
      timed.push([k.at, row(k.commit, visible(k.subject), t`commit ${short(k.commit)}, ${ago(k.at, now)}`)]);
    for (const s of states.data?.pages.flatMap((p) => p.snapshots) ?? [])
      if (s.kind !== "commit" || !timed.some(([, o]) => o.value === s.head))
        timed.push([
          s.at,
          row(
            s.id,
            nameOf(s),
            `${exact(s.at)}, ${s.files > 0 ? plural(s.files, { one: "# file", other: "# files" }) : t`no changes`}`,
          ),
        ]);
    out.push(...timed.sort((a, b) => b[0] - a[0]).map(([, o]) => o));
    // The current sides are always among the choices.
    for (const rev of [start.from, start.to])
      if (!out.some((o) => o.value === rev))
        out.push(row(rev, rev.endsWith("^") ? t`Before ${short(rev)}` : short(rev), ""));
    return out;
  }, [w, now, commits.data, reviews.data, states.data, start]);
  const foot = (
    <div className="flex flex-wrap items-center gap-x-4 gap-y-1">
      <label className="flex min-h-6 items-center gap-2 pointer-coarse:min-h-11">
        <input type="checkbox" checked={polls} onChange={(e) => setPolls(e.target.checked)} />
        <Trans>Every file change</Trans>
      </label>
      {states.hasNextPage && (
        <Button look="quiet" busy={states.isFetchingNextPage && t`Loading`} onClick={() => void states.fetchNextPage()}>
          <Trans>Show older</Trans>
        </Button>
      )}
    </div>
  );
  const same = from === to;
  return (
    <Dialog open onClose={onClose} title={t`Compare two states`}>
      <form
        className="flex min-h-0 flex-1 flex-col"
        onSubmit={(e) => {
          e.preventDefault();
          if (!same) onChoose({ from, to });
        }}
      >
        <DialogBody className="flex flex-col gap-3">
          <Field label={t`From`}>
            {(ids) => (
              <Combobox {...ids} label={t`From`} value={from} onChange={setFrom} options={options} foot={foot} />
            )}
          </Field>
          <Field label={t`To`} error={same ? t`Choose two different states.` : undefined}>
            {(ids) => <Combobox {...ids} label={t`To`} value={to} onChange={setTo} options={options} foot={foot} />}
          </Field>
          {(states.isError || commits.isError) && (
            <Failure
              what={t`Some states could not be loaded.`}
              error={states.error ?? commits.error}
              retry={() => {
                void states.refetch();
                void commits.refetch();
              }}
            />
          )}
        </DialogBody>
        <DialogFoot>
          <Button
            look="quiet"
            className="mr-auto"
            onClick={() => {
              setFrom(to);
              setTo(from);
            }}
          >
            <Trans>Swap</Trans>
          </Button>
          <Button onClick={onClose}>
            <Trans>Cancel</Trans>
          </Button>
          <Button type="submit" look="primary" disabled={same}>
            <Trans>Compare</Trans>
          </Button>
        </DialogFoot>
      </form>
    </Dialog>
  );
}
