import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useRouter } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { fieldError } from "@/api/problem";
import { keys, membersQuery } from "@/api/queries";
import { useMe, useTeam } from "@/app/team";
import { Button } from "@/kit/button";
import { Field, inputClass, TextField } from "@/kit/field";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { confirm } from "@/state/confirm";
import { toast, toastError } from "@/state/toasts";

const Webhooks = lazy(() => import("./webhooks"));
const Storage = lazy(() => import("./storage"));

type Role = Schemas["Role"];

const ROLES: [Role, string][] = [
  ["owner", "Owner: everything, and who owns the team"],
  ["admin", "Admin: members and projects"],
  ["member", "Member: workspaces and sessions"],
  ["viewer", "Viewer: watches only"],
];

/** The team's name and members, and further teams. */
export default function TeamSettings() {
  const team = useTeam();
  const manage = team.can("team.manage");
  const members = useQuery(membersQuery(team.slug));
  return (
    <div className="flex flex-col gap-7">
      {manage && <TeamName key={team.id} />}
      <section aria-labelledby="members">
        <h2 id="members" className="mb-2 text-title font-semibold">
          Members of {team.name}
        </h2>
        {members.isPending ? (
          <Skeleton rows={3} label="Loading the members" />
        ) : members.isError && !members.data ? (
          <Failure what="The members could not be loaded." error={members.error} retry={() => void members.refetch()} />
        ) : (
          <ul className="divide-y divide-hairline border-y border-hairline">
            {members.data.map((m) => (
              <MemberRow key={m.user.id} member={m} manage={manage} />
            ))}
          </ul>
        )}
        {manage && <AddMember />}
      </section>
      {manage && (
        <Suspense fallback={<Skeleton rows={2} />}>
          <Webhooks />
        </Suspense>
      )}
      <Suspense fallback={<Skeleton rows={3} label="Loading the storage" />}>
        <Storage />
      </Suspense>
      <NewTeam />
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
      await client.invalidateQueries({ queryKey: keys.me });
      await router.invalidate();
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

function MemberRow({ member: m, manage }: { member: Schemas["Member"]; manage: boolean }) {
  const team = useTeam();
  const me = useMe();
  const client = useQueryClient();
  const path = { team: team.slug, id: m.user.id };
  const refresh = () => client.invalidateQueries({ queryKey: keys.members(team.slug) });
  const change = useMutation({
    mutationFn: (role: Role) => data(api.PATCH("/teams/{team}/members/{id}", { params: { path }, body: { role } })),
    onSuccess: refresh,
    onError: (error) => toastError(`The role of ${m.user.name} was not changed`, error),
  });
  const remove = useMutation({
    mutationFn: () => api.DELETE("/teams/{team}/members/{id}", { params: { path } }),
    onSuccess: refresh,
    onError: (error) => toastError(`${m.user.name} was not removed`, error),
  });
  const self = m.user.id === me.user.id;
  const ask = async () => {
    const yes = await confirm({
      title: self ? `Leave ${team.name}?` : `Remove ${m.user.name} from ${team.name}?`,
      body: "Workspaces stay in the team.",
      action: self ? "Leave" : "Remove",
      danger: true,
    });
    if (yes) remove.mutate();
  };
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 py-2">
      <div className="min-w-0 flex-1 basis-48">
        <p className="truncate">
          {m.user.name}
          {self && <span className="text-fg3"> (you)</span>}
        </p>
        <p className="truncate text-meta text-fg3">{m.user.email}</p>
      </div>
      {manage ? (
        <>
          <select
            aria-label={`Role of ${m.user.name}`}
            value={m.role}
            disabled={change.isPending}
            onChange={(e) => change.mutate(e.target.value as Role)}
            className={`${inputClass} w-28!`}
          >
            {ROLES.map(([r]) => (
              <option key={r} value={r}>
                {r}
              </option>
            ))}
          </select>
          <Button
            busy={remove.isPending}
            onClick={() => void ask()}
            aria-label={self ? "Leave the team" : `Remove ${m.user.name}`}
          >
            {self ? "Leave" : "Remove"}
          </Button>
        </>
      ) : (
        <span className="text-fg2">{m.role}</span>
      )}
    </li>
  );
}

function AddMember() {
  const team = useTeam();
  const client = useQueryClient();
  const [email, setEmail] = useState("");
  const [role, setRole] = useState<Role>("member");
  const add = useMutation({
    mutationFn: () =>
      data(
        api.POST("/teams/{team}/members", {
          params: { path: { team: team.slug } },
          body: { email: email.trim(), role },
        }),
      ),
    onSuccess: () => {
      setEmail("");
      void client.invalidateQueries({ queryKey: keys.members(team.slug) });
    },
  });
  return (
    <form
      className="mt-4 flex flex-wrap items-start gap-3"
      onSubmit={(e) => {
        e.preventDefault();
        add.mutate();
      }}
    >
      <TextField
        fieldClass="min-w-52 flex-1"
        label="Add a member"
        type="email"
        required
        placeholder="ada@example.com"
        hint={
          <>
            Somebody with an account on this server. Whoever runs it makes one with{" "}
            <code className="text-fg2">parawork admin create-user</code>.
          </>
        }
        value={email}
        error={fieldError(add.error, "email")}
        onChange={(e) => setEmail(e.target.value)}
      />
      <Field label="Role" className="w-32">
        {(ids) => (
          <select {...ids} value={role} onChange={(e) => setRole(e.target.value as Role)} className={inputClass}>
            {ROLES.map(([r]) => (
              <option key={r} value={r}>
                {r}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Button type="submit" className="mt-6" busy={add.isPending && "Adding"}>
        Add
      </Button>
      <div className="w-full empty:hidden">
        <FormError error={add.error && !fieldError(add.error, "email") ? add.error : null} />
      </div>
      <details className="w-full text-meta text-fg3">
        <summary className="w-fit cursor-pointer text-accent">What the roles may do</summary>
        <ul className="mt-1">
          {ROLES.map(([r, text]) => (
            <li key={r}>{text}</li>
          ))}
        </ul>
      </details>
    </form>
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
      await client.invalidateQueries({ queryKey: keys.me });
      await router.invalidate();
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
