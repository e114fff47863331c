import type { ComponentType, LazyExoticComponent } from "react";
import { lazy } from "@/kit/part";
import type { CardProps } from "./card";

/** The positions of cards: status, before the merge, the merge, after it. */
export type Place = "first" | "before" | "beside" | "after";

export interface Slot {
  id: string;
  place: Place;
  /** Where it stands instead while a pull request is open: that is the way on then. */
  open?: Place;
  Card: LazyExoticComponent<ComponentType<CardProps>>;
}

/** The cards of the Merge tab in the order they stand within their place. Each is a chunk of its own: default exports, built of MergeCard. */
export const SLOTS: readonly Slot[] = [
  { id: "standing", place: "first", Card: lazy(() => import("./status")) },
  { id: "update", place: "before", Card: lazy(() => import("./update")) },
  { id: "overlaps", place: "first", Card: lazy(() => import("./overlaps")) },
  { id: "checks", place: "beside", Card: lazy(() => import("./checks")) },
  { id: "merge", place: "beside", Card: lazy(() => import("./merge")) },
  { id: "report", place: "beside", Card: lazy(() => import("./report")) },
  { id: "queue", place: "beside", Card: lazy(() => import("./queue")) },
  { id: "pull-request", place: "beside", open: "before", Card: lazy(() => import("./pull-request")) },
  { id: "tending", place: "beside", open: "before", Card: lazy(() => import("./tending")) },
  { id: "push", place: "after", Card: lazy(() => import("./push")) },
];
