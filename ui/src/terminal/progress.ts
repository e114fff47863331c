/** A program's progress as it tells it by OSC 9;4: a part of 100, or that it works without knowing how long. */
export type Progress = { kind: "part"; part: number; failed: boolean } | { kind: "busy" } | undefined;

/** Reads the payload of OSC 9. Returns null when it is not about progress. */
export function readProgress(payload: string): Progress | null {
  const [what, state, value] = payload.split(";");
  if (what !== "4") return null;
  const part = Math.max(0, Math.min(100, Number(value) || 0));
  switch (state) {
    case "1":
      return { kind: "part", part, failed: false };
    case "2":
      return { kind: "part", part: part || 100, failed: true };
    case "3":
      return { kind: "busy" };
    case "4":
      return { kind: "part", part, failed: false };
    default:
      return undefined;
  }
}
