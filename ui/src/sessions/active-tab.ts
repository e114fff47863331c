/** The id of the open tab's button: who leaves a terminal goes there. */
export const ACTIVE_TAB = "active-tab";
