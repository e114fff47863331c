import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Workspace } from "@/api/client";
import { keys } from "@/api/queries";
import { useTeam } from "@/app/team";
import { Button } from "@/kit/button";
import { FormError } from "@/kit/states";
import { workspacePlacesQuery } from "@/places/queries";
import { livesIn, placeBody, placeId } from "@/places/which";
import { Place } from "@/screens/new-workspace/place";
import { confirm } from "@/state/confirm";
import { toast } from "@/state/toasts";

/** Another place for a workspace. Its files and commits come along; what runs must have ended. */
export function Move({ workspace: w }: { workspace: Workspace }) {
  const team = useTeam();
  const client = useQueryClient();
  const places = useQuery(workspacePlacesQuery(w.id));
  const [to, setTo] = useState(livesIn(w));
  const move = useMutation({
    mutationFn: () => data(api.PATCH("/workspaces/{id}", { params: { path: { id: w.id } }, body: placeBody(to) })),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: keys.workspace(w.id) });
      void client.invalidateQueries({ queryKey: ["team", team.slug, "workspaces"] });
      toast({ kind: "good", title: "Moved", text: "The new place is made with the next session." });
    },
  });
  if (!team.can("workspace.edit") || !places.data || places.data.items.length < 2) return null;
  const target = places.data.items.find((p) => placeId(p.executor) === to);
  const ask = async () => {
    const yes = await confirm({
      title: `Move ${w.key} to ${target?.executor.name ?? to}?`,
      body: [...(target?.changes ?? []), "Files and commits come along."].join(" "),
      action: "Move",
      danger: target ? !target.executor.isolated : false,
    });
    if (yes) move.mutate();
  };
  return (
    <details>
      <summary className="w-fit cursor-pointer text-title font-semibold">Move to another place</summary>
      <div className="mt-2 flex flex-col gap-3">
        <Place
          places={places.data.items.map((p) => p.executor)}
          value={to}
          onChange={setTo}
          legend="New place"
          name="move-to"
        />
        {target && target.changes.length > 0 && (
          <ul className="list-disc pl-5 text-fg2">
            {target.changes.map((c) => (
              <li key={c}>{c}</li>
            ))}
          </ul>
        )}
        {!places.data.movable && <p className="text-needs">{places.data.reason}</p>}
        <FormError error={move.error} />
        <Button
          className="self-start"
          disabled={
            to === livesIn(w) || !target?.executor.available || !target.executor.allowed || !places.data.movable
          }
          busy={move.isPending && "Moving"}
          onClick={() => void ask()}
        >
          Move
        </Button>
      </div>
    </details>
  );
}
