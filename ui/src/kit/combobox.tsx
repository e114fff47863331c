import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Popover } from "radix-ui";
import { type ReactNode, useEffect, useId, useMemo, useRef, useState } from "react";
import { chipClass } from "./chip";
import { cx } from "./cx";
import { inputClass } from "./field";
import { Icon } from "./icon";

export interface Option {
  value: string;
  text: string;
  /** What the list shows; the text when absent. */
  row?: ReactNode;
  disabled?: boolean;
}

interface Props {
  id?: string;
  "aria-describedby"?: string;
  "aria-invalid"?: true;
  label: string;
  value: string;
  onChange: (value: string) => void;
  options: Option[];
  placeholder?: string;
  empty?: ReactNode;
  /** Below the list: the state of a fetch, a button. */
  foot?: ReactNode;
  disabled?: boolean;
  shown?: ReactNode;
  /** It is a chip of a form, and says itself what is chosen in it. */
  chip?: boolean;
}

const MOST = 200; // rows shown at once; the filter finds the rest

/** One of many, found by typing. */
export function Combobox({
  label,
  value,
  onChange,
  options,
  placeholder,
  empty,
  foot,
  disabled,
  shown,
  chip,
  ...ids
}: Props) {
  const [open, setOpen] = useState(false);
  const [query, setQuery] = useState("");
  const [active, setActive] = useState(0);
  const listId = useId();
  const list = useRef<HTMLDivElement>(null);

  const found = useMemo(() => {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    return options.filter((o) => words.every((w) => o.text.toLowerCase().includes(w)));
  }, [options, query]);
  const rows = found.slice(0, MOST);

  useEffect(() => {
    list.current?.querySelector(`[data-at="${active}"]`)?.scrollIntoView({ block: "nearest" });
  }, [active]);

  const choose = (o: Option | undefined) => {
    if (!o || o.disabled) return;
    onChange(o.value);
    setOpen(false);
  };

  return (
    <Popover.Root
      open={open}
      onOpenChange={(o) => {
        setOpen(o);
        setQuery("");
        setActive(
          Math.max(
            0,
            options.findIndex((x) => x.value === value),
          ),
        );
      }}
    >
      <Popover.Trigger asChild disabled={disabled}>
        <button
          type="button"
          role="combobox"
          aria-expanded={open}
          aria-controls={open ? listId : undefined}
          aria-label={
            chip ? `${label}: ${options.find((o) => o.value === value)?.text || value || placeholder}` : undefined
          }
          {...ids}
          className={chip ? chipClass : cx(inputClass, "flex items-center gap-2 text-left")}
        >
          <span className={cx("min-w-0 flex-1 truncate", !value && "text-fg3")}>
            {shown ?? (options.find((o) => o.value === value)?.text || value || placeholder)}
          </span>
          <Icon name="chevronDown" size={chip ? 12 : 14} className="shrink-0 text-fg3" />
        </button>
      </Popover.Trigger>
      <Popover.Portal>
        <Popover.Content
          align="start"
          sideOffset={4}
          collisionPadding={8}
          aria-label={label}
          className="rise-in z-50 flex max-h-[min(380px,var(--radix-popover-content-available-height))] w-(--radix-popover-trigger-width) min-w-64 flex-col rounded-md bg-bg1 shadow-float"
        >
          <input
            role="combobox"
            aria-label={t`Find: ${label}`}
            aria-expanded
            aria-controls={listId}
            aria-activedescendant={rows[active] ? `${listId}-${active}` : undefined}
            autoComplete="off"
            spellCheck={false}
            value={query}
            placeholder={t`Type to find`}
            onChange={(e) => {
              setQuery(e.target.value);
              setActive(0);
            }}
            onKeyDown={(e) => {
              if (e.key === "ArrowDown") setActive((a) => Math.min(rows.length - 1, a + 1));
              else if (e.key === "ArrowUp") setActive((a) => Math.max(0, a - 1));
              else if (e.key === "Enter" && !e.ctrlKey && !e.metaKey) choose(rows[active]);
              else return;
              e.preventDefault();
            }}
            className="h-9 shrink-0 border-b border-hairline bg-transparent px-3 outline-none pointer-coarse:text-touch"
          />
          <div
            ref={list}
            id={listId}
            role="listbox"
            aria-label={label}
            tabIndex={-1}
            className="min-h-0 flex-1 overflow-y-auto p-1"
          >
            {rows.map((o, i) => (
              // biome-ignore lint/a11y/useKeyWithClickEvents: the field above has the keyboard
              <div
                key={o.value}
                id={`${listId}-${i}`}
                data-at={i}
                role="option"
                tabIndex={-1}
                aria-selected={o.value === value}
                aria-disabled={o.disabled}
                onClick={() => choose(o)}
                onPointerMove={() => setActive(i)}
                className={cx(
                  "row-h flex items-center gap-2 rounded-sm px-2",
                  i === active && "bg-bg2",
                  o.disabled ? "text-fg3" : "cursor-pointer",
                )}
              >
                <span className="min-w-0 flex-1">{o.row ?? o.text}</span>
                <Icon name="check" size={14} className={cx("shrink-0 text-accent", o.value !== value && "invisible")} />
              </div>
            ))}
            {rows.length === 0 && <p className="px-2 py-3 text-fg3">{empty ?? t`Nothing found.`}</p>}
            {found.length > MOST && (
              <p className="px-2 py-1.5 text-meta text-fg3">
                <Trans>{found.length - MOST} more. Type to find them.</Trans>
              </p>
            )}
          </div>
          {foot && <div className="shrink-0 border-t border-hairline px-3 py-2 text-meta text-fg3">{foot}</div>}
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}
