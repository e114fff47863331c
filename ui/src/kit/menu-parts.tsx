import { DropdownMenu as Radix } from "radix-ui";
import type { KeyboardEvent, ReactElement, ReactNode } from "react";
import { cx } from "./cx";
import { Kbd } from "./kbd";

export interface MenuProps {
  trigger: ReactElement<TriggerProps>;
  children: ReactNode;
  align?: "start" | "end";
}

interface TriggerProps {
  onClick?: () => void;
  onPointerEnter?: () => void;
  onFocus?: () => void;
  onKeyDown?: (e: KeyboardEvent) => void;
  "aria-haspopup"?: "menu";
  "aria-expanded"?: boolean;
}

/** An open menu at its trigger, which gets the focus back when the menu closes. */
export function MenuOverlay({ trigger, children, align, open, onOpenChange }: MenuProps & OpenProps) {
  return (
    <Radix.Root modal={false} open={open} onOpenChange={onOpenChange}>
      <Radix.Trigger asChild>{trigger}</Radix.Trigger>
      <Radix.Portal>
        <Radix.Content
          align={align}
          sideOffset={4}
          collisionPadding={8}
          className="rise-in z-50 max-h-(--radix-dropdown-menu-content-available-height) min-w-48 max-w-[min(360px,calc(100vw-16px))] overflow-y-auto rounded-md bg-bg1 p-1 shadow-float"
        >
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

interface OpenProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
}

export interface ItemProps {
  onSelect: () => void;
  children: ReactNode;
  /** A second line in small. */
  hint?: ReactNode;
  keys?: string;
  danger?: boolean;
  disabled?: boolean;
  icon?: ReactNode;
}

export function MenuItem({ onSelect, children, hint, keys, danger, disabled, icon }: ItemProps) {
  return (
    <Radix.Item
      disabled={disabled}
      onSelect={onSelect}
      className={cx(
        "row-h flex cursor-pointer items-center gap-2 rounded-sm px-2 py-1 outline-none select-none data-[highlighted]:bg-bg2 data-[disabled]:cursor-default data-[disabled]:text-fg3",
        danger && "text-failed",
      )}
    >
      {icon}
      <span className="min-w-0 flex-1">
        <span className="line-clamp-2 break-words">{children}</span>
        {hint && <span className="block text-meta text-fg3 break-words">{hint}</span>}
      </span>
      {keys && <Kbd keys={keys} />}
    </Radix.Item>
  );
}

export function MenuLabel({ children }: { children: ReactNode }) {
  return <Radix.Label className="px-2 pt-1.5 pb-1 text-meta text-fg3">{children}</Radix.Label>;
}

export function MenuLine() {
  return <Radix.Separator className="my-1 h-px bg-hairline" />;
}

export interface ChoiceProps<T extends string> {
  value: T;
  onChange: (v: T) => void;
  choices: readonly (readonly [T, string])[];
}

export function MenuChoice<T extends string>({ value, onChange, choices }: ChoiceProps<T>) {
  return (
    <Radix.RadioGroup value={value} onValueChange={(v) => onChange(v as T)}>
      {choices.map(([v, label]) => (
        <Radix.RadioItem
          key={v}
          value={v}
          onSelect={(e) => e.preventDefault()}
          className="row-h flex cursor-pointer items-center gap-2 rounded-sm px-2 outline-none select-none data-[highlighted]:bg-bg2"
        >
          <span aria-hidden className="grid size-3 place-items-center rounded-full border border-control">
            <Radix.ItemIndicator className="size-1.5 rounded-full bg-accent" />
          </span>
          {label}
        </Radix.RadioItem>
      ))}
    </Radix.RadioGroup>
  );
}
