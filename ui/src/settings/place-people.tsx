import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { api, data, type Schemas } from "@/api/client";
import { keys, membersQuery } from "@/api/queries";
import { hourly } from "@/format/money";
import { SettingsForm } from "@/kit/settings/form";
import { Failure, Skeleton } from "@/kit/states";
import { useTeam } from "@/state/team";
import { priceOf } from "./instance-api";

type Places = Schemas["TeamPlaces"]["executors"];

const wishesKey = (team: string) => ["team", team, "place-wishes"];
const rightsKey = (team: string) => ["team", team, "place-rights"];

/** Where a person wants their own workspaces. */
export function PlaceWishes({ places }: { places: Places }) {
  const team = useTeam();
  const client = useQueryClient();
  const wishes = useQuery({
    queryKey: wishesKey(team.slug),
    queryFn: () => data(api.GET("/teams/{team}/place-wishes", { params: { path: { team: team.slug } } })),
  });
  if (wishes.isPending) return <Skeleton rows={3} label={t`Loading your places`} />;
  if (!wishes.data) return <Failure what={t`Your places could not be loaded.`} error={wishes.error} />;
  const { machine_first, executor, fallback, fallback_nano } = wishes.data;
  const choices = places
    .filter((p) => !p.runner_id && p.allowed)
    .map((p) => ({
      value: p.kind,
      label: `${p.name}${priceOf(p) > 0 ? t` (${hourly(priceOf(p))} an hour)` : ""}`,
      disabled: !p.available,
    }));
  return (
    <SettingsForm
      loaded={{ machine_first, executor, fallback }}
      fields={[
        {
          name: "machine_first",
          label: t`Use my own machine first`,
          type: "boolean",
          hint: t`New workspaces go to your machine while it is connected, unless it isolates less than the place it replaces.`,
        },
        {
          name: "executor",
          label: t`My place for new workspaces`,
          type: "choice",
          options: [{ value: "", label: t`As the project or the team says` }, ...choices],
        },
        {
          name: "fallback",
          label: t`When my machine is away`,
          type: "choice",
          hint:
            fallback && fallback_nano > 0
              ? t`You agreed to ${hourly(fallback_nano)} an hour. What only the machine holds is fetched once it is back.`
              : t`Where work goes by itself whose machine is not connected and in which no session is open. It costs what is shown.`,
          options: [{ value: "", label: t`Wait for the machine` }, ...choices],
        },
      ]}
      save={(changed) =>
        data(api.PUT("/teams/{team}/place-wishes", { params: { path: { team: team.slug } }, body: changed }))
      }
      onSaved={(saved) => client.setQueryData(wishesKey(team.slug), saved)}
      refresh={[keys.executors(team.slug)]}
      button={t`Save my places`}
    >
      <h2 className="text-title font-semibold">
        <Trans>My workspaces</Trans>
      </h2>
    </SettingsForm>
  );
}

const AS_MEMBERS = "";

/** Who may use this server without isolation. */
export function PlaceRights() {
  const team = useTeam();
  const client = useQueryClient();
  const members = useQuery(membersQuery(team.slug));
  const rights = useQuery({
    queryKey: rightsKey(team.slug),
    queryFn: () => data(api.GET("/teams/{team}/place-rights", { params: { path: { team: team.slug } } })),
  });
  if (rights.isPending || members.isPending) return <Skeleton rows={3} label={t`Loading who may do what`} />;
  if (!rights.data || !members.data)
    return <Failure what={t`The rights could not be loaded.`} error={rights.error ?? members.error} />;
  const word = (may: boolean | null | undefined) => (may === true ? "yes" : may === false ? "no" : AS_MEMBERS);
  const may = (said: string | undefined) => (said === "yes" ? true : said === "no" ? false : null);
  const loaded: Record<string, string> = Object.fromEntries(
    members.data.map((m) => [m.user.id, word(rights.data.people.find((r) => r.user_id === m.user.id)?.trusted)]),
  );
  return (
    <SettingsForm
      loaded={{ members: word(rights.data.members), ...loaded } as Record<string, string>}
      fields={[
        {
          name: "members",
          label: t`Members`,
          type: "choice",
          options: [
            { value: AS_MEMBERS, label: t`May, as far as the minimum isolation allows` },
            { value: "no", label: t`May not` },
          ],
        },
        ...members.data.map((m) => ({
          name: m.user.id,
          label: m.user.name,
          type: "choice" as const,
          options: [
            { value: AS_MEMBERS, label: t`As members` },
            { value: "yes", label: t`May` },
            { value: "no", label: t`May not` },
          ],
        })),
      ]}
      save={(changed) => {
        const { members: all, ...people } = changed as Record<string, string>;
        return data(
          api.PUT("/teams/{team}/place-rights", {
            params: { path: { team: team.slug } },
            body: {
              members: may(all ?? word(rights.data.members)),
              people: Object.entries(people).map(([user_id, said]) => ({ user_id, trusted: may(said) })),
            },
          }),
        );
      }}
      onSaved={(saved) => client.setQueryData(rightsKey(team.slug), saved)}
      refresh={[keys.executors(team.slug)]}
      button={t`Save the rights`}
    >
      <div>
        <h2 className="text-title font-semibold">
          <Trans>This server without isolation</Trans>
        </h2>
        <p className="text-fg2">
          <Trans>Who may start agents in a place of this server that isolates nothing.</Trans>
        </p>
      </div>
    </SettingsForm>
  );
}
