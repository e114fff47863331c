import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useRouter } from "@tanstack/react-router";
import { Suspense, useState } from "react";
import { api, data } from "@/api/client";
import { fieldError } from "@/api/problem";
import { Button } from "@/kit/button";
import { Check, TextField } from "@/kit/field";
import { lazy } from "@/kit/part";
import { Skeleton } from "@/kit/states";
import { refreshMe } from "@/people/api";
import { confirm } from "@/state/confirm";
import { useMe, useTeam } from "@/state/team";
import { toast, toastError } from "@/state/toasts";

const Webhooks = lazy(() => import("./webhooks"));

/** The team's name, its rules, and further teams. */
export default function TeamSettings() {
  const team = useTeam();
  const me = useMe();
  const manage = team.can("team.manage");
  return (
    <div className="flex flex-col gap-7">
      {manage ? <TeamName key={team.id} /> : <h2 className="text-title font-semibold">{team.name}</h2>}
      {manage && <SecondFactor />}
      {manage && (
        <Suspense fallback={<Skeleton rows={2} />}>
          <Webhooks />
        </Suspense>
      )}
      {me.user.operator && <NewTeam />}
    </div>
  );
}

function TeamName() {
  const team = useTeam();
  const client = useQueryClient();
  const router = useRouter();
  const [name, setName] = useState(team.name);
  const save = useMutation({
    mutationFn: () =>
      data(api.PATCH("/teams/{team}", { params: { path: { team: team.slug } }, body: { name: name.trim() } })),
    onSuccess: async () => {
      await refreshMe(client, router);
      toast({ kind: "good", title: "Renamed" });
    },
  });
  return (
    <form
      className="flex items-start gap-2"
      onSubmit={(e) => {
        e.preventDefault();
        save.mutate();
      }}
    >
      <TextField
        fieldClass="max-w-sm flex-1"
        label="Name of the team"
        required
        value={name}
        hint={`Its address stays /${team.slug}.`}
        error={fieldError(save.error, "name") ?? (save.error ? save.error.message : undefined)}
        onChange={(e) => setName(e.target.value)}
      />
      <Button
        type="submit"
        className="mt-6"
        disabled={!name.trim() || name.trim() === team.name}
        busy={save.isPending && "Saving"}
      >
        Save
      </Button>
    </form>
  );
}

function SecondFactor() {
  const team = useTeam();
  const client = useQueryClient();
  const router = useRouter();
  const save = useMutation({
    mutationFn: (on: boolean) =>
      data(api.PATCH("/teams/{team}", { params: { path: { team: team.slug } }, body: { second_factor: on } })),
    onSuccess: () => refreshMe(client, router),
    onError: (error) => toastError("This was not changed", error),
  });
  const change = async (on: boolean) => {
    const sure =
      !on ||
      (await confirm({
        title: `Ask every member of ${team.name} for a second factor?`,
        body: "Members without one see nothing of the team until they have set one up. What their agents do goes on.",
        action: "Ask for it",
      }));
    if (sure) save.mutate(on);
  };
  return (
    <section aria-labelledby="security">
      <h2 id="security" className="mb-1 text-title font-semibold">
        Security
      </h2>
      <Check
        label="Members need a second factor"
        hint="An authenticator app or a passkey, besides the password. You need one yourself to ask for it."
        checked={team.second_factor}
        disabled={save.isPending}
        onChange={(e) => void change(e.target.checked)}
      />
    </section>
  );
}

function NewTeam() {
  const client = useQueryClient();
  const router = useRouter();
  const navigate = useNavigate();
  const [name, setName] = useState("");
  const create = useMutation({
    mutationFn: () => data(api.POST("/teams", { body: { name: name.trim() } })),
    onSuccess: async (t) => {
      await refreshMe(client, router);
      await navigate({ to: "/$team/w", params: { team: t.slug } });
    },
  });
  return (
    <form
      className="flex items-start gap-2"
      onSubmit={(e) => {
        e.preventDefault();
        create.mutate();
      }}
    >
      <TextField
        fieldClass="max-w-sm flex-1"
        label="Make another team"
        required
        value={name}
        hint="Teams share nothing. You become its owner."
        error={
          create.error
            ? (fieldError(create.error, "name") ?? fieldError(create.error, "slug") ?? create.error.message)
            : undefined
        }
        onChange={(e) => setName(e.target.value)}
      />
      <Button type="submit" className="mt-6" disabled={!name.trim()} busy={create.isPending && "Making"}>
        Make
      </Button>
    </form>
  );
}
