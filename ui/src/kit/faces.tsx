import { initials } from "@/format/text";
import { cx } from "./cx";

export interface Face {
  userId: string;
  name: string;
  /** Said after the name, such as "watching only". */
  note?: string;
  lit?: boolean;
}

/** Avatars: small circles with initials; names are in the accessible label and tooltip. */
export function Faces({ people, most = 4, label }: { people: Face[]; most?: number; label: string }) {
  if (people.length === 0) return null;
  const names = people.map((p) => (p.note ? `${p.name}, ${p.note}` : p.name)).join("; ");
  return (
    <span className="flex shrink-0 items-center" title={`${label}: ${names}`}>
      <span className="sr-only">
        {label}: {names}
      </span>
      <span aria-hidden className="flex">
        {people.slice(0, most).map((p) => (
          <span
            key={p.userId}
            className={cx(
              "-ml-1 grid size-5 place-items-center rounded-full border bg-bg3 text-micro font-semibold text-fg first:ml-0",
              p.lit ? "border-accent" : "border-bg1",
            )}
          >
            {initials(p.name)}
          </span>
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
