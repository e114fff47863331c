// Reads what the search of an address says; what makes no sense is left out.

export const whole = (v: unknown): number | undefined =>
  Number.isSafeInteger(Number(v ?? Number.NaN)) ? Number(v) : undefined;
export const text = (v: unknown): string | undefined => (typeof v === "string" && v !== "" ? v : undefined);
