/** The two states that are compared, as the API names them. */
export interface Sides {
  from: string;
  to: string;
}

export const EVERYTHING: Sides = { from: "base", to: "now" };
export const MERGED: Sides = { from: "merged^", to: "merged" };
