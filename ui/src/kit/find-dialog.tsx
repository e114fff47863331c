import { Command } from "cmdk";
import { Dialog as Radix } from "radix-ui";
import type { ReactNode } from "react";
import { Icon } from "./icon";
import { Kbd } from "./kbd";

interface Props {
  /** What is done here, for screen readers. */
  title: string;
  /** What the list is, for screen readers. */
  label: string;
  placeholder: string;
  value: string;
  onChange: (value: string) => void;
  onClose: () => void;
  /** Below the list. */
  foot?: ReactNode;
  children: ReactNode;
}

/** A dialog of one field and the list of what it finds, whose rows are cmdk's. */
export function FindDialog({ title, label, placeholder, value, onChange, onClose, foot, children }: Props) {
  return (
    <Radix.Root open onOpenChange={(o) => !o && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="fade-in fixed inset-0 z-40 bg-(--scrim)" />
        <Radix.Content
          aria-describedby={undefined}
          className="rise-in fixed inset-x-2 top-2 z-50 mx-auto max-w-form overflow-hidden rounded-md bg-bg1 shadow-float outline-none md:top-[12vh]"
        >
          <Radix.Title className="sr-only">{title}</Radix.Title>
          <Command label={label} shouldFilter={false} loop className="flex max-h-[min(70vh,520px)] flex-col">
            <div className="flex items-center gap-2.5 border-b border-hairline px-3.5">
              <Icon name="search" className="text-fg3" />
              <Command.Input
                value={value}
                onValueChange={onChange}
                placeholder={placeholder}
                className="h-11 min-w-0 flex-1 bg-transparent outline-none pointer-coarse:text-touch"
              />
              <Kbd keys="Esc" />
            </div>
            <Command.List className="min-h-0 flex-1 overflow-y-auto p-1.5">{children}</Command.List>
            {foot}
          </Command>
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
