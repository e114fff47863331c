import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useNavigate } from "@tanstack/react-router";
import { Command } from "cmdk";
import { useMemo, useState } from "react";
import type { Workspace } from "@/api/client";
import { tell } from "@/api/problem";
import { count } from "@/format/text";
import { FindDialog } from "@/kit/find-dialog";
import { useTeam } from "@/state/team";
import { Marked } from "./marked";
import { usePaths } from "./paths";
import { opened, recentFiles } from "./recent";

const MOST = 60;

/** Opens any file of a workspace by some characters of its path. */
export default function QuickOpen({ workspace: w, onClose }: { workspace: Workspace; onClose: () => void }) {
  const team = useTeam();
  const navigate = useNavigate();
  const [typed, setTyped] = useState("");
  // "pane.tsx:40" is line 40 of the file.
  const [, name = "", goto] = /^(.*?)(?::(\d+(?::\d+)?)?)?$/.exec(typed) ?? [];
  const { found, error, late } = usePaths(w.id, name, MOST);
  const recent = useMemo(() => recentFiles(w.id), [w.id]);
  const items = name.trim() ? (found?.items ?? []) : recent.map((path) => ({ path, at: [] }));
  const open = (path: string) => {
    onClose();
    opened(w.id, path);
    void navigate({
      to: "/$team/w/$key/edit",
      params: { team: team.slug, key: w.key },
      search: { path, goto: goto && (goto.includes(":") ? goto : `${goto}:1`) },
    });
  };
  return (
    <FindDialog
      title={t`Open a file of ${w.name}`}
      label={t`Open a file`}
      placeholder={t`File name or path, :line`}
      value={typed}
      onChange={setTyped}
      onClose={onClose}
      foot={
        <p role="status" className="border-t border-hairline px-3.5 py-1.5 text-meta text-fg3">
          {!name.trim()
            ? t`Recently opened`
            : found
              ? t`${count(found.total)} of ${count(found.of)} files${found.truncated ? t`, of more than can be listed` : ""}`
              : t`Searching`}
        </p>
      }
    >
      {error ? (
        <p role="alert" className="px-2.5 py-4 text-failed">
          <Trans>The files could not be listed. {tell(error).message}</Trans>
        </p>
      ) : (
        !late && (
          <Command.Empty className="px-2.5 py-6 text-center text-fg3">
            {name.trim() ? t`No file matches.` : t`Type a part of a file's path.`}
          </Command.Empty>
        )
      )}
      {items.map(({ path, at }) => (
        <Command.Item
          key={path}
          value={path}
          onSelect={() => open(path)}
          className="flex min-h-8 cursor-pointer items-baseline gap-2 rounded-sm px-2.5 py-1 data-[selected=true]:bg-bg2 pointer-coarse:min-h-11"
        >
          <Marked path={path} at={at} />
        </Command.Item>
      ))}
    </FindDialog>
  );
}
