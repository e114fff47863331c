/** Small things kept in this browser. Without storage they hold until the page is left. */
const memory = new Map<string, string>();

export function remember(key: string, value: unknown): void {
  const text = JSON.stringify(value);
  memory.set(key, text);
  try {
    localStorage.setItem(`parawork.${key}`, text);
  } catch {
    // kept in memory
  }
}

export function forget(key: string): void {
  memory.delete(key);
  try {
    localStorage.removeItem(`parawork.${key}`);
  } catch {
    // nothing was kept
  }
}

export function recall<T>(key: string, check: (v: unknown) => v is T): T | undefined {
  let text: string | null | undefined;
  try {
    text = localStorage.getItem(`parawork.${key}`);
  } catch {
    // fall through
  }
  text ??= memory.get(key);
  if (!text) return undefined;
  try {
    const v: unknown = JSON.parse(text);
    return check(v) ? v : undefined;
  } catch {
    return undefined;
  }
}

export const isString = (v: unknown): v is string => typeof v === "string";
export const isNumber = (v: unknown): v is number => typeof v === "number";
export const isBoolean = (v: unknown): v is boolean => typeof v === "boolean";
