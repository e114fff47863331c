import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useInfiniteQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { useNow } from "@/format/now";
import { ago, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { Check, TextField } from "@/kit/field";
import { Menu, MenuItem } from "@/kit/menu";
import { Once } from "@/kit/once";
import { SettingsForm } from "@/kit/settings/form";
import { Failure, Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { type InstanceUser, peopleKeys, usersQuery } from "@/people/api";
import { ROLE_NAMES } from "@/people/words";
import { useMe } from "@/state/team";
import { toast } from "@/state/toasts";

interface Link {
  user: InstanceUser;
  link: Schemas["ResetLink"];
}

/** Everybody on this server, for operators. */
export default function UsersSettings() {
  const [typed, setTyped] = useState("");
  const [q, setQ] = useState("");
  const [link, setLink] = useState<Link | undefined>();
  const [making, setMaking] = useState(false);
  const list = useInfiniteQuery(usersQuery(q));
  const users = list.data?.pages.flatMap((p) => p.items) ?? [];
  return (
    <section aria-labelledby="users" className="flex flex-col gap-4">
      <div className="flex flex-wrap items-start gap-x-4 gap-y-2">
        <div className="min-w-0 flex-1 basis-64">
          <h2 id="users" className="text-title font-semibold">
            <Trans>Users of this server</Trans>
          </h2>
          <p className="text-fg2">
            <Trans>Of all teams and of no team.</Trans>
          </p>
        </div>
        {!making && (
          <Button look="primary" onClick={() => setMaking(true)}>
            <Trans>New user</Trans>
          </Button>
        )}
      </div>
      {link && (
        <Once
          title={t`A link for ${link.user.name} (${link.user.email}) to choose a password`}
          text={link.link.url}
          label={t`the link`}
          onDone={() => setLink(undefined)}
        >
          <Trans>It works once, until {exact(link.link.expires_at)}.</Trans>
          {link.link.mailed && t` It was also emailed.`}
        </Once>
      )}
      {making && (
        <NewUser
          close={() => setMaking(false)}
          onMade={(made) => {
            setLink(made);
            setMaking(false);
          }}
        />
      )}
      <form
        role="search"
        className="flex items-end gap-2"
        onSubmit={(e) => {
          e.preventDefault();
          setQ(typed.trim());
        }}
      >
        <TextField
          fieldClass="max-w-sm flex-1"
          label={t`Find`}
          type="search"
          maxLength={200}
          placeholder={t`Part of a name or an address`}
          value={typed}
          onChange={(e) => setTyped(e.target.value)}
        />
        <Button type="submit">
          <Trans>Find</Trans>
        </Button>
      </form>
      {list.isPending ? (
        <Skeleton rows={5} label={t`Loading the users`} />
      ) : list.isError && !list.data ? (
        <Failure what={t`The users could not be loaded.`} error={list.error} retry={() => void list.refetch()} />
      ) : users.length === 0 ? (
        <p className="text-fg3">
          <Trans>No user matches.</Trans>
        </p>
      ) : (
        <ul aria-label={t`Users`} className="divide-y divide-hairline border-y border-hairline">
          {users.map((u) => (
            <UserRow key={u.id} user={u} onLink={setLink} />
          ))}
        </ul>
      )}
      {list.hasNextPage && (
        <Button
          className="self-start"
          busy={list.isFetchingNextPage && t`Loading`}
          onClick={() => void list.fetchNextPage()}
        >
          <Trans>More</Trans>
        </Button>
      )}
    </section>
  );
}

function NewUser({ close, onMade }: { close: () => void; onMade: (made: Link) => void }) {
  return (
    <SettingsForm
      label={t`New user`}
      className="gap-3 panel p-3"
      create
      loaded={{ name: "", email: "", operator: false }}
      fields={[
        {
          className: "flex flex-wrap gap-3",
          fields: [
            {
              name: "name",
              label: t`Name`,
              type: "text",
              className: "min-w-48 flex-1",
              input: { required: true, autoFocus: true, maxLength: 100 },
            },
            {
              name: "email",
              label: t`E-mail`,
              type: "text",
              className: "min-w-48 flex-1",
              input: { type: "email", required: true, maxLength: 254 },
            },
          ],
        },
        {
          name: "operator",
          label: t`Operator`,
          type: "boolean",
          hint: t`Sees and changes the whole server: users, teams, places.`,
        },
        {
          note: () => (
            <p className="text-meta text-fg3">
              <Trans>You get a link for them to choose a password. Invite them to add them to a team.</Trans>
            </p>
          ),
        },
      ]}
      save={(_, body) => data(api.POST("/instance/users", { body }))}
      refresh={[peopleKeys.users]}
      onSaved={onMade}
      button={t`Create user`}
      busy={t`Creating`}
      cancel={close}
    />
  );
}

/** Something an operator does to a user. */
interface UserAction {
  act: () => Promise<unknown>;
  failed: string;
  /** What is asked first: the question, what it means, and the button that does it. */
  ask?: [title: string, body: ReactNode, action: string];
}

function UserRow({ user: u, onLink }: { user: InstanceUser; onLink: (l: Link) => void }) {
  const me = useMe();
  const now = useNow();
  const params = { path: { id: u.id } };
  const change = useAction({
    act: ({ act }: UserAction) => act(),
    confirm: ({ ask }) => ask && { title: ask[0], body: ask[1], action: ask[2], danger: true },
    refresh: [peopleKeys.users],
    failed: ({ failed }) => failed,
  });
  const suspend = () =>
    change.run({
      ask: [
        t`Suspend ${u.name}?`,
        t`They are signed out everywhere, their tokens are revoked, and their agents stop once their work is saved. Nothing is deleted.`,
        t`Suspend`,
      ],
      failed: t`${u.name} was not suspended`,
      act: () => api.POST("/instance/users/{id}/suspend", { params }),
    });
  const restore = () =>
    change.run({
      failed: t`${u.name} was not restored`,
      act: () => api.POST("/instance/users/{id}/restore", { params }),
    });
  const factors = () => {
    let keep = false;
    return change.run({
      ask: [
        t`Reset the second factors of ${u.name}?`,
        <>
          <p>
            <Trans>
              Authenticator app, recovery codes and passkeys. For a user who lost them. Verify the user's identity
              first. They are signed out everywhere, and their API tokens end.
            </Trans>
          </p>
          <Check
            className="mt-2 text-fg"
            label={t`Keep their API tokens`}
            onChange={(e) => {
              keep = e.target.checked;
            }}
          />
        </>,
        t`Reset`,
      ],
      failed: t`The second factors were not reset`,
      act: async () => {
        await api.POST("/instance/users/{id}/reset-factors", { params, body: { keep_tokens: keep } });
        toast({ kind: "good", title: t`${u.name} can now sign in with only the password` });
      },
    });
  };
  const vouch = () =>
    change.run({
      ask: [
        t`Is ${u.email} the address of ${u.name}?`,
        t`They entered it themselves, and it is not verified. If you confirm, they see what is sent to this address, such as team invitations.`,
        t`Confirm address`,
      ],
      failed: t`This was not changed`,
      act: () => api.PATCH("/instance/users/{id}", { params, body: { email: u.email } }),
    });
  const operator = () =>
    change.run({
      ask: [
        u.operator ? t`Remove operator rights from ${u.name}?` : t`Make ${u.name} an operator?`,
        t`Operators see and change the whole server: users, teams, places.`,
        u.operator ? t`Remove rights` : t`Make operator`,
      ],
      failed: t`This was not changed`,
      act: () => api.PATCH("/instance/users/{id}", { params, body: { operator: !u.operator } }),
    });
  const reset = () =>
    change.run({
      failed: t`The link was not created`,
      act: async () => onLink({ user: u, link: await data(api.POST("/instance/users/{id}/reset-link", { params })) }),
    });
  const self = u.id === me.user.id;
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 py-2">
      <div className="min-w-0 flex-1 basis-56">
        <p className="truncate">
          <span className="font-medium">{u.name}</span>
          {self && (
            <span className="text-fg3">
              {" "}
              <Trans>(you)</Trans>
            </span>
          )}
          {u.operator && (
            <span className="text-fg2">
              {" "}
              <Trans>· operator</Trans>
            </span>
          )}
          {u.suspended_at && (
            <span className="text-failed" title={exact(u.suspended_at)}>
              {" "}
              <Trans>· suspended</Trans>
            </span>
          )}
        </p>
        <p className="truncate text-meta text-fg3">
          {u.email}
          {!u.email_verified && t`, not verified`}
        </p>
        <p className="text-meta break-words text-fg3">
          {u.teams.length > 0 ? u.teams.map((t) => `${t.name} (${ROLE_NAMES[t.role]})`).join(", ") : t`in no team`} ·{" "}
          {u.last_seen_at ? (
            <span title={exact(u.last_seen_at)}>
              <Trans>seen {ago(u.last_seen_at, now)}</Trans>
            </span>
          ) : (
            t`never seen`
          )}{" "}
          · {u.second_factor ? t`has a second factor` : t`no second factor`}
        </p>
      </div>
      {u.suspended_at ? (
        <Button busy={change.busy} aria-label={t`Restore ${u.name}`} onClick={() => void restore()}>
          <Trans>Restore</Trans>
        </Button>
      ) : (
        <>
          <Button busy={change.busy} onClick={() => void reset()} aria-label={t`Password link for ${u.name}`}>
            <Trans>Password link</Trans>
          </Button>
          <Menu
            trigger={
              <Button aria-label={t`More actions for ${u.name}`}>
                <Trans>More</Trans>
              </Button>
            }
          >
            {!u.email_verified && (
              <MenuItem onSelect={() => void vouch()}>
                <Trans>Verify the address</Trans>
              </MenuItem>
            )}
            {u.second_factor && (
              <MenuItem onSelect={() => void factors()}>
                <Trans>Reset second factors</Trans>
              </MenuItem>
            )}
            <MenuItem onSelect={() => void operator()} disabled={self}>
              {u.operator ? t`Remove operator rights` : t`Make operator`}
            </MenuItem>
            <MenuItem onSelect={() => void suspend()} danger disabled={self}>
              <Trans>Suspend</Trans>
            </MenuItem>
          </Menu>
        </>
      )}
    </li>
  );
}
