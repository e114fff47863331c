import { plural, t } from "@lingui/core/macro";
import type { Schemas } from "@/api/client";
import { mb } from "@/format/size";
import { count } from "@/format/text";
import { minutes } from "@/format/time";

type Limits = Schemas["ResourceLimits"];

/** Limits with every field; 0 is none. */
export const whole = (l: Limits): Required<Limits> => ({
  cpus: l.cpus ?? 0,
  memory_mb: l.memory_mb ?? 0,
  processes: l.processes ?? 0,
  disk_mb: l.disk_mb ?? 0,
  wall_minutes: l.wall_minutes ?? 0,
});

/** Isolation levels, weakest first, each with its meaning. */
export const BOUNDARIES: readonly { value: Exclude<Schemas["Boundary"], "">; name: string; means: string }[] = [
  { value: "none", name: t`No isolation`, means: t`Agents have the rights of the server's user.` },
  {
    value: "process",
    name: t`Process sandbox`,
    means: t`Agents see only their worktree. They share the host's kernel.`,
  },
  {
    value: "container",
    name: t`Container`,
    means: t`Agents run in their own image. They share the host's kernel.`,
  },
  { value: "gvisor", name: "gVisor", means: t`Agents run on their own kernel, not the host's.` },
  { value: "microvm", name: "MicroVM", means: t`Agents run in a virtual machine.` },
];

/** Limits in one line; what is not bound is not said. */
export function limitsInWords(limits: Limits): string {
  const l = whole(limits);
  const parts = [
    l.cpus > 0 && `${count(l.cpus)} ${l.cpus === 1 ? "core" : "cores"}`,
    l.memory_mb > 0 && t`${mb(l.memory_mb)} of memory`,
    l.processes > 0 && plural(l.processes, { one: "# process", other: "# processes" }),
    l.disk_mb > 0 && t`${mb(l.disk_mb)} of disk`,
    l.wall_minutes > 0 && minutes(l.wall_minutes),
  ].filter(Boolean);
  return parts.length > 0 ? parts.join(", ") : t`no limits`;
}

/** What of the network a place reaches. */
export const NETWORKS: readonly { value: Schemas["Network"]["mode"]; name: string; means: string }[] = [
  { value: "open", name: t`Open`, means: t`All public addresses, but not this server, its network or cloud metadata.` },
  {
    value: "allow",
    name: t`Names on a list`,
    means: t`The agents' services and the names you list. Everything else is blocked and listed.`,
  },
  { value: "none", name: t`None`, means: t`No network. Agents that call a model cannot work.` },
];

export const networkName = (mode: string): string => NETWORKS.find((n) => n.value === mode)?.name ?? mode;
