import { t } from "@lingui/core/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, data, type Session, type Workspace } from "@/api/client";
import { linksQuery } from "@/api/queries";
import { LinksDialog } from "@/kit/links-dialog";
import { LinkRow } from "./link-row";

interface Props {
  session: Session;
  workspace: Workspace;
  onClose: () => void;
}

const LIFETIMES = [
  [15, t`in 15 min`],
  [60, t`in an hour`],
  [480, t`in 8 hours`],
  [1440, t`in a day`],
  [10_080, t`in 7 days`],
] as const;

/** Creates and revokes share links: view one session without signing in. */
export default function ShareDialog({ session, workspace, onClose }: Props) {
  const client = useQueryClient();
  const create = useMutation({
    mutationFn: (body: { name: string; minutes: number }) =>
      data(api.POST("/sessions/{id}/links", { params: { path: { id: session.id } }, body })),
    onSuccess: () => void client.invalidateQueries({ queryKey: ["links"] }),
  });
  return (
    <LinksDialog
      onClose={onClose}
      title={t`Share ${session.agent_name}`}
      about={t`${workspace.key} ${workspace.name}. Anyone with the link can see this terminal and its scrollback without signing in. They cannot type or see anything else.`}
      subject={t`this session`}
      lifetimes={LIFETIMES}
      usual={60}
      list={useQuery(linksQuery(session.id))}
      create={create}
      row={(l) => <LinkRow key={l.id} link={l} />}
    />
  );
}
