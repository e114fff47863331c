import type { ReactNode } from "react";

const PATHS = {
  plus: <path d="M8 3v10M3 8h10" />,
  close: <path d="m4 4 8 8m0-8-8 8" />,
  check: <path d="m3 8.5 3.2 3.2L13 5" />,
  chevronDown: <path d="m4 6 4 4 4-4" />,
  chevronLeft: <path d="m10 4-4 4 4 4" />,
  chevronRight: <path d="m6 4 4 4-4 4" />,
  chevronUp: <path d="m4 10 4-4 4 4" />,
  arrowLeft: <path d="M13 8H3m4-4L3 8l4 4" />,
  more: <path d="M3.5 8h.01M8 8h.01M12.5 8h.01" strokeWidth="2.2" />,
  search: <path d="M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9Zm3.3-1.2 3.2 3.2" />,
  folder: <path d="M2 4.5a1 1 0 0 1 1-1h3.2l1.5 1.7H13a1 1 0 0 1 1 1v5.3a1 1 0 0 1-1 1H3a1 1 0 0 1-1-1Z" />,
  git: (
    <>
      <circle cx="5" cy="4" r="1.6" />
      <circle cx="5" cy="12" r="1.6" />
      <circle cx="11" cy="6" r="1.6" />
      <path d="M5 5.6v4.8M11 7.6c0 2-2.4 2.2-4.6 3" />
    </>
  ),
  comment: <path d="M2.5 3.5h11v7.5H7l-3 2.5V11H2.5Z" />,
  copy: <path d="M5.5 5.5h7v7h-7Zm-2 5h-.5a1 1 0 0 1-1-1v-6a1 1 0 0 1 1-1h6a1 1 0 0 1 1 1v.5" />,
  sidebar: <path d="M2.5 3h11v10h-11Zm3.5 0v10" />,
  refresh: <path d="M13 8a5 5 0 1 1-1.6-3.7M13 2.5v2.3h-2.3" />,
  split: <path d="M2.5 3h11v10h-11Zm5.5 0v10" />,
  hideLeft: <path d="M2.5 3h11v10h-11Zm4 0v10M11.5 6l-2 2 2 2" />,
  hideRight: <path d="M2.5 3h11v10h-11Zm7 0v10M4.5 6l2 2-2 2" />,
  rows: <path d="M2.5 3h11v10h-11Zm0 5h11" />,
  space: <path d="M2.5 6.5v3h11v-3" />,
  terminal: <path d="m3 4.5 3.5 3.5L3 11.5M8 12h5" />,
  workspaces: <path d="M2.5 3.5h11v4h-11Zm0 6h11v3h-11Z" />,
  inbox: <path d="M2.5 9.5 4.5 3h7l2 6.5V13h-11Zm0 0H6l.8 1.6h2.4L10 9.5h3.5" />,
  gear: (
    <>
      <circle cx="8" cy="8" r="2" />
      <path d="M8 1.8v2m0 8.4v2M1.8 8h2m8.4 0h2M3.6 3.6 5 5m6 6 1.4 1.4m0-8.8L11 5m-6 6-1.4 1.4" />
    </>
  ),
  trash: <path d="M3 4.5h10M6.5 4V2.8h3V4m-5 .5.6 8.7h5.8l.6-8.7" />,
  box: <path d="M2.5 3h11v3h-11Zm1 3v7h9V6M6.5 8.5h3" />,
  paste: <path d="M5.5 3.2H4v10h8v-10h-1.5M6 2h4v2.4H6Z" />,
  down: <path d="M8 3v10m-4-4 4 4 4-4" />,
  up: <path d="M8 13V3M4 7l4-4 4 4" />,
  external: <path d="M9 3h4v4m0-4L7.5 8.5M11 9.5V13H3V5h3.5" />,
  stop: <path d="M4.5 4.5h7v7h-7Z" />,
  key: <path d="M10 9a3.2 3.2 0 1 0-3-2.1L2.5 11.5v2H5V12h1.5v-1.5L7.8 9.2" />,
  lock: <path d="M4 7.5h8v6H4Zm1.8 0V5.2a2.2 2.2 0 0 1 4.4 0v2.3" />,
  fold: <path d="m5 3 3 3 3-3M5 13l3-3 3 3" />,
} satisfies Record<string, ReactNode>;

export type IconName = keyof typeof PATHS;

/** A line icon of 16 px. It is decoration: say its meaning in words beside it or in the button's label. */
export function Icon({ name, size = 16, className }: { name: IconName; size?: number; className?: string }) {
  return (
    <svg
      aria-hidden
      focusable="false"
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.4"
      strokeLinecap="round"
      strokeLinejoin="round"
      className={className}
    >
      {PATHS[name]}
    </svg>
  );
}
