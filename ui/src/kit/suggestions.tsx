import { type KeyboardEvent, type ReactNode, useId, useState } from "react";
import { cx } from "./cx";

interface Options<T> {
  /** What is suggested now; nothing while no list is open. */
  found: readonly T[];
  choose: (it: T) => void;
  close: () => void;
  /** Enter is not for the list: what is typed is chosen already. */
  typed?: boolean;
}

export interface Suggestions<T> {
  id: string;
  found: readonly T[];
  active: number;
  choose: (it: T) => void;
  /** Whether the key was for the list. */
  onKey: (e: KeyboardEvent) => boolean;
  /** For the field: what is read out as chosen. */
  field: {
    "aria-autocomplete": "list";
    "aria-controls"?: string | undefined;
    "aria-activedescendant"?: string | undefined;
  };
}

/** A list of suggestions for a field that keeps the focus: arrows walk it, Tab and Enter choose, Escape closes. */
export function useSuggestions<T>({ found, choose, close, typed = false }: Options<T>): Suggestions<T> {
  const [at, setAt] = useState(0);
  const id = useId();
  const active = Math.min(at, found.length - 1);
  const take = (it: T) => {
    choose(it);
    setAt(0);
  };
  return {
    id,
    found,
    active,
    choose: take,
    onKey: (e) => {
      const it = found[active];
      if (it === undefined) return false;
      const plain = !e.shiftKey && !e.ctrlKey && !e.metaKey;
      if (e.key === "ArrowDown") setAt((active + 1) % found.length);
      else if (e.key === "ArrowUp") setAt((active + found.length - 1) % found.length);
      else if (e.key === "Tab" || (e.key === "Enter" && plain && !typed)) take(it);
      else if (e.key === "Escape") close();
      else return false;
      e.preventDefault();
      e.stopPropagation();
      return true;
    },
    field: {
      "aria-autocomplete": "list",
      "aria-controls": found.length > 0 ? id : undefined,
      "aria-activedescendant": found.length > 0 ? `${id}-${active}` : undefined,
    },
  };
}

interface ListProps<T> {
  list: Suggestions<T>;
  label: string;
  keyOf: (it: T) => string;
  className: string;
  row: string;
  children: (it: T) => ReactNode;
}

/** The list itself, which stands by the field. */
export function SuggestionList<T>({ list, label, keyOf, className, row, children }: ListProps<T>) {
  if (list.found.length === 0) return null;
  return (
    <div
      id={list.id}
      role="listbox"
      aria-label={label}
      tabIndex={-1}
      className={cx("overflow-y-auto rounded-md bg-bg1 py-1", className)}
    >
      {list.found.map((it, i) => (
        // biome-ignore lint/a11y/useKeyWithClickEvents: the field has the focus and handles the keys
        <div
          key={keyOf(it)}
          id={`${list.id}-${i}`}
          ref={i === list.active ? (el) => el?.scrollIntoView({ block: "nearest" }) : undefined}
          role="option"
          tabIndex={-1}
          aria-selected={i === list.active}
          onMouseDown={(e) => e.preventDefault()}
          onClick={() => list.choose(it)}
          className={cx("cursor-pointer pointer-coarse:min-h-11", row, i === list.active && "bg-bg3")}
        >
          {children(it)}
        </div>
      ))}
    </div>
  );
}
