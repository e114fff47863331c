import { t } from "@lingui/core/macro";
import { api, data } from "@/api/client";
import { ApiError } from "@/api/problem";
import { toast, toastError } from "@/state/toasts";

/** Offers to allow the program of a command that the server's list refused, for the project. */
export function offerToAllow(error: unknown): void {
  if (!(error instanceof ApiError) || error.code !== "command_not_allowed") return;
  const { program, project_id: project } = error.details;
  if (typeof program !== "string" || typeof project !== "string") return;
  toast({
    kind: "note",
    title: t`${program} is not allowed on the server`,
    text: t`Allow it for this project, then start the session again.`,
    actions: [{ label: t`Allow ${program}`, run: () => void allow(project, program) }],
  });
}

async function allow(id: string, program: string): Promise<void> {
  const params = { path: { id } };
  try {
    const project = await data(api.GET("/projects/{id}", { params }));
    const allowed = new Set([...project.allowed_commands, program]);
    await data(api.PATCH("/projects/{id}", { params, body: { allowed_commands: [...allowed] } }));
    toast({ kind: "good", title: t`${program} is allowed in ${project.name}` });
  } catch (problem) {
    toastError(t`${program} was not allowed`, problem, () => void allow(id, program));
  }
}
