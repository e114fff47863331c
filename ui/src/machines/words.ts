import { plural, t } from "@lingui/core/macro";
import { mb } from "@/format/size";
import { clock } from "@/format/time";
import type { MarkKind } from "@/kit/mark";
import type { Connection, Machine } from "./api";

export interface Stands {
  mark: MarkKind;
  word: string;
  /** Why, in words; "" when the word says it all. */
  text: string;
}

/** How a machine is now. */
export function machineStands(m: Machine, now: number): Stands {
  if (m.state === "revoked") return { mark: "stopped", word: t`Revoked`, text: "" };
  if (m.state === "offline") {
    const since = m.offline_at ? t`since ${clock(m.offline_at, now)}` : t`not connected yet`;
    return { mark: "idle", word: t`Offline`, text: [since, m.offline_reason].filter(Boolean).join(": ") };
  }
  if (!m.available) return { mark: "needs", word: t`Online, accepts no work`, text: m.reason };
  return { mark: "merged", word: t`Online`, text: "" };
}

const OS: Record<string, string> = { linux: "Linux", darwin: "macOS" };

export const osName = (os: string): string => OS[os] ?? os;

/** What a machine is: "Debian GNU/Linux 12, amd64". */
export function systemWords(m: Pick<Machine, "os" | "arch" | "release">): string {
  const system = m.release || osName(m.os);
  return [system, m.arch].filter(Boolean).join(", ");
}

/** How agents run there: "Docker, kalilinux/kali-rolling". */
export function modeWords(m: Pick<Machine, "mode" | "image">): string {
  switch (m.mode) {
    case "docker":
      return m.image ? t`Docker, ${m.image}` : "Docker";
    case "bubblewrap":
      return t`Process sandbox`;
    case "direct":
      return t`Directly on the machine`;
  }
}

/** What agents reach from there. */
export function networkWords(network: string): string {
  switch (network) {
    case "host":
      return t`The machine's network, including its local network`;
    case "open":
      return t`All public addresses`;
    case "allow":
      return t`Names on the owner's list`;
    case "none":
      return t`Nothing`;
    default:
      return network;
  }
}

export const ACCESS: Record<Machine["access"], { name: string; means: string }> = {
  full: { name: t`Full`, means: t`Agents work without asking its owner.` },
  ask: { name: t`Ask`, means: t`The machine asks its owner before anything starts or writes.` },
  read_only: { name: t`Read only`, means: t`Nothing can start or write there.` },
};

/** Limits its owner set, in one line. */
export function ownerLimits(l: Machine["limits"]): string {
  const parts = [
    l.sandboxes && t`${plural(l.sandboxes, { one: "# workspace", other: "# workspaces" })} at once`,
    l.cpus && plural(l.cpus, { one: "# core each", other: "# cores each" }),
    l.memory_mb && t`${mb(l.memory_mb)} of memory each`,
    l.disk_mb && t`${mb(l.disk_mb)} of disk each`,
  ].filter(Boolean);
  return parts.length > 0 ? parts.join(", ") : t`none`;
}

/** How busy it is, in one line. */
export function loadWords(m: Machine): string {
  const parts = [
    `${Math.round(m.load.cpu * 100)} % CPU`,
    m.memory_mb > 0 && t`${mb(m.load.memory_used_mb)} of ${mb(m.memory_mb)}`,
    // Show the free disk space only if it is low.
    m.load.disk_free_mb > 0 && m.load.disk_free_mb < 5120 && t`${mb(m.load.disk_free_mb)} of disk left`,
  ].filter(Boolean);
  return parts.join(", ");
}

/** Machines as people look for them: their own first, then the team's; those that are connected before the others. */
export function sortMachines(list: readonly Machine[]): { title: string; items: Machine[] }[] {
  const rank = (m: Machine) => (m.state === "online" ? 0 : m.state === "offline" ? 1 : 2);
  const by = (want: (m: Machine) => boolean) =>
    list.filter(want).sort((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name) || a.created_at - b.created_at);
  return [
    { title: t`Yours`, items: by((m) => m.mine) },
    { title: t`Shared with the team`, items: by((m) => !m.mine && m.share === "team") },
    { title: t`Of other members`, items: by((m) => !m.mine && m.share !== "team") },
  ].filter((g) => g.items.length > 0);
}

export const platformId = (d: { os: string; arch: string }): string => `${d.os}-${d.arch}`;

/** The likely download for this browser's computer. Browsers on a Mac do not report the processor: assume Apple silicon. */
export function likelyPlatform(platform: string, agent: string): string {
  if (/mac/i.test(platform) || /Mac OS X/i.test(agent)) return "darwin-arm64";
  return /aarch64|arm64|armv8/i.test(`${platform} ${agent}`) ? "linux-arm64" : "linux-amd64";
}

/** The command of the server, for a program that lies in the folder one is in. */
export const runLine = (command: string): string => command.replace(/^parawork /, "./parawork ");

/** How a connection ended, or that it is open. */
export const connectionWords = (c: Connection): string =>
  c.ended_at ? c.reason || t`the connection ended` : t`connected now`;
