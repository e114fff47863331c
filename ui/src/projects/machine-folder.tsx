import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { visible } from "@/format/text";
import { cx } from "@/kit/cx";
import { Field, inputClass } from "@/kit/field";
import { Icon } from "@/kit/icon";
import { Failure, Skeleton } from "@/kit/states";
import { foldersQuery, type Machine, machinesQuery } from "@/machines/api";
import { Danger } from "@/machines/danger";
import { useTeam } from "@/state/team";

export interface OnMachine {
  machine: string;
  path: string;
}

interface Props {
  value: OnMachine;
  onChange: (v: OnMachine) => void;
  error?: string;
}

/** Chooses one of the folders that a machine's owner allows. */
export function MachineFolder({ value, onChange, error }: Props) {
  const team = useTeam();
  const machines = useQuery(machinesQuery(team.slug));
  if (machines.isPending) return <Skeleton rows={2} label={t`Loading machines`} />;
  if (machines.isError && !machines.data)
    return (
      <Failure
        what={t`The machines could not be loaded.`}
        error={machines.error}
        retry={() => void machines.refetch()}
      />
    );
  const mine = machines.data.filter((m) => m.may_use && m.state !== "revoked");
  const online = mine.filter((m) => m.state === "online");
  const chosen = mine.find((m) => m.id === value.machine) ?? (online.length === 1 ? online[0] : undefined);
  if (mine.length === 0)
    return (
      <p className="rounded-md bg-bg2 px-3 py-2 text-fg2">
        <Trans>
          No machine connected.{" "}
          <Link
            to="/$team/machines"
            params={{ team: team.slug }}
            search={{ connect: true }}
            className="text-accent underline"
          >
            Connect one
          </Link>{" "}
          and allow the folder there with <code>--folder</code>.
        </Trans>
      </p>
    );
  return (
    <div className="flex flex-col gap-4">
      <Field label={t`Machine`}>
        {(ids) => (
          <select
            {...ids}
            className={inputClass}
            value={chosen?.id ?? ""}
            onChange={(e) => onChange({ machine: e.target.value, path: "" })}
          >
            {!chosen && (
              <option value="">
                <Trans>Choose a machine</Trans>
              </option>
            )}
            {mine.map((m) => (
              <option key={m.id} value={m.id} disabled={m.state !== "online"}>
                {m.name}
                {m.mine ? "" : ` (${m.user_name})`}
                {m.dangerous ? t`, DANGEROUS` : ""}
                {m.state === "online" ? "" : t`, offline`}
              </option>
            ))}
          </select>
        )}
      </Field>
      {chosen && <FoldersOf key={chosen.id} machine={chosen} value={value.path} onChange={onChange} error={error} />}
    </div>
  );
}

interface FoldersProps {
  machine: Machine;
  value: string;
  onChange: (v: OnMachine) => void;
  error?: string;
}

function FoldersOf({ machine: m, value, onChange, error }: FoldersProps) {
  const folders = useQuery(foldersQuery(m.id));
  if (folders.isPending) return <Skeleton rows={3} label={t`Loading the folders of ${m.name}`} />;
  if (folders.isError && !folders.data)
    return (
      <Failure
        what={t`The folders of ${m.name} could not be loaded.`}
        error={folders.error}
        retry={() => void folders.refetch()}
      />
    );
  if (folders.data.length === 0)
    return (
      <p className="rounded-md bg-bg2 px-3 py-2 text-fg2">
        <Trans>
          {m.mine ? t`No folders are allowed there yet.` : t`${m.user_name} has not allowed any folders there yet.`}{" "}
          Start it again with <code>--folder /path/to/repository</code>, or add the folder to its{" "}
          <code>runner.json</code>.
        </Trans>
      </p>
    );
  return (
    <fieldset>
      <legend className="mb-1 flex items-baseline gap-2 font-medium">
        <Trans>Folder on {m.name}</Trans> {m.dangerous && <Danger />}
      </legend>
      <div className="divide-y divide-hairline overflow-hidden rounded-md border border-control">
        {folders.data.map((f) => (
          <label
            key={f.path}
            className={cx(
              "flex items-start gap-2.5 px-3 py-1.5 has-checked:bg-bg2 has-focus-visible:outline-2 has-focus-visible:-outline-offset-2 has-focus-visible:outline-accent",
              !f.git && "cursor-default",
            )}
          >
            <input
              type="radio"
              name="machine-folder"
              value={f.path}
              checked={value === f.path}
              disabled={!f.git}
              onChange={() => onChange({ machine: m.id, path: f.path })}
              className="mt-1 size-3 shrink-0 accent-fill outline-none"
            />
            <Icon
              name={f.git ? "git" : "folder"}
              size={15}
              className={cx("mt-0.5 shrink-0", f.git ? "text-merged" : "text-fg3")}
            />
            <span className="min-w-0 flex-1">
              <span className={cx("block break-words", !f.git && "text-fg3")}>{visible(f.name)}</span>
              <span className="block font-mono text-micro break-all text-fg3">{visible(f.path)}</span>
            </span>
            <span className="text-meta text-fg3">{f.git ? visible(f.branch) : t`no repository`}</span>
          </label>
        ))}
      </div>
      {error && <p className="mt-1 text-meta text-failed">{error}</p>}
      <p className="mt-1 text-meta text-fg3">
        <Trans>
          The server stores a copy of its commits and does not change the folder. The owner decides what Parawork may
          use.
        </Trans>
      </p>
    </fieldset>
  );
}
