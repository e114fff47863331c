import { t as tr } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "@/api/client";
import { exact } from "@/format/time";
import { Button } from "@/kit/button";
import { SettingsForm } from "@/kit/settings/form";
import { Failure, Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { type InstanceTeam, instanceTeamsQuery, peopleKeys } from "@/people/api";
import { useRefreshMe } from "@/people/use-refresh-me";

/** Every team of this server, for operators. */
export default function TeamsSettings() {
  const list = useQuery(instanceTeamsQuery());
  const [making, setMaking] = useState(false);
  return (
    <section aria-labelledby="teams" className="flex flex-col gap-4">
      <div className="flex flex-wrap items-start gap-x-4 gap-y-2">
        <div className="min-w-0 flex-1 basis-64">
          <h2 id="teams" className="text-title font-semibold">
            <Trans>Teams of this server</Trans>
          </h2>
          <p className="text-fg2">
            <Trans>Teams share nothing. Only members can see a team's contents.</Trans>
          </p>
        </div>
        {!making && (
          <Button look="primary" onClick={() => setMaking(true)}>
            <Trans>New team</Trans>
          </Button>
        )}
      </div>
      {making && <NewTeam close={() => setMaking(false)} />}
      {list.isPending ? (
        <Skeleton rows={4} label={tr`Loading the teams`} />
      ) : list.isError && !list.data ? (
        <Failure what={tr`The teams could not be loaded.`} error={list.error} retry={() => void list.refetch()} />
      ) : (
        <ul aria-label={tr`Teams`} className="divide-y divide-hairline border-y border-hairline">
          {list.data.map((t) => (
            <TeamRow key={t.id} team={t} />
          ))}
        </ul>
      )}
    </section>
  );
}

function NewTeam({ close }: { close: () => void }) {
  const refresh = useRefreshMe();
  return (
    <SettingsForm
      label={tr`New team`}
      className="gap-3 panel p-3"
      create
      loaded={{ name: "", owner: "" }}
      fields={[
        {
          className: "flex flex-wrap gap-3",
          fields: [
            {
              name: "name",
              label: tr`Name`,
              type: "text",
              errors: ["team", "slug"],
              className: "min-w-48 flex-1",
              input: { required: true, autoFocus: true, maxLength: 100 },
            },
            {
              name: "owner",
              label: tr`Owner (optional)`,
              type: "text",
              placeholder: "ada@example.com",
              hint: tr`A user of this server. Leave empty for yourself.`,
              errors: ["email"],
              className: "min-w-48 flex-1",
              input: { type: "email", maxLength: 254 },
            },
          ],
        },
        {
          note: () => (
            <p className="text-meta text-fg3">
              <Trans>
                With a second team, places without isolation are no longer offered unless config.json allows them.
              </Trans>
            </p>
          ),
        },
      ]}
      save={(_, { name, owner }) => data(api.POST("/instance/teams", { body: { name, ...(owner && { owner }) } }))}
      refresh={[peopleKeys.teams]}
      onSaved={async () => {
        await refresh();
        close();
      }}
      button={tr`Create team`}
      busy={tr`Creating`}
      cancel={close}
    />
  );
}

function TeamRow({ team: t }: { team: InstanceTeam }) {
  const params = { path: { id: t.id } };
  const change = useAction({
    act: () =>
      data(
        t.suspended_at
          ? api.POST("/instance/teams/{id}/restore", { params })
          : api.POST("/instance/teams/{id}/suspend", { params }),
      ),
    confirm: () =>
      !t.suspended_at && {
        title: tr`Suspend ${t.name}?`,
        body: tr`Nobody can work in it until you restore it. Its agents stop once their work is saved. Nothing is deleted.`,
        action: tr`Suspend`,
        danger: true,
      },
    done: useRefreshMe(),
    refresh: [peopleKeys.teams],
    failed: tr`${t.name} was not ${t.suspended_at ? tr`restored` : tr`suspended`}`,
  });
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 py-2">
      <div className="min-w-0 flex-1 basis-56">
        <p className="truncate">
          <span className="font-medium">{t.name}</span> <span className="text-fg3">/{t.slug}</span>
          {t.suspended_at && (
            <span className="text-failed" title={exact(t.suspended_at)}>
              {" "}
              <Trans>· suspended</Trans>
            </span>
          )}
        </p>
        <p className="text-meta break-words text-fg3">
          {t.members === 1 ? tr`1 member` : tr`${t.members} members`}
          {t.owners.length > 0 && tr`, owned by ${t.owners.map((o) => o.name).join(", ")}`} ·{" "}
          {t.workspaces === 1 ? tr`1 workspace` : tr`${t.workspaces} workspaces`}
          {t.sandboxes > 0 &&
            `, ${t.sandboxes === 1 ? tr`1 sandbox` : tr`${t.sandboxes} sandboxes`} ${t.suspended_at ? tr`being saved` : tr`running`}`}
          {t.second_factor && tr` · needs a second factor`}
        </p>
      </div>
      <Button
        busy={change.busy}
        onClick={() => void change.run()}
        aria-label={`${t.suspended_at ? tr`Restore` : tr`Suspend`} ${t.name}`}
      >
        {t.suspended_at ? tr`Restore` : tr`Suspend`}
      </Button>
    </li>
  );
}
