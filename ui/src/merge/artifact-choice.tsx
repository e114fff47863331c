import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Schemas, type Workspace } from "@/api/client";
import { bytes, visible } from "@/format/text";
import { Check } from "@/kit/field";
import { Failure } from "@/kit/states";

type Choice = Schemas["ArtifactChoice"];

const MOST = 20;
const WEEK = 7 * 24 * 60;

interface Props {
  workspace: Workspace;
  value: Choice[];
  onChange: (v: Choice[]) => void;
  /** Whether links can be chosen too. */
  links?: boolean;
}

/** Chooses artifacts of the workspace to attach. The list is loaded when it is opened. */
export function ArtifactChoice({ workspace: w, value, onChange, links = false }: Props) {
  const [open, setOpen] = useState(false);
  const list = useQuery({
    queryKey: ["workspace", w.id, "artifacts", "newest"],
    queryFn: async () =>
      (await data(api.GET("/workspaces/{id}/artifacts", { params: { path: { id: w.id }, query: { limit: 100 } } })))
        .items,
    enabled: open,
  });
  const set = (id: string, on: boolean) => onChange(on ? [...value, { id }] : value.filter((c) => c.id !== id));
  const link = (id: string, on: boolean) =>
    onChange(value.map((c) => (c.id === id ? { id, ...(on ? { link_minutes: WEEK } : {}) } : c)));
  return (
    <details onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary className="w-fit cursor-pointer">
        <Trans>Artifacts</Trans>
        {value.length > 0 && ` (${value.length})`}
      </summary>
      <div className="max-h-48 overflow-y-auto pt-1">
        {list.isError && (
          <Failure what={t`The artifacts could not be loaded.`} error={list.error} retry={() => void list.refetch()} />
        )}
        {list.data?.length === 0 && (
          <p className="text-fg3">
            <Trans>The workspace has no artifacts.</Trans>
          </p>
        )}
        {list.data?.map((a) => {
          const chosen = value.find((c) => c.id === a.id);
          return (
            <div key={a.id} className="flex flex-wrap gap-x-4">
              <Check
                label={`${visible(a.name)} (${bytes(a.size)})`}
                checked={chosen !== undefined}
                disabled={!chosen && value.length >= MOST}
                onChange={(e) => set(a.id, e.target.checked)}
              />
              {links && chosen && (
                <Check
                  label={t`with a link for 7 days`}
                  aria-label={t`${a.name}: with a link for 7 days`}
                  checked={chosen.link_minutes !== undefined}
                  onChange={(e) => link(a.id, e.target.checked)}
                />
              )}
            </div>
          );
        })}
        {links && value.some((c) => c.link_minutes) && (
          <p className="text-meta text-fg3">
            <Trans>Anyone who can read the description can use the links without signing in.</Trans>
          </p>
        )}
      </div>
    </details>
  );
}
