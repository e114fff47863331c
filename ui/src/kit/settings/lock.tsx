import { Trans } from "@lingui/react/macro";
/** A mark beside what cannot be changed here, and why. */
export function Lock({ on = true }: { on?: boolean }) {
  if (!on) return null;
  return (
    <span className="text-meta text-fg3">
      <svg aria-hidden viewBox="0 0 10 12" width="9" height="11" className="mr-1 inline-block -translate-y-px">
        <path d="M2.2 5V3.4a2.8 2.8 0 0 1 5.6 0V5" fill="none" stroke="currentColor" strokeWidth="1.3" />
        <rect x="1" y="5" width="8" height="6.4" rx="1" fill="currentColor" />
      </svg>
      <Trans>set in config.json</Trans>
    </span>
  );
}
