import { cloneElement, type ReactNode, Suspense, useState } from "react";
import type { ChoiceProps, ItemProps, MenuProps } from "./menu-parts";
import { lazy } from "./part";

// Floating elements are most of the kit's size and not needed for the first paint, so they load with the first menu.
const load = () => import("./menu-parts");
const MenuOverlay = lazy(() => load().then((m) => ({ default: m.MenuOverlay })));
const Choices = lazy(() => load().then((m) => ({ default: m.MenuChoice })));

export function Menu({ trigger, children, align = "end" }: MenuProps) {
  const [used, setUsed] = useState(false);
  const [open, setOpen] = useState(false);
  const start = () => {
    setUsed(true);
    setOpen(true);
  };
  const soon = () => void load().catch(() => {}); // opening it shows the error
  const button = cloneElement(trigger, {
    onClick: start,
    onPointerEnter: soon,
    onFocus: soon,
    onKeyDown: (e) => {
      if (e.key !== "ArrowDown") return;
      e.preventDefault();
      start();
    },
    "aria-haspopup": "menu",
    "aria-expanded": false,
  });
  if (!used) return button;
  return (
    <Suspense fallback={button}>
      <MenuOverlay trigger={trigger} align={align} open={open} onOpenChange={setOpen}>
        {children}
      </MenuOverlay>
    </Suspense>
  );
}

export const MenuItem = lazy<(p: ItemProps) => ReactNode>(() => load().then((m) => ({ default: m.MenuItem })));
export const MenuLabel = lazy(() => load().then((m) => ({ default: m.MenuLabel })));
export const MenuLine = lazy(() => load().then((m) => ({ default: m.MenuLine })));

export function MenuChoice<T extends string>({ value, onChange, choices }: ChoiceProps<T>) {
  return <Choices value={value} onChange={(v) => onChange(v as T)} choices={choices} />;
}
