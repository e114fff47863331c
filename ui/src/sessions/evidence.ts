import { t } from "@lingui/core/macro";
import type { Session } from "@/api/client";

export type Evidence = Session["evidence"][number];

const SOURCES: Record<Evidence["source"], string> = {
  hook: t`The agent's hooks`,
  transcript: t`Its conversation`,
  notification: t`A notification`,
  title: t`The terminal's title`,
  report: t`Its terminal progress report`,
  bytes: t`Its output`,
  screen: t`The screen`,
  process: t`Its processes`,
  person: t`A user`,
};

const SAYS: Record<Evidence["says"], string> = {
  working: t`working`,
  waiting: t`needs you`,
  idle: t`idle`,
  failed: t`failed`,
};

/** Sources of evidence, in words. */
export const sourceOf = (e: Evidence): string => SOURCES[e.source];
export const saysOf = (e: Evidence): string => SAYS[e.says];

/** How long ago, to the second while that matters. */
export function since(at: number, now: number): string {
  const s = Math.max(0, Math.floor((now - at) / 1000));
  if (s < 1) return t`now`;
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  const h = Math.floor(s / 3600);
  return h < 48 ? `${h} h` : `${Math.floor(h / 24)} d`;
}

const aged = (at: number, now: number): string => (now - at < 1000 ? t`just now` : t`${since(at, now)} ago`);

/** Current evidence before outdated, newest first. */
export function ordered(list: readonly Evidence[]): Evidence[] {
  return [...list].sort((a, b) => Number(b.counts) - Number(a.counts) || b.at - a.at);
}

/** The evidence for the state in a sentence: source, time, and whether there were later signals. */
export function basis(s: Session, now: number): string {
  const why = s.evidence.find((e) => e.source === s.state_source);
  if (s.attention?.reason === "stuck")
    return t`Nothing has moved for ${since(s.attention.at, now)}: no output, no CPU use.`;
  if (!why) return s.state === "starting" ? t`No signals yet.` : t`No output.`;
  const later = s.evidence.some((e) => e !== why && e.at > why.at + 1000);
  return t`${sourceOf(why)} reported it ${aged(why.at, now)}${later ? "" : t`; no signal since`}.`;
}
