import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { type ReactNode, Suspense } from "react";
import { api } from "@/api/client";
import { initials } from "@/format/text";
import { useWaiting } from "@/inbox/inbox";
import Bell from "@/inbox/notices/bell";
import { pretty } from "@/keys/chord";
import { perform } from "@/keys/keyboard";
import { Avatar, avatarSrc } from "@/kit/avatar";
import { Button } from "@/kit/button";
import { Icon, type IconName } from "@/kit/icon";
import { Kbd } from "@/kit/kbd";
import { Logo } from "@/kit/mark";
import { Menu, MenuChoice, MenuItem, MenuLabel, MenuLine } from "@/kit/menu";
import { myInvitesQuery } from "@/people/api";
import { look, setLook, type Theme } from "@/state/look";
import { useStore } from "@/state/store";
import { useMe, useTeam } from "@/state/team";
import { toastError } from "@/state/toasts";
import Spent from "./spent";

interface NavProps {
  to: "/$team/inbox" | "/$team/w" | "/$team/tasks" | "/$team/p" | "/$team/machines" | "/$team/usage";
  icon: IconName;
  children: ReactNode;
}

function NavLink({ to, icon, children }: NavProps) {
  return (
    <Link
      to={to}
      params={{ team: useTeam().slug }}
      className="control-h flex items-center gap-1.5 rounded-md px-2 text-fg2 hover:bg-bg2 hover:text-fg data-[status=active]:bg-bg3 data-[status=active]:font-medium data-[status=active]:text-fg"
    >
      <Icon name={icon} className="max-lg:hidden" />
      {children}
    </Link>
  );
}

export function Header() {
  const team = useTeam();
  const params = { team: team.slug };
  const needs = useWaiting(team.slug);
  return (
    <header className="flex h-(--header-h) items-center gap-1.5 border-b border-hairline bg-bg1 px-3 md:px-4">
      <Link
        to="/$team"
        params={params}
        className="mr-2 flex items-center gap-2 rounded-sm font-semibold pointer-coarse:min-h-11 pointer-coarse:min-w-11"
        aria-label={t`Parawork home`}
      >
        <Logo />
        <span className="max-lg:sr-only">Parawork</span>
      </Link>
      <TeamMenu />
      <nav aria-label={t`Main`} className="hidden items-center gap-1 md:flex">
        <NavLink to="/$team/inbox" icon="inbox">
          <Trans>Inbox</Trans>
          {needs > 0 && (
            <>
              <span aria-hidden className="font-medium text-needs tabular-nums">
                {needs}
              </span>
              <span className="sr-only">
                <Trans>, {needs} waiting for you</Trans>
              </span>
            </>
          )}
        </NavLink>
        <NavLink to="/$team/w" icon="workspaces">
          <Trans>Workspaces</Trans>
        </NavLink>
        <NavLink to="/$team/tasks" icon="tasks">
          <Trans>Tasks</Trans>
        </NavLink>
        <NavLink to="/$team/p" icon="project">
          <Trans>Projects</Trans>
        </NavLink>
        <NavLink to="/$team/machines" icon="machine">
          <Trans>Machines</Trans>
        </NavLink>
        {team.can("costs.view") && (
          <NavLink to="/$team/usage" icon="chart">
            <Trans>Usage</Trans>
          </NavLink>
        )}
      </nav>
      <div className="ml-auto flex items-center gap-2">
        {team.can("costs.view") && (
          <Suspense>
            <Spent />
          </Suspense>
        )}
        {team.can("workspace.create") && (
          <Button className="max-md:hidden" onClick={() => perform("workspace.new")}>
            <Icon name="plus" size={14} />
            <Trans>New workspace</Trans>
          </Button>
        )}
        <button
          type="button"
          onClick={() => perform("palette")}
          aria-label={t`Command palette, ${pretty("mod+k")}`}
          title={t`Command palette (${pretty("mod+k")})`}
          className="control-h flex items-center gap-1.5 rounded-md px-1.5 text-fg2 hover:bg-bg2 hover:text-fg pointer-coarse:w-11 pointer-coarse:justify-center"
        >
          <Icon name="search" />
          <Kbd keys="mod+k" />
        </button>
        <Suspense fallback={<span className="w-7 pointer-coarse:w-11" />}>
          <Bell />
        </Suspense>
        <AccountMenu />
      </div>
    </header>
  );
}

/** Switches between teams and shows invitations; renders nothing if there is only one team. */
function TeamMenu() {
  const me = useMe();
  const team = useTeam();
  const navigate = useNavigate();
  const invites = useQuery(myInvitesQuery()).data?.items ?? [];
  if (me.teams.length < 2 && invites.length === 0) return null;
  const invited = plural(invites.length, { one: "# invitation", other: "# invitations" });
  return (
    <Menu
      align="start"
      trigger={
        <button
          type="button"
          aria-label={
            invites.length > 0
              ? t`${team.name} ${invited}: switch to another team`
              : t`${team.name}: switch to another team`
          }
          className="control-h flex min-w-0 items-center gap-1 rounded-md px-1.5 text-fg2 hover:bg-bg2 hover:text-fg"
        >
          <span className="max-w-[28vw] truncate md:max-w-48">{team.name}</span>{" "}
          {invites.length > 0 && (
            <span aria-hidden className="font-medium text-needs tabular-nums">
              {invites.length}
            </span>
          )}
          <Icon name="chevronDown" size={12} />
        </button>
      }
    >
      <MenuLabel>
        <Trans>Team</Trans>
      </MenuLabel>
      <MenuChoice
        value={team.slug}
        onChange={(slug) => void navigate({ to: "/$team", params: { team: slug } })}
        choices={me.teams.map((each) => [each.slug, each.suspended ? t`${each.name} (suspended)` : each.name] as const)}
      />
      {invites.length > 0 && (
        <>
          <MenuLine />
          <MenuLabel>
            <Trans>Invitations</Trans>
          </MenuLabel>
          {invites.map((i) => (
            <MenuItem
              key={i.id}
              onSelect={() =>
                void navigate({
                  to: "/$team/settings/{-$section}",
                  params: { team: team.slug, section: "profile" },
                  hash: "invitations",
                })
              }
            >
              <Trans>{i.team.name} invites you</Trans>
            </MenuItem>
          ))}
        </>
      )}
    </Menu>
  );
}

function AccountMenu() {
  const me = useMe();
  const team = useTeam();
  const navigate = useNavigate();
  const client = useQueryClient();
  const { theme } = useStore(look);
  const settings = (section: string) =>
    navigate({ to: "/$team/settings/{-$section}", params: { team: team.slug, section } });

  const signOut = async () => {
    try {
      await api.POST("/logout");
      client.clear();
      location.assign("/login"); // full page load: drops the old user's terminals and cache
    } catch (error) {
      toastError(t`Could not sign out`, error, () => void signOut());
    }
  };

  return (
    <Menu
      trigger={
        <button
          type="button"
          aria-label={t`${initials(me.user.name || me.user.email)}: your account and settings`}
          className="rounded-full hover:opacity-85"
        >
          <Avatar
            id={me.user.id}
            name={me.user.name || me.user.email}
            src={avatarSrc(team.slug, me.user)}
            className="size-7 text-micro pointer-coarse:size-11"
          />
        </button>
      }
    >
      <MenuLabel>
        <span className="block text-body text-fg">{me.user.name}</span>
        {me.user.email}
      </MenuLabel>
      <MenuLine />
      <MenuItem onSelect={() => void settings("profile")} keys="g s">
        <Trans>Settings</Trans>
      </MenuItem>
      <MenuItem onSelect={() => void settings("agents")}>
        <Trans>Agents and accounts</Trans>
      </MenuItem>
      <MenuItem onSelect={() => perform("go.machines")} keys="g m">
        <Trans>Machines</Trans>
      </MenuItem>
      <MenuItem onSelect={() => perform("go.sandboxes")} keys="g z">
        <Trans>Sandboxes</Trans>
      </MenuItem>
      <MenuItem onSelect={() => perform("go.automations")}>
        <Trans>Automations</Trans>
      </MenuItem>
      <MenuItem onSelect={() => perform("go.jobs")} keys="g q">
        <Trans>Jobs</Trans>
      </MenuItem>
      <MenuItem onSelect={() => perform("go.skills")} keys="g g">
        <Trans>Skills</Trans>
      </MenuItem>
      {team.can("costs.view") && (
        <MenuItem onSelect={() => perform("go.usage")} keys="g u">
          <Trans>Usage</Trans>
        </MenuItem>
      )}
      <MenuItem onSelect={() => perform("help")} keys="?">
        <Trans>Keys</Trans>
      </MenuItem>
      <MenuItem onSelect={() => window.open("/api/docs", "_blank", "noopener")}>
        <Trans>API documentation</Trans>
      </MenuItem>
      <MenuLine />
      <MenuLabel>
        <Trans>Appearance</Trans>
      </MenuLabel>
      <MenuChoice<Theme>
        value={theme}
        onChange={(v) => setLook({ theme: v })}
        choices={[
          ["system", t`System`],
          ["light", t`Light`],
          ["dark", t`Dark`],
        ]}
      />
      <MenuLine />
      <MenuItem onSelect={() => void signOut()}>
        <Trans>Sign out</Trans>
      </MenuItem>
    </Menu>
  );
}
