import { useQuery } from "@tanstack/react-query";
import { membersQuery } from "@/api/queries";
import { useTeam } from "@/state/team";
import { Avatar, avatarSrc } from "./avatar";
import { cx } from "./cx";

export interface Face {
  userId: string;
  name: string;
  /** Said after the name, such as "watching only". */
  note?: string;
  lit?: boolean;
}

/** Avatars: small circles with pictures or initials; names are in the accessible label and tooltip. */
export function Faces({ people, most = 4, label }: { people: Face[]; most?: number; label: string }) {
  const team = useTeam().slug;
  const members = useQuery({ ...membersQuery(team), enabled: people.length > 0, staleTime: 5 * 60_000 });
  const srcOf = (id: string) => {
    const user = members.data?.find((m) => m.user.id === id)?.user;
    return user && avatarSrc(team, user);
  };
  if (people.length === 0) return null;
  const names = people.map((p) => (p.note ? `${p.name}, ${p.note}` : p.name)).join("; ");
  return (
    <span className="flex shrink-0 items-center" title={`${label}: ${names}`}>
      <span className="sr-only">
        {label}: {names}
      </span>
      <span aria-hidden className="flex">
        {people.slice(0, most).map((p) => (
          <Avatar
            key={p.userId}
            id={p.userId}
            name={p.name}
            src={srcOf(p.userId)}
            className={cx("-ml-1 size-5 text-micro ring-1 first:ml-0", p.lit ? "ring-accent" : "ring-bg1")}
          />
        ))}
      </span>
      {people.length > most && (
        <span aria-hidden className="ml-1 text-meta text-fg3 tabular-nums">
          +{people.length - most}
        </span>
      )}
    </span>
  );
}
