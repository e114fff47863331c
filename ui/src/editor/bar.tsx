import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import type { Workspace } from "@/api/client";
import { splitPath, visible } from "@/format/text";
import { Button, buttonClass, IconButton } from "@/kit/button";
import { inputClass } from "@/kit/field";
import { Icon } from "@/kit/icon";
import { useTeam } from "@/state/team";

/** The tree beside the file. */
export interface Tree {
  shown: boolean;
  toggle: () => void;
  wide: boolean;
}

/** The bar above a file: navigation, name and actions. */
export function Bar({
  workspace: w,
  path,
  tree: { shown, toggle, wide },
  children,
}: {
  workspace: Workspace;
  path: string;
  tree: Tree;
  children?: ReactNode;
}) {
  const team = useTeam();
  const { dir, name } = splitPath(path);
  return (
    <div className="flex min-h-10 items-center gap-2 border-b border-hairline bg-bg1 px-3 py-1">
      <Link
        to="/$team/w/$key"
        params={{ team: team.slug, key: w.key }}
        search={{ tab: "changes", file: path }}
        aria-label={t`Changes`}
        className={buttonClass("quiet", "-ml-2")}
      >
        <Icon name="arrowLeft" size={14} />
        {wide && t`Changes`}
      </Link>
      <IconButton
        label={!wide ? t`All files` : shown ? t`Hide all files` : t`All files (g f)`}
        aria-pressed={wide ? shown : undefined}
        onClick={toggle}
      >
        <Icon name={wide ? "sidebar" : "folder"} />
      </IconButton>
      {/* Where there is little room it is the name that is read, not the folders. */}
      <h1 className="min-w-0 flex-1 truncate font-mono text-code" title={visible(path)}>
        {wide && <span className="text-fg3">{visible(dir)}</span>}
        {visible(name)}
      </h1>
      {children}
    </div>
  );
}

/** Asks for a file's path. */
export function NameForm({
  start,
  action,
  onName,
  onCancel,
}: {
  start: string;
  action: string;
  onName: (name: string) => void;
  onCancel: () => void;
}) {
  const [name, setName] = useState(start);
  return (
    <form
      aria-label={action}
      className="flex flex-wrap items-center gap-2 border-b border-hairline bg-bg2 px-3 py-1.5"
      onSubmit={(e) => {
        e.preventDefault();
        if (name.trim() && name !== start) onName(name.trim());
      }}
      onKeyDown={(e) => e.key === "Escape" && onCancel()}
    >
      <input
        // biome-ignore lint/a11y/noAutofocus: opened by a button to type into
        autoFocus
        aria-label={t`Path of the file`}
        spellCheck={false}
        value={name}
        onChange={(e) => setName(e.target.value)}
        className={`${inputClass} max-w-xl flex-1 font-mono`}
      />
      <Button type="submit" disabled={!name.trim() || name === start}>
        {action}
      </Button>
      <Button look="quiet" onClick={onCancel}>
        <Trans>Cancel</Trans>
      </Button>
    </form>
  );
}
