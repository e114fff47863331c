import { cx } from "./cx";

// How controls look, for those made of plain elements too: the sign-in page does without React.

export type Look = "primary" | "plain" | "quiet" | "danger";

const LOOKS: Record<Look, string> = {
  primary: "bg-fill text-white font-medium border border-transparent hover:bg-fill-hover",
  plain: "bg-bg3 text-fg border border-transparent hover:bg-bg4",
  quiet: "border border-transparent text-fg2 hover:bg-bg2 hover:text-fg",
  danger: "bg-del-bg text-del border border-transparent hover:bg-del-mark",
};

const BUTTON =
  "control-h inline-flex shrink-0 items-center justify-center gap-1.5 rounded-md px-2.5 whitespace-nowrap select-none " +
  "disabled:opacity-55 disabled:pointer-events-none aria-disabled:opacity-55 transition-colors duration-100 active:translate-y-px";

export function buttonClass(look: Look = "plain", className?: string): string {
  return cx(BUTTON, LOOKS[look], className);
}

export const inputClass =
  "control-h w-full min-w-0 rounded-md border border-control bg-bg1 px-2.5 text-fg -outline-offset-1 hover:border-fg3 disabled:opacity-60 aria-invalid:border-failed pointer-coarse:text-touch";

export const FORM_ERROR = "rounded-md border border-failed px-3 py-2";

/** The frame of pages outside the app: one column, the name above it. */
export const PLAIN_PAGE = {
  main: "mx-auto flex min-h-full w-full max-w-sign-in flex-col px-5 py-[14vh] short:py-8",
  name: "mb-8 flex items-center gap-2.5 text-title font-semibold",
  mark: "grid size-8 place-items-center rounded-md bg-fill text-white",
  h1: "mb-4 text-figure font-semibold",
};

/** The product's mark on a grid of 16. */
export const LOGO = "M3 14V3h6a4 4 0 0 1 0 8H7M7 7h2";
