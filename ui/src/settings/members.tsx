import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useRouter } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { fieldError } from "@/api/problem";
import { keys, membersQuery, meQuery } from "@/api/queries";
import { useNow } from "@/format/now";
import { ago, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { Field, inputClass, TextField } from "@/kit/field";
import { Once } from "@/kit/once";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { type Invite, invitesQuery, peopleKeys, refreshMe } from "@/people/api";
import { asRole, ROLES, type Role, rolesToGive } from "@/people/words";
import { confirm } from "@/state/confirm";
import { useMe, useTeam } from "@/state/team";
import { toastError } from "@/state/toasts";

/** Who belongs to the team, and who is invited. */
export default function MembersSettings() {
  const team = useTeam();
  const members = useQuery(membersQuery(team.slug));
  return (
    <div className="flex flex-col gap-7">
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
              <MemberRow key={m.user.id} member={m} />
            ))}
          </ul>
        )}
        <details className="mt-2 w-fit text-meta text-fg3">
          <summary className="flex min-h-6 cursor-pointer items-center text-accent">What the roles may do</summary>
          <ul className="mt-1">
            {ROLES.map(([r, text]) => (
              <li key={r}>{text}</li>
            ))}
          </ul>
        </details>
      </section>
      {team.can("member.invite") && <Invites key={team.id} />}
    </div>
  );
}

function MemberRow({ member: m }: { member: Schemas["Member"] }) {
  const team = useTeam();
  const me = useMe();
  const client = useQueryClient();
  const router = useRouter();
  const navigate = useNavigate();
  const path = { team: team.slug, id: m.user.id };
  const self = m.user.id === me.user.id;
  const refresh = async () => {
    await client.invalidateQueries({ queryKey: keys.members(team.slug) });
    if (self) await refreshMe(client, router);
  };
  const change = useMutation({
    mutationFn: (role: Role) => data(api.PATCH("/teams/{team}/members/{id}", { params: { path }, body: { role } })),
    onSuccess: refresh,
    onError: (error) => toastError(`The role of ${m.user.name} was not changed`, error),
  });
  const remove = useMutation({
    mutationFn: () => api.DELETE("/teams/{team}/members/{id}", { params: { path } }),
    onSuccess: async () => {
      if (!self) return refresh();
      // Nothing of the team may stay in view or in memory.
      client.removeQueries({ queryKey: ["team", team.slug] });
      await client.fetchQuery({ ...meQuery(), staleTime: 0 });
      await navigate({ to: "/" });
    },
    onError: (error) => toastError(self ? "You have not left" : `${m.user.name} was not removed`, error),
  });
  const ask = async () => {
    const yes = await confirm({
      title: self ? `Leave ${team.name}?` : `Remove ${m.user.name} from ${team.name}?`,
      body: `${self ? "Your" : "Their"} workspaces stay in the team; private ones are then seen by its owners and admins. ${self ? "Your" : "Their"} agents' own accounts and machines stop serving it at once.`,
      action: self ? "Leave" : "Remove",
      danger: true,
    });
    if (yes) remove.mutate();
  };
  const pick = async (role: Role) => {
    const down = self && role !== m.role;
    const yes =
      !down ||
      (await confirm({
        title: `Make yourself ${role} of ${team.name}?`,
        body: "Only somebody with more rights than you will then have can undo this.",
        action: "Change my role",
        danger: true,
      }));
    if (yes) change.mutate(role);
  };
  // Owners are changed by owners only.
  const manage = team.can("member.manage") && (m.role !== "owner" || team.role === "owner");
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 py-2">
      <div className="min-w-0 flex-1 basis-48">
        <p className="truncate">
          {m.user.name}
          {self && <span className="text-fg3"> (you)</span>}
        </p>
        {m.user.email && <p className="truncate text-meta text-fg3">{m.user.email}</p>}
      </div>
      {manage ? (
        <select
          aria-label={`Role of ${m.user.name}`}
          value={m.role}
          disabled={change.isPending}
          onChange={(e) => void pick(e.target.value as Role)}
          className={`${inputClass} w-28!`}
        >
          {rolesToGive(team.role).map((r) => (
            <option key={r} value={r}>
              {r}
            </option>
          ))}
        </select>
      ) : (
        <span className="text-fg2">{m.role}</span>
      )}
      {(manage || self) && (
        <Button
          busy={remove.isPending}
          onClick={() => void ask()}
          aria-label={self ? "Leave the team" : `Remove ${m.user.name}`}
        >
          {self ? "Leave" : "Remove"}
        </Button>
      )}
    </li>
  );
}

function Invites() {
  const team = useTeam();
  const list = useQuery(invitesQuery(team.slug));
  return (
    <section aria-labelledby="invites" className="flex flex-col gap-3">
      <div>
        <h2 id="invites" className="text-title font-semibold">
          Invite somebody
        </h2>
        <p className="text-fg2">
          The link works once, for seven days. Somebody without an account makes one with it. If you give an address
          whose owner has an account, they also find the invitation in Parawork.
        </p>
      </div>
      <NewInvite />
      {list.isPending ? (
        <Skeleton rows={1} label="Loading the invites" />
      ) : list.isError && !list.data ? (
        <Failure what="The invites could not be loaded." error={list.error} retry={() => void list.refetch()} />
      ) : (
        list.data.length > 0 && (
          <ul aria-label="Open invites" className="divide-y divide-hairline border-y border-hairline">
            {list.data.map((i) => (
              <InviteRow key={i.id} invite={i} />
            ))}
          </ul>
        )
      )}
    </section>
  );
}

function NewInvite() {
  const team = useTeam();
  const client = useQueryClient();
  const [email, setEmail] = useState("");
  const [role, setRole] = useState<Role>("member");
  const [made, setMade] = useState<Schemas["InviteMade"] | undefined>();
  const invite = useMutation({
    mutationFn: () =>
      data(
        api.POST("/teams/{team}/invites", {
          params: { path: { team: team.slug } },
          body: { role, ...(email.trim() ? { email: email.trim() } : {}) },
        }),
      ),
    onSuccess: (i) => {
      setMade(i);
      setEmail("");
      void client.invalidateQueries({ queryKey: peopleKeys.invites(team.slug) });
    },
  });
  return (
    <>
      {made && (
        <Once
          title={`Invite ${asRole(made.role)}${made.email ? ` for ${made.email}` : ""}`}
          text={made.url}
          label="the invite"
          onDone={() => setMade(undefined)}
        >
          {made.mailed && `It was mailed to ${made.email}, too.`}
        </Once>
      )}
      <form
        className="flex flex-wrap items-start gap-3"
        onSubmit={(e) => {
          e.preventDefault();
          invite.mutate();
        }}
      >
        <TextField
          fieldClass="min-w-52 flex-1"
          label="E-mail (optional)"
          type="email"
          maxLength={254}
          placeholder="ada@example.com"
          hint="Only somebody with this address may then accept."
          value={email}
          error={fieldError(invite.error, "email")}
          onChange={(e) => setEmail(e.target.value)}
        />
        <Field label="Role" className="w-32">
          {(ids) => (
            <select {...ids} value={role} onChange={(e) => setRole(e.target.value as Role)} className={inputClass}>
              {rolesToGive(team.role).map((r) => (
                <option key={r} value={r}>
                  {r}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Button type="submit" look="primary" className="mt-6" busy={invite.isPending && "Making"}>
          Make an invite
        </Button>
        <div className="w-full empty:hidden">
          <FormError error={invite.error && !fieldError(invite.error, "email") ? invite.error : null} />
        </div>
      </form>
    </>
  );
}

function InviteRow({ invite: i }: { invite: Invite }) {
  const team = useTeam();
  const client = useQueryClient();
  const now = useNow();
  const whom = i.email || "whoever has the link";
  const revoke = useMutation({
    mutationFn: () => api.DELETE("/invites/{id}", { params: { path: { id: i.id } } }),
    onSuccess: () => client.invalidateQueries({ queryKey: peopleKeys.invites(team.slug) }),
    onError: (error) => toastError("The invite was not taken back", error),
  });
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 py-2">
      <div className="min-w-0 flex-1 basis-48">
        <p className="truncate">
          {whom}, {asRole(i.role)}
        </p>
        <p className="text-meta text-fg3">
          <span title={exact(i.created_at)}>
            by {i.created_by.name || "somebody"} {ago(i.created_at, now)}
          </span>{" "}
          · <span title={exact(i.expires_at)}>ends {dateOf(i.expires_at)}</span>
          {i.mailed && " · mailed"}
        </p>
      </div>
      <Button busy={revoke.isPending} onClick={() => revoke.mutate()} aria-label={`Take back the invite for ${whom}`}>
        Take back
      </Button>
    </li>
  );
}

const dateOf = (at: number) => new Intl.DateTimeFormat(undefined, { dateStyle: "medium" }).format(at);
