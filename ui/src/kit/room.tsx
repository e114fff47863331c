import { createContext, type ReactNode, useCallback, useContext, useRef, useState } from "react";
import { cx } from "./cx";

const Room = createContext<number | undefined>(undefined);

/** The width (px) of the pane a component is in, or of the window outside panes. */
export function useRoom(): number {
  return useContext(Room) ?? window.innerWidth;
}

/** The width of an element as it is laid out now; undefined until it is. */
export function useWidth(): [ref: (el: HTMLElement | null) => void, width: number | undefined] {
  const [width, setWidth] = useState<number>();
  const stop = useRef<() => void>(undefined);
  const ref = useCallback((el: HTMLElement | null) => {
    stop.current?.();
    stop.current = undefined;
    if (!el) return;
    setWidth(el.clientWidth);
    const watch = new ResizeObserver(() => setWidth(el.clientWidth));
    watch.observe(el);
    stop.current = () => watch.disconnect();
  }, []);
  return [ref, width];
}

/** A part of a page that knows its width: by useRoom in code, by the container variants (@3xl) in styles. */
export function Pane({ className, children, ...rest }: { className?: string; children: ReactNode } & PaneProps) {
  const [ref, width] = useWidth();
  return (
    <div ref={ref} className={cx("@container min-w-0", className)} {...rest}>
      {width !== undefined && <Room value={width}>{children}</Room>}
    </div>
  );
}

interface PaneProps {
  id?: string;
  tabIndex?: number;
  role?: "region";
  "aria-label"?: string;
  "data-keys"?: string;
  style?: React.CSSProperties;
}
