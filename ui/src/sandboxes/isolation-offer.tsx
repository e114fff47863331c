import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, data } from "@/api/client";
import { keys } from "@/api/queries";
import { hourly } from "@/format/money";
import { sentence } from "@/format/text";
import { Button } from "@/kit/button";
import { FormError } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { isBoolean, recall, remember } from "@/state/remember";
import { useTeam } from "@/state/team";
import { toast } from "@/state/toasts";
import { placeKeys } from "./queries";
import { type Place, remoteKeys } from "./remote";

const DISMISSED = "isolation-offer.dismissed";

/**
 * Offers isolation to a person who is alone on the server, whose agents work without it as long as nobody says another place. One click
 * makes a place the server's default.
 */
export default function IsolationOffer() {
  const team = useTeam();
  const [dismissed, setDismissed] = useState(recall(DISMISSED, isBoolean) === true);
  const list = useQuery({
    queryKey: [...keys.executors(team.slug), "alone"],
    queryFn: () => data(api.GET("/teams/{team}/executors", { params: { path: { team: team.slug } } })),
    enabled: !dismissed,
    staleTime: 60_000,
  });
  const use = useAction({
    act: (p: Place) => data(api.PUT("/instance/places", { body: { values: { default_executor: p.kind } } })),
    refresh: [keys.executors(team.slug), placeKeys.policy(team.slug), remoteKeys.instance],
    done: (_, p) =>
      toast({
        kind: "good",
        title: t`New workspaces live in ${p.name}`,
        text: t`${sentence(p.isolation)} ${costOf(p)} Workspaces that exist stay where they are. Settings, Places changes this.`,
        lasts: 0,
      }),
  });
  if (dismissed || !list.data?.alone) return null;
  const isolated = list.data.items.filter((p) => p.isolated && !p.runner_id && !p.region_of);
  const open = isolated.filter((p) => p.available && p.allowed);
  const later = isolated.find((p) => p.not_set_up && p.price_nano_per_hour > 0);
  return (
    <section aria-labelledby="isolation-offer" className="mb-4 rounded-md border border-needs bg-bg1 p-3">
      <h2 id="isolation-offer" className="font-medium">
        <span aria-hidden className="mr-2 text-needs">
          ◆
        </span>
        <Trans>Agents work on this server without isolation</Trans>
      </h2>
      <p className="mt-1 text-fg2">
        <Trans>
          You are the only person here, so new workspaces live on this server itself: agents have the rights of the
          server's user and can reach its files and network. A place that isolates keeps them in their worktree.
        </Trans>
      </p>
      <ul className="mt-2 flex flex-col gap-2">
        {open.map((p) => (
          <li key={p.kind} className="flex flex-wrap items-baseline gap-x-3 gap-y-1">
            <Button busy={use.target?.kind === p.kind && t`Changing`} onClick={() => void use.run(p)}>
              <Trans>Use {p.name}</Trans>
            </Button>
            <span className="min-w-0 flex-1 basis-64 text-fg2">
              {costOf(p)} {sentence(p.isolation)}
            </span>
          </li>
        ))}
        {later && (
          <li className="text-fg2">
            <Trans>
              {later.name} is not set up. {costOf(later)}{" "}
              <Link
                to="/$team/settings/{-$section}"
                params={{ team: team.slug, section: "places" }}
                className="text-accent underline"
              >
                Set up a place in the cloud
              </Link>
            </Trans>
          </li>
        )}
      </ul>
      <FormError error={use.error} />
      <Button
        look="quiet"
        className="mt-2"
        onClick={() => {
          remember(DISMISSED, true);
          setDismissed(true);
        }}
      >
        <Trans>Work without isolation</Trans>
      </Button>
    </section>
  );
}

const costOf = (p: Place): string =>
  p.price_nano_per_hour > 0 ? t`${hourly(p.price_nano_per_hour)} an hour.` : t`No hourly cost.`;
