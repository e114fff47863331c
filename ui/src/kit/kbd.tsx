import { pretty } from "@/keys/chord";
import { cx } from "./cx";

interface Props {
  keys: string;
  onFill?: boolean;
  className?: string;
  /** Read out. Elsewhere it is a hint beside a name and would spoil it. */
  spoken?: boolean;
}

/** A key as a small cap. Hidden where there is no keyboard to speak of. */
export function Kbd({ keys, onFill, className, spoken }: Props) {
  return (
    <kbd
      aria-hidden={spoken ? undefined : true}
      className={cx(
        "rounded-sm border px-1 text-micro leading-4 whitespace-nowrap pointer-coarse:hidden",
        onFill ? "border-white/40 text-white" : "border-hairline bg-bg2 text-fg2",
        className,
      )}
    >
      {pretty(keys)}
    </kbd>
  );
}
