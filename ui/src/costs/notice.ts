import { usd } from "@/format/money";
import type { Budget, MyQuota } from "./api";

/** A threshold that was passed, as one line above every page. */
export interface LimitNotice {
  /** Another one once it is passed anew: what was dismissed stays so. */
  id: string;
  text: string;
  /** Work stands still, or is about to. */
  grave: boolean;
  section: "budget" | "usage";
}

const HOUR = 3_600_000;
/** Percent of one's own hours from which on one is told. */
const HOURS_FROM = 80;

/** What a team's budget and one's own hours have to say; the gravest first. */
export function noticesOf(budget: Budget | undefined, mine: MyQuota | undefined): LimitNotice[] {
  return [ofBudget(budget), ofHours(mine)]
    .filter((n): n is LimitNotice => n !== undefined)
    .sort((a, b) => Number(b.grave) - Number(a.grave));
}

function ofBudget(b: Budget | undefined): LimitNotice | undefined {
  if (!b?.tell.app || b.limit_nano === null) return undefined;
  const s = b.standing;
  const passed = b.alerts
    .filter((a) => (a.scope === "team_budget" || a.scope === "team_overage") && a.limit > 0)
    .sort((x, y) => y.noted_at - x.noted_at || y.percent - x.percent)[0];
  // Told once and raised since: there is nothing to say until it is passed anew.
  if (!passed || s.state === "ok") return undefined;
  const spent = `${usd(s.spent_nano)} of the team's budget of ${usd(b.limit_nano)} are spent this month (${share(s.percent ?? 0)}).`;
  return {
    id: `${passed.scope}:${passed.percent}:${passed.noted_at}`,
    text: `${spent}${CONSEQUENCE[s.state]}`,
    grave: s.state === "grace" || s.state === "stopped",
    section: "budget",
  };
}

const share = (percent: number): string => (percent > 999 ? "over 999 %" : `${percent} %`);

const CONSEQUENCE: Record<Budget["standing"]["state"], string> = {
  ok: "",
  warned: "",
  overage: " Work goes on at extra cost.",
  grace: " What costs money stands still in a few minutes; nothing is lost.",
  stopped: " What costs money stands still until the budget is raised or the month ends.",
};

function ofHours(m: MyQuota | undefined): LimitNotice | undefined {
  const hours = m?.effective.hours_month;
  if (!m || hours === null || hours === undefined || m.percent === null || m.percent < HOURS_FROM) return undefined;
  const step = m.percent >= 100 ? 100 : m.percent >= 90 ? 90 : HOURS_FROM;
  const used = (m.used.hours_ms / HOUR).toFixed(1).replace(/\.0$/, "");
  return {
    id: `user_hours:${step}:${hours}:${m.resets_at}`,
    text: `${used} of your ${hours} hours in paid places are used this month.${step === 100 ? " What you run there stands still; work on this server goes on." : ""}`,
    grave: step === 100,
    section: "usage",
  };
}

const KEY = "parawork.limits";
const KEPT = 20;

/** What somebody has put away in this browser. */
export function dismissed(user: string): string[] {
  try {
    const v: unknown = JSON.parse(localStorage.getItem(`${KEY}.${user}`) ?? "[]");
    return Array.isArray(v) ? v.filter((x) => typeof x === "string") : [];
  } catch {
    return [];
  }
}

export function dismiss(user: string, id: string): string[] {
  const next = [id, ...dismissed(user).filter((x) => x !== id)].slice(0, KEPT);
  try {
    localStorage.setItem(`${KEY}.${user}`, JSON.stringify(next));
  } catch {
    // no storage: it holds until the page is reloaded
  }
  return next;
}
