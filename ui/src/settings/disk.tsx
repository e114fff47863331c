import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { diskQuery } from "@/api/disk";
import { useNow } from "@/format/now";
import { bytes } from "@/format/text";
import { ago } from "@/format/time";
import Storage from "@/history/storage";
import { Button } from "@/kit/button";
import { Check } from "@/kit/field";
import { Busy, Failure, FormError, Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { useTeam } from "@/state/team";
import { toast } from "@/state/toasts";

type Kind = Schemas["FreeDisk"]["what"][number];

const NAMES: Record<Schemas["DiskUse"]["kind"], string> = {
  repositories: t`Repositories`,
  worktrees: t`Files of workspaces`,
  homes: t`Agents' homes`,
  snapshots: t`Snapshots (within repositories)`,
  terminals: t`Terminals`,
  caches: t`Shared caches`,
  artifacts: t`Artifacts`,
  trash: t`Trash (within the others)`,
  leftovers: t`Leftovers`,
  loose: t`Repositories not packed`,
};

/** What making each kind smaller does. */
const EFFECTS: Record<Kind, string> = {
  trash: t`Everything in the trash is deleted permanently.`,
  leftovers: t`Remains of interrupted deletions.`,
  caches: t`Downloads and builds; sandboxes fetch them again.`,
  loose: t`Packs the repositories. No work changes.`,
};

/** What the team's work takes on disk, what could be made free, and what sessions printed. */
export default function DiskSettings() {
  return (
    <div className="flex flex-col gap-7">
      <DiskPart />
      <Storage />
    </div>
  );
}

function DiskPart() {
  const team = useTeam();
  const now = useNow();
  const disk = useQuery(diskQuery(team.slug));
  const d = disk.data;
  return (
    <section aria-labelledby="disk">
      <h2 id="disk" className="mb-1 text-title font-semibold">
        <Trans>Disk</Trans>
      </h2>
      {disk.isPending ? (
        <Skeleton rows={4} label={t`Loading the disk usage`} />
      ) : !d ? (
        <Failure what={t`The disk usage could not be loaded.`} error={disk.error} retry={() => void disk.refetch()} />
      ) : d.counted_at === null ? (
        <Busy>
          <Trans>Counting the disk usage…</Trans>
        </Busy>
      ) : (
        <>
          <p className="text-fg2">
            <Trans>
              {bytes(d.bytes)} on disk, counted {ago(d.counted_at, now)}
              {d.counting && t`; counting again`}.
            </Trans>
          </p>
          <dl className="mt-2 grid max-w-xl grid-cols-[1fr_auto] gap-x-4 border-y border-hairline py-1 leading-6">
            {d.by.map((u) => (
              <div key={u.kind} className="contents">
                <dt>{NAMES[u.kind]}</dt>
                <dd className="text-right tabular-nums">{bytes(u.bytes)}</dd>
              </div>
            ))}
          </dl>
          {team.can("team.manage") && <Free uses={d.would_free} />}
          {d.workspaces.length > 0 && (
            <details className="mt-3">
              <summary className="cursor-pointer text-fg2">
                <Trans>By workspace</Trans>
              </summary>
              <ul className="mt-1 max-h-80 divide-y divide-hairline overflow-y-auto border-y border-hairline">
                {d.workspaces.map((w) => (
                  <li key={w.id} className="flex min-h-8 flex-wrap items-baseline gap-x-3 py-1">
                    <Link
                      to="/$team/w/$key"
                      params={{ team: team.slug, key: w.key }}
                      className="min-h-6 min-w-0 flex-1 truncate leading-6 text-accent hover:underline"
                    >
                      {w.name}
                    </Link>
                    {w.deleted && (
                      <span className="text-meta text-fg3">
                        <Trans>in the trash</Trans>
                      </span>
                    )}
                    <span className="text-meta text-fg3">
                      <Trans>
                        files {bytes(w.worktree)} · snapshots {bytes(w.snapshots)}
                      </Trans>
                    </span>
                    <span className="w-20 text-right tabular-nums">{bytes(w.bytes)}</span>
                  </li>
                ))}
              </ul>
            </details>
          )}
        </>
      )}
    </section>
  );
}

function Free({ uses }: { uses: Schemas["DiskUse"][] }) {
  const team = useTeam();
  const [chosen, setChosen] = useState<Kind[]>([]);
  const shown = uses.filter((u) => u.bytes > 0);
  const free = useAction({
    act: () =>
      data(api.POST("/teams/{team}/disk/free", { params: { path: { team: team.slug } }, body: { what: chosen } })),
    done: (f) => {
      setChosen([]);
      toast({
        kind: f.failed.length > 0 ? "bad" : "good",
        title: t`${bytes(f.bytes)} freed`,
        ...(f.failed.length > 0 && { text: f.failed.join(" ") }),
      });
    },
    refresh: [["team", team.slug]],
  });
  if (shown.length === 0)
    return (
      <p className="mt-3 text-fg2">
        <Trans>There is nothing to free.</Trans>
      </p>
    );
  const sum = shown.filter((u) => chosen.includes(u.kind as Kind)).reduce((n, u) => n + u.bytes, 0);
  return (
    <form
      aria-label={t`Free up space`}
      className="mt-3 flex max-w-xl flex-col gap-2"
      onSubmit={(e) => {
        e.preventDefault();
        void free.run();
      }}
    >
      <p>
        <Trans>Up to {bytes(shown.reduce((n, u) => n + u.bytes, 0))} can be freed:</Trans>
      </p>
      {shown.map((u) => {
        const kind = u.kind as Kind;
        return (
          <Check
            key={kind}
            label={`${u.kind === "trash" ? t`Trash` : NAMES[u.kind]}: ${kind === "loose" ? t`up to ` : ""}${bytes(u.bytes)}`}
            hint={EFFECTS[kind]}
            checked={chosen.includes(kind)}
            onChange={(e) => setChosen((c) => (e.target.checked ? [...c, kind] : c.filter((k) => k !== kind)))}
          />
        );
      })}
      <FormError error={free.error} />
      <div className="flex items-center gap-3">
        <Button
          type="submit"
          look={chosen.includes("trash") ? "danger" : "plain"}
          disabled={chosen.length === 0}
          busy={free.busy && t`Freeing space`}
        >
          <Trans>Free up space</Trans>
        </Button>
        <span className="text-fg2" aria-live="polite">
          {chosen.length > 0 &&
            t`Would free ${bytes(sum)}${chosen.includes("trash") ? t`; ${plural(uses.find((u) => u.kind === "trash")?.items ?? 0, { one: "# thing", other: "# things" })} in the trash cannot be restored then` : ""}.`}
        </span>
      </div>
    </form>
  );
}
