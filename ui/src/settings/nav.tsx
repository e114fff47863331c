import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { membersQuery } from "@/api/queries";
import { budgetQuery } from "@/costs/api";
import { cx } from "@/kit/cx";
import { inputClass } from "@/kit/field";
import { Icon, PATHS } from "@/kit/icon";
import { AGENT, BELL, CONTRAST, PEOPLE, PERSON, SERVER } from "@/kit/more-icons";
import { useMe, useTeam } from "@/state/team";
import { findParts, PAGE_GROUPS, PAGE_NAMES, PAGES, PARTS, pageOf, type Section, type SettingsPage } from "./sections";

/** The parts that this person may see in this team. */
export function useShownParts(): readonly Section[] {
  const team = useTeam();
  const { operator } = useMe().user;
  return PAGES.flatMap((p): readonly Section[] => p.parts).filter((s) => {
    if (s === "budget" || s === "quotas" || s === "billing") return team.can("costs.view");
    if (s === "links") return team.can("team.manage");
    if (s === "audit") return team.can("audit.read");
    return s === "about" || operator || pageOf(s)?.group !== "Server";
  });
}

/**
 * The pages that are folded until somebody asks for them. Only operators have so many: those of the server for who works alone, and those of
 * costs while no money is spent or limited.
 */
function useFolded(): (p: SettingsPage) => boolean {
  const team = useTeam();
  const { operator } = useMe().user;
  const costs = operator && team.can("costs.view");
  const members = useQuery({ ...membersQuery(team.slug), enabled: operator });
  const budget = useQuery({ ...budgetQuery(team.slug), enabled: costs });
  const alone = operator && members.data?.length === 1;
  const free = costs && budget.data?.limit_nano === null && budget.data.status.spent_nano === 0;
  return (p) => (p.group === "Server" && alone) || (p.name === "Costs" && free);
}

// Not for translation: codes of groups.
const GROUPS = ["You", "Team", "Server"] as const;

const whose = (s: Section): string => {
  const page = pageOf(s);
  return page ? PAGE_GROUPS[page.group] : "";
};

const ICONS: Record<SettingsPage["name"], string> = {
  Profile: PERSON,
  Security: PATHS.lock,
  Notifications: BELL,
  Appearance: CONTRAST,
  Agents: AGENT,
  Team: PEOPLE,
  Members: PERSON,
  "Team's agents": AGENT,
  Places: PATHS.machine,
  Costs: PATHS.chart,
  "Users and teams": PEOPLE,
  "Server's costs": PATHS.chart,
  Server: SERVER,
};

const ITEM =
  "row-h flex items-center gap-2 rounded-md px-2.5 whitespace-nowrap text-fg2 -outline-offset-2 hover:bg-bg2 aria-[current=page]:bg-bg3 aria-[current=page]:text-fg";

/** The pages of the settings by group, and a field that finds their parts by any word. On a phone they are a strip that scrolls. */
export function SettingsNav({ shown, current }: { shown: readonly Section[]; current: Section }) {
  const [typed, setTyped] = useState("");
  const [all, setAll] = useState(false);
  const folded = useFolded();
  const navigate = useNavigate();
  const team = useTeam();
  const open = (section: Section) => {
    setTyped("");
    void navigate({ to: "/$team/settings/{-$section}", params: { team: team.slug, section } });
  };
  const found = typed.trim() ? findParts(typed, shown) : null;
  const visible = PAGES.map((page) => ({
    page,
    parts: page.parts.filter((s: Section) => shown.includes(s)) as Section[],
  }))
    .filter((p) => p.parts.length > 0)
    .map((p) => ({ ...p, isFolded: !all && folded(p.page) && !p.parts.includes(current) }));
  const hidden = visible.some((p) => p.isFolded);
  return (
    <nav
      aria-label={t`Settings`}
      className="flex min-w-0 shrink-0 flex-col gap-2 md:sticky md:top-0 md:max-h-[calc(100vh-6rem)] md:w-44 md:self-start md:overflow-y-auto p-0.5"
    >
      <input
        type="search"
        aria-label={t`Find a setting`}
        placeholder={t`Find a setting`}
        value={typed}
        onChange={(e) => setTyped(e.target.value)}
        onKeyDown={(e) => {
          if (e.key === "Escape") setTyped("");
          const first = found?.[0];
          if (e.key === "Enter" && first) open(first);
        }}
        className={inputClass}
      />
      {found ? (
        <ul aria-label={t`Settings found`} className="flex flex-col">
          {found.map((s) => (
            <li key={s}>
              <PartLink part={s} current={s === current} onOpen={() => setTyped("")}>
                <span className="truncate">{PARTS[s][0]}</span>
                <span className="ml-auto pl-2 text-meta text-fg3">{whose(s)}</span>
              </PartLink>
            </li>
          ))}
          {found.length === 0 && (
            <li className="px-2.5 text-fg2">
              <Trans>No setting has these words.</Trans>
            </li>
          )}
        </ul>
      ) : (
        <div className="flex gap-1 overflow-x-auto md:flex-col">
          {GROUPS.map((group) => {
            const pages = visible.filter((p) => p.page.group === group && !p.isFolded);
            return (
              pages.length > 0 && (
                <div
                  key={group}
                  role="group"
                  aria-label={PAGE_GROUPS[group]}
                  className="flex shrink-0 gap-1 md:mb-3 md:flex-col"
                >
                  <p aria-hidden className="hidden px-2.5 pb-0.5 text-meta text-fg3 md:block">
                    {PAGE_GROUPS[group]}
                  </p>
                  {pages.map(({ page, parts }) => {
                    const first = parts[0];
                    return (
                      first && (
                        <PartLink key={page.name} part={first} current={parts.includes(current)}>
                          <Icon path={ICONS[page.name]} className="shrink-0 text-fg3" />
                          {parts.length === 1 && page.parts.length > 1 ? PARTS[first][0] : PAGE_NAMES[page.name]}
                        </PartLink>
                      )
                    );
                  })}
                </div>
              )
            );
          })}
          {hidden && (
            <button type="button" className={cx(ITEM, "shrink-0 text-left")} onClick={() => setAll(true)}>
              <Trans>More settings</Trans>
            </button>
          )}
        </div>
      )}
    </nav>
  );
}

/** The parts of a page with more than one. */
export function PartTabs({
  page,
  shown,
  current,
}: {
  page: SettingsPage;
  shown: readonly Section[];
  current: Section;
}) {
  const team = useTeam();
  const parts = page.parts.filter((s: Section) => shown.includes(s)) as Section[];
  if (parts.length < 2) return null;
  return (
    <nav aria-label={PAGE_NAMES[page.name]} className="mb-5 flex gap-1 overflow-x-auto border-b border-hairline pb-1.5">
      {parts.map((s) => (
        <PartLink key={s} part={s} current={s === current}>
          {PARTS[s][0]}
        </PartLink>
      ))}
      {page.name === "Costs" && (
        <Link to="/$team/usage" params={{ team: team.slug }} className={ITEM}>
          <Trans>Usage</Trans>
        </Link>
      )}
    </nav>
  );
}

function PartLink({
  part,
  current,
  onOpen,
  children,
}: {
  part: Section;
  current: boolean;
  onOpen?: () => void;
  children: React.ReactNode;
}) {
  const team = useTeam();
  return (
    <Link
      to="/$team/settings/{-$section}"
      params={{ team: team.slug, section: part }}
      ref={current ? inView : undefined}
      aria-current={current ? "page" : undefined}
      onClick={onOpen}
      className={ITEM}
    >
      {children}
    </Link>
  );
}

/** Strips of links scroll where there is little room: the one that is open is shown. Nothing else moves, so the page begins at its top. */
function inView(link: HTMLAnchorElement | null) {
  const strip = link?.closest("nav");
  if (!link || !strip) return;
  for (let box: Element | null = link.parentElement; box && box !== strip.parentElement; box = box.parentElement) {
    if (box.scrollWidth <= box.clientWidth) continue;
    const from = box.getBoundingClientRect();
    const at = link.getBoundingClientRect();
    box.scrollLeft += at.left - from.left - (from.width - at.width) / 2;
  }
}
