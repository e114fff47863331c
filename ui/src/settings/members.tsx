import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { keys, membersQuery, meQuery } from "@/api/queries";
import { useNow } from "@/format/now";
import { ago, exact } from "@/format/time";
import { Avatar, avatarSrc } from "@/kit/avatar";
import { Button } from "@/kit/button";
import { inputClass } from "@/kit/field";
import { Once } from "@/kit/once";
import { SettingsForm } from "@/kit/settings/form";
import { Failure, Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { locale } from "@/language/locale";
import { type Invite, invitesQuery, peopleKeys } from "@/people/api";
import { useRefreshMe } from "@/people/use-refresh-me";
import { asRole, ROLE_NAMES, ROLES, type Role, rolesToGive } from "@/people/words";
import { useMe, useTeam } from "@/state/team";

/** Who belongs to the team, and who is invited. */
export default function MembersSettings() {
  const team = useTeam();
  const members = useQuery(membersQuery(team.slug));
  return (
    <div className="flex flex-col gap-7">
      <section aria-labelledby="members">
        <h2 id="members" className="mb-2 text-title font-semibold">
          <Trans>Members of {team.name}</Trans>
        </h2>
        {members.isPending ? (
          <Skeleton rows={3} label={t`Loading the members`} />
        ) : members.isError && !members.data ? (
          <Failure
            what={t`The members could not be loaded.`}
            error={members.error}
            retry={() => void members.refetch()}
          />
        ) : (
          <ul className="divide-y divide-hairline border-y border-hairline">
            {members.data.map((m) => (
              <MemberRow key={m.user.id} member={m} />
            ))}
          </ul>
        )}
        <details className="mt-2 w-fit text-meta text-fg3">
          <summary className="flex min-h-6 cursor-pointer items-center text-accent">
            <Trans>What the roles may do</Trans>
          </summary>
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
        title: t`Make yourself ${ROLE_NAMES[role]} of ${team.name}?`,
        body: t`Only someone with more rights than your new role can undo this.`,
        action: t`Change my role`,
        danger: true,
      },
    refresh: [keys.members(team.slug)],
    done: () => self && refreshMe(),
    failed: t`The role of ${m.user.name} was not changed`,
  });
  const remove = useAction({
    act: () => api.DELETE("/teams/{team}/members/{id}", { params: { path } }),
    confirm: {
      title: self ? t`Leave ${team.name}?` : t`Remove ${m.user.name} from ${team.name}?`,
      body: t`${self ? t`Your` : t`Their`} workspaces stay in the team; private ones are then seen by its owners and admins. ${self ? t`Your` : t`Their`} agents' own accounts and machines stop serving it immediately.`,
      action: self ? t`Leave` : t`Remove`,
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
    failed: self ? t`You have not left` : t`${m.user.name} was not removed`,
  });
  // Owners are changed by owners only.
  const manage = team.can("member.manage") && (m.role !== "owner" || team.role === "owner");
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 py-2">
      <Avatar id={m.user.id} name={m.user.name} src={avatarSrc(team.slug, m.user)} className="size-7 text-micro" />
      <div className="min-w-0 flex-1 basis-48">
        <p className="truncate">
          {m.user.name}
          {self && (
            <span className="text-fg3">
              {" "}
              <Trans>(you)</Trans>
            </span>
          )}
        </p>
        {m.user.email && <p className="truncate text-meta text-fg3">{m.user.email}</p>}
      </div>
      {manage ? (
        <select
          aria-label={t`Role of ${m.user.name}`}
          value={m.role}
          disabled={change.busy}
          onChange={(e) => void change.run(e.target.value as Role)}
          className={`${inputClass} w-28!`}
        >
          {rolesToGive(team.role).map((r) => (
            <option key={r} value={r}>
              {ROLE_NAMES[r]}
            </option>
          ))}
        </select>
      ) : (
        <span className="text-fg2">{ROLE_NAMES[m.role]}</span>
      )}
      {(manage || self) && (
        <Button
          busy={remove.busy}
          onClick={() => void remove.run()}
          aria-label={self ? t`Leave the team` : t`Remove ${m.user.name}`}
        >
          {self ? t`Leave` : t`Remove`}
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
          <Trans>Invite someone</Trans>
        </h2>
        <p className="text-fg2">
          <Trans>
            The link works once, for seven days. People without an account can create one with it. If you enter the
            address of an existing user, they also see the invitation in Parawork.
          </Trans>
        </p>
      </div>
      <NewInvite />
      {list.isPending ? (
        <Skeleton rows={1} label={t`Loading the invites`} />
      ) : list.isError && !list.data ? (
        <Failure what={t`The invites could not be loaded.`} error={list.error} retry={() => void list.refetch()} />
      ) : (
        list.data.length > 0 && (
          <ul aria-label={t`Open invites`} className="divide-y divide-hairline border-y border-hairline">
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
          title={t`Invite ${asRole(made.role)}${made.email ? t` for ${made.email}` : ""}`}
          text={made.url}
          label={t`the invite`}
          onDone={() => setMade(undefined)}
        >
          {made.mailed && t`It was also emailed to ${made.email}.`}
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
            label: t`E-mail (optional)`,
            type: "text",
            placeholder: "ada@example.com",
            hint: t`Only someone with this address can accept.`,
            className: "min-w-52 flex-1",
            input: { type: "email", maxLength: 254 },
          },
          {
            name: "role",
            label: t`Role`,
            type: "choice",
            className: "w-32",
            options: rolesToGive(team.role).map((r) => ({ value: r, label: ROLE_NAMES[r] })),
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
        button={t`Create invite`}
        busy={t`Creating`}
      />
    </>
  );
}

function InviteRow({ invite: i }: { invite: Invite }) {
  const team = useTeam();
  const now = useNow();
  const whom = i.email || t`anyone with the link`;
  const revoke = useAction({
    act: () => api.DELETE("/invites/{id}", { params: { path: { id: i.id } } }),
    refresh: [peopleKeys.invites(team.slug)],
    failed: t`The invite was not revoked`,
  });
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 py-2">
      <div className="min-w-0 flex-1 basis-48">
        <p className="truncate">
          {whom}, {asRole(i.role)}
        </p>
        <p className="text-meta text-fg3">
          <span title={exact(i.created_at)}>
            <Trans>
              by {i.created_by.name || t`somebody`} {ago(i.created_at, now)}
            </Trans>
          </span>{" "}
          ·{" "}
          <span title={exact(i.expires_at)}>
            <Trans>ends {dateOf(i.expires_at)}</Trans>
          </span>
          {i.mailed && t` · mailed`}
        </p>
      </div>
      <Button busy={revoke.busy} onClick={() => void revoke.run()} aria-label={t`Revoke the invite for ${whom}`}>
        <Trans>Revoke</Trans>
      </Button>
    </li>
  );
}

const dateOf = (at: number) => new Intl.DateTimeFormat(locale(), { dateStyle: "medium" }).format(at);
