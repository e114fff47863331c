import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, data, type Schemas, type Workspace } from "@/api/client";
import { executorsQuery, keys } from "@/api/queries";
import { FormError } from "@/kit/states";
import { useTeam } from "@/state/team";
import { toast } from "@/state/toasts";
import { limitsQuery, placeKeys } from "./queries";
import type { Place } from "./remote";
import { sizeForLimits, sizeId } from "./remote-words";
import PlaceTerms from "./terms";
import { whole } from "./words";

/** The size a workspace's next sandbox gets, and whether it may start on this server instead. */
export function OwnTerms({ workspace: w, place }: { workspace: Workspace; place: Place }) {
  const team = useTeam();
  const client = useQueryClient();
  const limits = useQuery(limitsQuery(w.id));
  const places = useQuery(executorsQuery(team.slug));
  const resize = useMutation({
    mutationFn: (l: Schemas["ResourceLimits"]) =>
      data(api.PUT("/workspaces/{id}/limits", { params: { path: { id: w.id } }, body: l })),
    onSuccess: (saved) => {
      client.setQueryData(placeKeys.limits(w.id), saved);
      toast({
        kind: "good",
        title: t`Saved`,
        text: t`The next sandbox has this size. A running sandbox keeps its size.`,
      });
    },
  });
  const agree = useMutation({
    mutationFn: (yes: boolean) =>
      data(api.PATCH("/workspaces/{id}", { params: { path: { id: w.id } }, body: { fallback_ok: yes } })),
    onSuccess: (now) => client.setQueryData(keys.workspace(w.id), now),
  });
  if (!team.can("workspace.edit") || !limits.data) return null;
  const now = limits.data;
  const size = sizeForLimits(place, whole(now.effective));
  return (
    <section aria-labelledby="place-terms">
      <h2 id="place-terms" className="text-title font-semibold">
        <Trans>Next sandbox</Trans>
      </h2>
      <PlaceTerms
        place={place}
        places={places.data ?? []}
        size={size && sizeId(size)}
        onSize={(id) => {
          const s = place.sizes.find((x) => sizeId(x) === id);
          if (s) resize.mutate({ ...now.limits, cpus: s.cpus, memory_mb: s.memory_mb });
        }}
        fallback={agree.isPending ? agree.variables : (w.fallback_ok ?? false)}
        onFallback={(yes) => agree.mutate(yes)}
      />
      <FormError error={resize.error ?? agree.error} />
    </section>
  );
}
