import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { api, data, type Schemas } from "@/api/client";
import { ApiError } from "@/api/problem";
import { visible } from "@/format/text";
import { confirm } from "@/state/confirm";
import { ConflictPlace } from "@/timeline/conflict-place";
import { type Conflict, isConflict } from "@/timeline/edit-words";

type Undone = Schemas["ThreadUndo"];
type Choices = Pick<Schemas["ThreadUndoRequest"], "files" | "dry_run" | "even_while_working">;

/** A file in which later changes contradict an undo. */
export interface Contradicted {
  path: string;
  message: string;
  places: Conflict[];
}

/** Makes a request safe to repeat. */
export const once = () => ({ "Idempotency-Key": crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}` });

/** The files that stop an undo and how many there are, or undefined if it failed for another reason. */
export function contradictions(error: unknown): { files: Contradicted[]; total: number } | undefined {
  if (!(error instanceof ApiError) || error.code !== "undo_conflict") return undefined;
  const given = Array.isArray(error.details.files) ? (error.details.files as Record<string, unknown>[]) : [];
  const files = given
    .filter((f) => typeof f?.path === "string")
    .map((f) => ({
      path: f.path as string,
      message: typeof f.message === "string" ? f.message : "",
      places: Array.isArray(f.conflicts) ? f.conflicts.filter(isConflict) : [],
    }));
  const total = Number(error.details.total);
  return { files, total: Math.max(files.length, Number.isFinite(total) ? total : 0) };
}

/** Undoes a thread from a prompt on, or its last turn: once `agreed` has seen what that changes. Undefined when a person said no. */
export async function undoFrom(
  thread: string,
  message?: string,
  agreed?: (what: Undone) => Promise<boolean>,
): Promise<Undone | undefined> {
  const ask = (how: Choices) =>
    data(
      api.POST("/threads/{id}/undo", {
        params: { path: { id: thread }, header: once() },
        body: { ...(message ? { message_id: message } : {}), ...how },
      }),
    );
  try {
    if (agreed && !(await agreed(await ask({ files: true, dry_run: true })))) return undefined;
    return await ask({ files: true });
  } catch (error) {
    const how = await instead(error);
    if (how === "no") return undefined;
    if (!how) throw error;
    return ask(how);
  }
}

/** What a person chooses when files cannot be taken back; undefined when there is no choice. */
async function instead(error: unknown): Promise<Choices | "no" | undefined> {
  if (!(error instanceof ApiError)) return undefined;
  if (error.code === "agent_working") {
    const yes = await confirm({
      title: t`Undo while another agent works?`,
      body: t`It works in this workspace, and would not notice that files changed.`,
      action: t`Undo anyway`,
      danger: true,
    });
    return yes ? { files: true, even_while_working: true } : "no";
  }
  const found = contradictions(error);
  if (!found && !/^(files_unknown|edit_expired|too_many_changes)$/.test(error.code)) return undefined;
  const yes = await confirm({
    title: found
      ? t`${plural(found.total, { one: "# file", other: "# files" })} cannot be taken back`
      : t`The files of these turns cannot be taken back`,
    body: found ? <Files {...found} /> : error.message,
    action: t`Undo the messages only`,
  });
  return yes ? { files: false } : "no";
}

/** Places of a file that are shown. */
const MOST = 3;

function Files({ files, total }: { files: readonly Contradicted[]; total: number }) {
  return (
    <>
      <p>
        <Trans>
          Later changes contradict the undo here, so nothing was undone. You can undo the messages and keep all files as
          they are, or cancel, change these places, and undo again.
        </Trans>
      </p>
      <ul className="mt-2 max-h-[45vh] overflow-y-auto">
        {files.map((f) => (
          <li key={f.path} className="mt-2">
            <p className="font-mono text-code break-all text-fg">{visible(f.path)}</p>
            {f.places.length === 0 && <p className="text-meta">{f.message}</p>}
            {f.places.slice(0, MOST).map((c) => (
              <ConflictPlace key={c.line} conflict={c} />
            ))}
            {f.places.length > MOST && (
              <p className="text-meta text-fg3">
                <Trans>
                  {plural(f.places.length - MOST, { one: "# more place", other: "# more places" })} not shown.
                </Trans>
              </p>
            )}
          </li>
        ))}
      </ul>
      {total > files.length && (
        <p className="mt-2 text-meta text-fg3">
          <Trans>{plural(total - files.length, { one: "# more file", other: "# more files" })} not shown.</Trans>
        </p>
      )}
    </>
  );
}
