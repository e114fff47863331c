/** The icons of the frame of the app and of what many screens share. */
export const PATHS = {
  plus: "M8 3v10M3 8h10",
  close: "m4 4 8 8m0-8-8 8",
  check: "m3 8.5 3.2 3.2L13 5",
  chevronDown: "m4 6 4 4 4-4",
  chevronLeft: "m10 4-4 4 4 4",
  chevronRight: "m6 4 4 4-4 4",
  chevronUp: "m4 10 4-4 4 4",
  arrowLeft: "M13 8H3m4-4L3 8l4 4",
  more: "M3.6 8h.01M8 8h.01M12.4 8h.01M3.6 7.7v.6M8 7.7v.6m4.4-.6v.6",
  search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9Zm3.3-1.2 3.2 3.2",
  folder: "M2 4.5a1 1 0 0 1 1-1h3.2l1.5 1.7H13a1 1 0 0 1 1 1v5.3a1 1 0 0 1-1 1H3a1 1 0 0 1-1-1Z",
  git: "M5 5.6v4.8M6.6 4a1.6 1.6 0 1 0-3.2 0 1.6 1.6 0 0 0 3.2 0Zm0 8a1.6 1.6 0 1 0-3.2 0 1.6 1.6 0 0 0 3.2 0Zm6-6a1.6 1.6 0 1 0-3.2 0 1.6 1.6 0 0 0 3.2 0ZM11 7.6c0 2-2.4 2.2-4.6 3",
  comment: "M2.5 3.5h11v7.5H7l-3 2.5V11H2.5Z",
  copy: "M5.5 5.5h7v7h-7Zm-2 5h-.5a1 1 0 0 1-1-1v-6a1 1 0 0 1 1-1h6a1 1 0 0 1 1 1v.5",
  sidebar: "M2.5 3h11v10h-11Zm3.5 0v10",
  refresh: "M13 8a5 5 0 1 1-1.6-3.7M13 2.5v2.3h-2.3",
  split: "M2.5 3h11v10h-11Zm5.5 0v10",
  hideLeft: "M2.5 3h11v10h-11Zm4 0v10M11.5 6l-2 2 2 2",
  hideRight: "M2.5 3h11v10h-11Zm7 0v10M4.5 6l2 2-2 2",
  space: "M2.5 6.5v3h11v-3",
  terminal: "m3 4.5 3.5 3.5L3 11.5M8 12h5",
  workspaces: "M2.5 3.5h11v4h-11Zm0 6h11v3h-11Z",
  inbox: "M2.5 9.5 4.5 3h7l2 6.5V13h-11Zm0 0H6l.8 1.6h2.4L10 9.5h3.5",
  bell: "M3.5 11.5h9c-1-1-1.2-2-1.2-4.2a3.3 3.3 0 0 0-6.6 0c0 2.2-.2 3.2-1.2 4.2Zm3.2 1.7h2.6",
  gear: "M10 8a2 2 0 1 0-4 0 2 2 0 0 0 4 0ZM8 1.8v2m0 8.4v2M1.8 8h2m8.4 0h2M3.6 3.6 5 5m6 6 1.4 1.4m0-8.8L11 5m-6 6-1.4 1.4",
  paste: "M5.5 3.2H4v10h8v-10h-1.5M6 2h4v2.4H6Z",
  down: "M8 3v10m-4-4 4 4 4-4",
  up: "M8 13V3M4 7l4-4 4 4",
  external: "M9 3h4v4m0-4L7.5 8.5M11 9.5V13H3V5h3.5",
  stop: "M4.5 4.5h7v7h-7Z",
  lock: "M4 7.5h8v6H4Zm1.8 0V5.2a2.2 2.2 0 0 1 4.4 0v2.3",
  fold: "m5 3 3 3 3-3M5 13l3-3 3 3",
  tasks: "m2.5 4.5 1.2 1.2L6 3.4M2.5 11l1.2 1.2L6 9.9M8.5 4.8h5M8.5 11.3h5",
  machine: "M2.5 3h11v7.5h-11ZM8 10.5V13m-2.5 0h5",
  chart: "M2.5 13.5h11M4.5 11V8M8 11V3.5m3.5 7.5V6",
  project: "M2.5 5 8 2.3 13.5 5v6L8 13.7 2.5 11ZM2.5 5 8 7.7 13.5 5M8 7.7v6",
} satisfies Record<string, string>;

export type IconName = keyof typeof PATHS;

interface Props {
  name?: IconName;
  /** The path of an icon that only a few screens need, from more-icons. */
  path?: string;
  size?: number;
  className?: string;
}

/** A line icon of 16 px. It is decoration: say its meaning in words beside it or in the button's label. */
export function Icon({ name, path, size = 16, className }: Props) {
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
      <path d={path ?? (name && PATHS[name])} />
    </svg>
  );
}
