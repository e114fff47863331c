import { tenths } from "./text";
/** A size in MiB as people set it: "512 MB", "2 GB". */
export function mb(n: number): string {
  if (n < 1024) return `${n} MB`;
  const gb = n / 1024;
  return `${Number.isInteger(gb) ? gb : tenths(gb)} GB`;
}

/** A size in bytes beside limits, in the same units as they. */
export function memory(bytes: number): string {
  const n = bytes / (1 << 20);
  return n >= 1024 ? `${tenths(n / 1024)} GB` : `${Math.round(n)} MB`;
}
