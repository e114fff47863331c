import { initials } from "@/format/text";
import { cx } from "./cx";

/** The colour of a person without a picture, always the same one. White stands out on each. */
export function colorOf(id: string): string {
  let hash = 0;
  for (const c of id) hash = (hash * 31 + c.charCodeAt(0)) | 0;
  return `oklch(0.46 0.1 ${(((hash % 24) + 24) % 24) * 15})`;
}

interface Props {
  id: string;
  name: string;
  /** The address of the picture; none shows initials. */
  src?: string;
  className?: string;
}

/** A person's picture, or initials on a colour made from the id. It is decoration: say the name beside it or in a label. */
export function Avatar({ id, name, src, className }: Props) {
  return (
    <span
      aria-hidden
      className={cx(
        "grid shrink-0 place-items-center overflow-hidden rounded-full font-semibold text-white",
        className,
      )}
      style={{ background: colorOf(id) }}
    >
      {src ? <img src={src} alt="" className="size-full object-cover" /> : initials(name)}
    </span>
  );
}

/** The address of a member's picture; its content never changes. */
export function avatarSrc(team: string, user: { id: string; avatar: string }, size: "small" | "large" = "small") {
  if (!user.avatar) return undefined;
  return `/api/v1/teams/${encodeURIComponent(team)}/members/${user.id}/avatar?version=${user.avatar}&size=${size}`;
}
