import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useRouter } from "@tanstack/react-router";
import { useState } from "react";
import { api, data } from "@/api/client";
import { fieldError } from "@/api/problem";
import { exact } from "@/format/time";
import { Button } from "@/kit/button";
import { TextField } from "@/kit/field";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { type InstanceTeam, instanceTeamsQuery, peopleKeys, refreshMe } from "@/people/api";
import { confirm } from "@/state/confirm";
import { toastError } from "@/state/toasts";

/** Every team of this server, for operators. */
export default function TeamsSettings() {
  const list = useQuery(instanceTeamsQuery());
  const [making, setMaking] = useState(false);
  return (
    <section aria-labelledby="teams" className="flex flex-col gap-4">
      <div className="flex flex-wrap items-start gap-x-4 gap-y-2">
        <div className="min-w-0 flex-1 basis-64">
          <h2 id="teams" className="text-title font-semibold">
            Teams of this server
          </h2>
          <p className="text-fg2">Teams share nothing. What is in them only their members see.</p>
        </div>
        {!making && (
          <Button look="primary" onClick={() => setMaking(true)}>
            New team
          </Button>
        )}
      </div>
      {making && <NewTeam close={() => setMaking(false)} />}
      {list.isPending ? (
        <Skeleton rows={4} label="Loading the teams" />
      ) : list.isError && !list.data ? (
        <Failure what="The teams could not be loaded." error={list.error} retry={() => void list.refetch()} />
      ) : (
        <ul aria-label="Teams" className="divide-y divide-hairline border-y border-hairline">
          {list.data.map((t) => (
            <TeamRow key={t.id} team={t} />
          ))}
        </ul>
      )}
    </section>
  );
}

function useRefresh() {
  const client = useQueryClient();
  const router = useRouter();
  return async () => {
    await client.invalidateQueries({ queryKey: peopleKeys.teams });
    await refreshMe(client, router);
  };
}

function NewTeam({ close }: { close: () => void }) {
  const refresh = useRefresh();
  const [name, setName] = useState("");
  const [owner, setOwner] = useState("");
  const create = useMutation({
    mutationFn: () =>
      data(
        api.POST("/instance/teams", {
          body: { name: name.trim(), ...(owner.trim() ? { owner: owner.trim() } : {}) },
        }),
      ),
    onSuccess: async () => {
      await refresh();
      close();
    },
  });
  const shown = ["team", "name", "owner", "email", "slug"].some((f) => fieldError(create.error, f));
  return (
    <form
      aria-label="New team"
      className="flex flex-col gap-3 rounded-md border border-hairline p-3"
      onSubmit={(e) => {
        e.preventDefault();
        create.mutate();
      }}
    >
      <div className="flex flex-wrap gap-3">
        <TextField
          fieldClass="min-w-48 flex-1"
          label="Name"
          required
          autoFocus
          maxLength={100}
          value={name}
          error={
            fieldError(create.error, "team") ?? fieldError(create.error, "name") ?? fieldError(create.error, "slug")
          }
          onChange={(e) => setName(e.target.value)}
        />
        <TextField
          fieldClass="min-w-48 flex-1"
          label="Owner (optional)"
          type="email"
          maxLength={254}
          placeholder="ada@example.com"
          hint="A user of this server. Nobody named: you."
          value={owner}
          error={fieldError(create.error, "owner") ?? fieldError(create.error, "email")}
          onChange={(e) => setOwner(e.target.value)}
        />
      </div>
      <p className="text-meta text-fg3">
        With a second team, places without isolation are no longer offered unless config.json allows them.
      </p>
      {!shown && <FormError error={create.error} />}
      <div className="flex gap-2">
        <Button type="submit" look="primary" busy={create.isPending && "Making"}>
          Make the team
        </Button>
        <Button onClick={close}>Cancel</Button>
      </div>
    </form>
  );
}

function TeamRow({ team: t }: { team: InstanceTeam }) {
  const refresh = useRefresh();
  const params = { path: { id: t.id } };
  const change = useMutation({
    mutationFn: () =>
      data(
        t.suspended_at
          ? api.POST("/instance/teams/{id}/restore", { params })
          : api.POST("/instance/teams/{id}/suspend", { params }),
      ),
    onSuccess: refresh,
    onError: (error) => toastError(`${t.name} was not ${t.suspended_at ? "restored" : "suspended"}`, error),
  });
  const suspend = async () => {
    const sure = await confirm({
      title: `Suspend ${t.name}?`,
      body: "Nobody works in it until you restore it. Its agents stop once their work is saved. Nothing is deleted.",
      action: "Suspend",
      danger: true,
    });
    if (sure) change.mutate();
  };
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 py-2">
      <div className="min-w-0 flex-1 basis-56">
        <p className="truncate">
          <span className="font-medium">{t.name}</span> <span className="text-fg3">/{t.slug}</span>
          {t.suspended_at && (
            <span className="text-failed" title={exact(t.suspended_at)}>
              {" "}
              · suspended
            </span>
          )}
        </p>
        <p className="text-meta break-words text-fg3">
          {t.members === 1 ? "1 member" : `${t.members} members`}
          {t.owners.length > 0 && `, owned by ${t.owners.map((o) => o.name).join(", ")}`} ·{" "}
          {t.workspaces === 1 ? "1 workspace" : `${t.workspaces} workspaces`}
          {t.sandboxes > 0 &&
            `, ${t.sandboxes === 1 ? "1 sandbox" : `${t.sandboxes} sandboxes`} ${t.suspended_at ? "being saved" : "running"}`}
          {t.second_factor && " · needs a second factor"}
        </p>
      </div>
      {t.suspended_at ? (
        <Button busy={change.isPending} onClick={() => change.mutate()} aria-label={`Restore ${t.name}`}>
          Restore
        </Button>
      ) : (
        <Button busy={change.isPending} onClick={() => void suspend()} aria-label={`Suspend ${t.name}`}>
          Suspend
        </Button>
      )}
    </li>
  );
}
