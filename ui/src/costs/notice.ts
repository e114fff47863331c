import { t } from "@lingui/core/macro";
import { usd } from "@/format/money";
import type { Budget, MyQuota } from "./api";

/** A threshold that was passed, as one line above every page. */
export interface LimitNotice {
  /** Changes when the threshold is passed again, so a dismissed notice stays dismissed. */
  id: string;
  text: string;
  /** Work is paused, or is about to be. */
  grave: boolean;
  section: "budget" | "usage";
}

const HOUR = 3_600_000;
/** Percentages of the user's hours that trigger a notice. */
const HOURS_FROM = 80;

/** Notices for the team's budget and the user's hours; the most serious first. */
export function noticesOf(budget: Budget | undefined, mine: MyQuota | undefined): LimitNotice[] {
  return [ofBudget(budget), ofHours(mine)]
    .filter((n): n is LimitNotice => n !== undefined)
    .sort((a, b) => Number(b.grave) - Number(a.grave));
}

function ofBudget(b: Budget | undefined): LimitNotice | undefined {
  if (!b?.notify.app || b.limit_nano === null) return undefined;
  const s = b.status;
  const passed = b.alerts
    .filter((a) => (a.scope === "team_budget" || a.scope === "team_overage") && a.limit > 0)
    .sort((x, y) => y.noted_at - x.noted_at || y.percent - x.percent)[0];
  // Raised since the threshold was passed: no notice until it is passed again.
  if (!passed || s.state === "ok") return undefined;
  const spent = t`${usd(s.spent_nano)} of the team's budget of ${usd(b.limit_nano)} is spent this month (${share(s.percent ?? 0)}).`;
  return {
    id: `${passed.scope}:${passed.percent}:${passed.noted_at}`,
    text: `${spent}${CONSEQUENCE[s.state]}`,
    grave: s.state === "grace" || s.state === "stopped",
    section: "budget",
  };
}

const share = (percent: number): string => (percent > 999 ? "over 999 %" : `${percent} %`);

const CONSEQUENCE: Record<Budget["status"]["state"], string> = {
  ok: "",
  warned: "",
  overage: t` Work continues at extra cost.`,
  grace: t` Paid sandboxes are paused in a few minutes. Nothing is lost.`,
  stopped: t` Paid sandboxes are paused until the budget is raised or the month ends.`,
};

function ofHours(m: MyQuota | undefined): LimitNotice | undefined {
  const hours = m?.effective.hours_month;
  if (!m || hours === null || hours === undefined || m.percent === null || m.percent < HOURS_FROM) return undefined;
  const step = m.percent >= 100 ? 100 : m.percent >= 90 ? 90 : HOURS_FROM;
  const used = (m.used.hours_ms / HOUR).toFixed(1).replace(/\.0$/, "");
  return {
    id: `user_hours:${step}:${hours}:${m.resets_at}`,
    text: t`${used} of your ${hours} hours in paid places are used this month.${step === 100 ? t` Your sandboxes there are paused. Work on this server continues.` : ""}`,
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
