import { t } from "@lingui/core/macro";
import { useQuery } from "@tanstack/react-query";
import type { Project } from "@/api/client";
import { visible } from "@/format/text";
import { Field, inputClass } from "@/kit/field";
import { machineQuery } from "@/machines/api";
import { ACCESS } from "@/machines/words";

interface Props {
  machineId: string;
  project: Project;
  /** The folder whose repository the workspace uses; "" = the project's own if it is on this machine, else none. */
  folder: string;
  onFolder: (path: string) => void;
}

/** What there is to say about work on a member's machine: from which of its folders, and what its owner is asked. */
export default function MachineTerms({ machineId, project, folder, onFolder }: Props) {
  const m = useQuery(machineQuery(machineId)).data;
  if (!m) return null;
  const { source } = project;
  const own = source.kind === "runner" && source.runner_id === machineId ? source.path : undefined;
  const folders = m.folders.filter((f) => f.git && f.access !== "read_only" && f.path !== own);
  const first = own ? t`The project's own: ${visible(own)}` : t`A separate copy, sent by the server`;
  return (
    <div className="flex flex-col gap-3 empty:hidden">
      {m.access !== "full" && (
        <p className="text-needs">
          <span aria-hidden>◆ </span>
          {m.access === "read_only"
            ? ACCESS.read_only.means
            : t`${m.mine ? t`You are` : t`${m.user_name} is`} asked for approval at the machine before anything starts there.`}
        </p>
      )}
      {(folders.length > 0 || own) && (
        <Field
          label={t`Repository on ${m.name}`}
          hint={
            folder || own
              ? t`A separate worktree next to that folder, whose files do not change. You can deliver the branch to its repository.`
              : t`The machine's folders are not changed.`
          }
        >
          {(ids) => (
            <select {...ids} className={inputClass} value={folder} onChange={(e) => onFolder(e.target.value)}>
              <option value="">{first}</option>
              {folders.map((f) => (
                <option key={f.path} value={f.path}>
                  {visible(f.path)}
                  {f.branch ? ` (${visible(f.branch)})` : ""}
                </option>
              ))}
            </select>
          )}
        </Field>
      )}
    </div>
  );
}
