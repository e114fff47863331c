import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { keys, membersQuery, meQuery } from "@/api/queries";
import { useNow } from "@/format/now";
import { ago, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { inputClass } from "@/kit/field";
import { Once } from "@/kit/once";
import { SettingsForm } from "@/kit/settings/form";
import { Failure, Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { type Invite, invitesQuery, peopleKeys } from "@/people/api";
import { useRefreshMe } from "@/people/use-refresh-me";
import { asRole, ROLES, type Role, rolesToGive } from "@/people/words";
import { useMe, useTeam } from "@/state/team";

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
  const navigate = useNavigate();
  const refreshMe = useRefreshMe();
  const path = { team: team.slug, id: m.user.id };
  const self = m.user.id === me.user.id;
  const change = useAction({
    act: (role: Role) => data(api.PATCH("/teams/{team}/members/{id}", { params: { path }, body: { role } })),
    confirm: (role) =>
      self &&
      role !== m.role && {
        title: `Make yourself ${role} of ${team.name}?`,
        body: "Only someone with more rights than your new role can undo this.",
        action: "Change my role",
        danger: true,
      },
    refresh: [keys.members(team.slug)],
    done: () => self && refreshMe(),
    failed: `The role of ${m.user.name} was not changed`,
  });
  const remove = useAction({
    act: () => api.DELETE("/teams/{team}/members/{id}", { params: { path } }),
    confirm: {
      title: self ? `Leave ${team.name}?` : `Remove ${m.user.name} from ${team.name}?`,
      body: `${self ? "Your" : "Their"} workspaces stay in the team; private ones are then seen by its owners and admins. ${self ? "Your" : "Their"} agents' own accounts and machines stop serving it immediately.`,
      action: self ? "Leave" : "Remove",
      danger: true,
    },
    refresh: self ? [] : [keys.members(team.slug)],
    done: async () => {
      if (!self) return;
      // Nothing of the team may stay in view or in memory.
      client.removeQueries({ queryKey: ["team", team.slug] });
      await client.fetchQuery({ ...meQuery(), staleTime: 0 });
      await navigate({ to: "/" });
    },
    failed: self ? "You have not left" : `${m.user.name} was not removed`,
  });
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
          disabled={change.busy}
          onChange={(e) => void change.run(e.target.value as Role)}
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
          busy={remove.busy}
          onClick={() => void remove.run()}
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
          Invite someone
        </h2>
        <p className="text-fg2">
          The link works once, for seven days. People without an account can create one with it. If you enter the
          address of an existing user, they also see the invitation in Parawork.
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
  const [made, setMade] = useState<Schemas["CreatedInvite"] | undefined>();
  return (
    <>
      {made && (
        <Once
          title={`Invite ${asRole(made.role)}${made.email ? ` for ${made.email}` : ""}`}
          text={made.url}
          label="the invite"
          onDone={() => setMade(undefined)}
        >
          {made.mailed && `It was also emailed to ${made.email}.`}
        </Once>
      )}
      <SettingsForm
        inline
        className="gap-3"
        create
        loaded={{ email: "", role: "member" as Role }}
        fields={[
          {
            name: "email",
            label: "E-mail (optional)",
            type: "text",
            placeholder: "ada@example.com",
            hint: "Only someone with this address can accept.",
            className: "min-w-52 flex-1",
            input: { type: "email", maxLength: 254 },
          },
          {
            name: "role",
            label: "Role",
            type: "choice",
            className: "w-32",
            options: rolesToGive(team.role).map((r) => ({ value: r, label: r })),
          },
        ]}
        save={(_, { role, email }) =>
          data(
            api.POST("/teams/{team}/invites", {
              params: { path: { team: team.slug } },
              body: { role, ...(email && { email }) },
            }),
          )
        }
        preserve={["role"]}
        onSaved={setMade}
        refresh={[peopleKeys.invites(team.slug)]}
        button="Create invite"
        busy="Creating"
      />
    </>
  );
}

function InviteRow({ invite: i }: { invite: Invite }) {
  const team = useTeam();
  const now = useNow();
  const whom = i.email || "anyone with the link";
  const revoke = useAction({
    act: () => api.DELETE("/invites/{id}", { params: { path: { id: i.id } } }),
    refresh: [peopleKeys.invites(team.slug)],
    failed: "The invite was not revoked",
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
      <Button busy={revoke.busy} onClick={() => void revoke.run()} aria-label={`Revoke the invite for ${whom}`}>
        Revoke
      </Button>
    </li>
  );
}

const dateOf = (at: number) => new Intl.DateTimeFormat(undefined, { dateStyle: "medium" }).format(at);
