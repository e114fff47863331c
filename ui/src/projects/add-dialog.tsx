import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Suspense, useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { fieldError } from "@/api/problem";
import { keys } from "@/api/queries";
import { Button } from "@/kit/button";
import { Dialog, DialogBody, DialogFoot } from "@/kit/dialog";
import { Segmented, TextField } from "@/kit/field";
import { lazy } from "@/kit/part";
import { FormError, Skeleton } from "@/kit/states";
import { useTeam } from "@/state/team";
import { FolderBrowser } from "./folder-browser";

const MachineFolder = lazy(() => import("./machine-folder").then((m) => ({ default: m.MachineFolder })));

/** Adds a repository: by its URL, or as a folder on the server or on a member's machine. */
/** Where a project to add comes from. */
export type Adding = "url" | "folder" | "machine";

export default function AddProjectDialog({ kind }: { kind: Adding }) {
  const team = useTeam();
  const navigate = useNavigate();
  const client = useQueryClient();
  const [url, setUrl] = useState("");
  const [path, setPath] = useState("");
  const [there, setThere] = useState({ machine: "", path: "" });
  const [name, setName] = useState("");
  const close = () => void navigate({ to: ".", search: (s) => ({ ...s, add: undefined }) });

  const add = useMutation({
    mutationFn: (source: Schemas["ProjectSource"]) =>
      data(
        api.POST("/teams/{team}/projects", {
          params: { path: { team: team.slug } },
          body: { source, ...(name.trim() ? { name: name.trim() } : {}) },
        }),
      ),
    onSuccess: async (p) => {
      await client.invalidateQueries({ queryKey: keys.projects(team.slug) });
      // A folder is ready at once: go on to the first workspace. A clone shows its progress in the list.
      await navigate({
        to: "/$team/p",
        params: { team: team.slug },
        search: p.state === "ready" ? { new: p.id } : {},
      });
    },
  });
  const error = ["url", "path", "runner_id", "source"].map((f) => fieldError(add.error, f)).find(Boolean);
  const nameError = fieldError(add.error, "name");
  const where = { url: url.trim(), folder: path, machine: there.path }[kind];
  const submit = () => {
    if (!where) return;
    if (kind === "url") add.mutate({ kind: "url", url: where });
    else if (kind === "folder") add.mutate({ kind: "path", path: where });
    else add.mutate({ kind: "runner", runner_id: there.machine, path: where });
  };

  return (
    <Dialog
      open
      onClose={close}
      title={t`Add a project`}
      about={t`A git repository: cloned from a URL, or a folder on the server or on a machine.`}
    >
      <form
        className="flex min-h-0 flex-1 flex-col"
        onSubmit={(e) => {
          e.preventDefault();
          submit();
        }}
        onKeyDown={(e) => {
          if ((e.ctrlKey || e.metaKey) && e.key === "Enter") {
            e.preventDefault();
            submit();
          }
        }}
      >
        <DialogBody className="flex flex-col gap-4">
          <div>
            <Segmented
              label={t`Location`}
              value={kind}
              onChange={(v) => {
                add.reset();
                void navigate({ to: ".", search: (s) => ({ ...s, add: v }), replace: true });
              }}
              options={[
                ["url", "URL"],
                ["folder", t`Folder on the server`],
                ["machine", t`On a machine`],
              ]}
            />
          </div>
          {kind === "url" ? (
            <TextField
              label={t`Repository URL`}
              mono
              required
              autoFocus
              placeholder="https://github.com/acme/shop.git"
              hint={t`HTTPS or SSH. For a private repository put a token in the URL (https://TOKEN@host/...), which is stored as a secret, or use the server's SSH key.`}
              value={url}
              error={error}
              spellCheck={false}
              autoCapitalize="none"
              onChange={(e) => setUrl(e.target.value)}
            />
          ) : kind === "folder" ? (
            <FolderBrowser value={path} onChange={setPath} error={error} />
          ) : (
            <Suspense fallback={<Skeleton rows={3} label={t`Loading machines`} />}>
              <MachineFolder value={there} onChange={setThere} error={error} />
            </Suspense>
          )}
          <TextField
            label={t`Name`}
            placeholder={lastPart(where) || t`From the repository`}
            value={name}
            error={nameError}
            onChange={(e) => setName(e.target.value)}
          />
          {!error && !nameError && <FormError error={add.error} />}
        </DialogBody>
        <DialogFoot>
          <Button onClick={close}>
            <Trans>Cancel</Trans>
          </Button>
          <Button type="submit" look="primary" keys="mod+enter" busy={add.isPending && t`Adding`} disabled={!where}>
            {kind === "url" ? t`Clone` : t`Add`}
          </Button>
        </DialogFoot>
      </form>
    </Dialog>
  );
}

function lastPart(where: string): string {
  const parts = where.trim().replace(/\/+$/, "").split(/[/:]/);
  return (parts.at(-1) ?? "").replace(/\.git$/, "");
}
