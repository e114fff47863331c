import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { api, data } from "@/api/client";
import { keys } from "@/api/queries";
import { Button } from "@/kit/button";
import { useTeam } from "@/state/team";
import { toastError } from "@/state/toasts";

const CHECK = { name: t`Tests`, command: "python3 -m unittest", required: true, after_turn: false };

/** Makes the sample project and opens the composer on it. */
export function SampleButton({ look = "plain" }: { look?: "primary" | "plain" }) {
  const team = useTeam();
  const client = useQueryClient();
  const navigate = useNavigate();
  const make = useMutation({
    mutationFn: async () => {
      const made = await data(
        api.POST("/teams/{team}/projects", {
          params: { path: { team: team.slug } },
          body: { source: { kind: "sample" } },
        }),
      );
      // It comes with a check to look at; the sample is as good without.
      await api
        .PATCH("/projects/{id}", { params: { path: { id: made.id } }, body: { checks: [CHECK] } })
        .catch(() => {});
      return made;
    },
    onSuccess: async (p) => {
      await client.invalidateQueries({ queryKey: keys.projects(team.slug) });
      await navigate({ to: "/$team/w", params: { team: team.slug }, search: { new: p.id } });
    },
    onError: (error) => toastError(t`The sample project was not created`, error, () => make.mutate()),
  });
  return (
    <Button look={look} busy={make.isPending && t`Creating the sample`} onClick={() => make.mutate()}>
      <Trans>Try the sample project</Trans>
    </Button>
  );
}
