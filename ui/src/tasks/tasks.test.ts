import { describe, expect, it } from "vitest";
import { layers, matching, type Task, taskMark } from "./tasks";

const task = (id: string, more: Partial<Task> = {}): Task =>
  ({
    id,
    title: id,
    description: "",
    status: "open",
    labels: [],
    blocked_by: [],
    assignee: "",
    project_id: "p",
    ...more,
  }) as Task;
const ids = (list: Task[]) => list.map((t) => t.id);

describe("tasks", () => {
  it("says what a task waits for", () => {
    expect(taskMark(task("1")).word).toBe("Ready");
    expect(taskMark(task("1", { blocked_by: ["2", "3"] })).word).toBe("Waits for 2, 3");
    expect(taskMark(task("1", { status: "closed", blocked_by: ["2"] })).word).toBe("Closed");
  });

  it("finds tasks by words, labels, people and projects", () => {
    const all = [
      task("PW-T1", { title: "Fix login", labels: ["ui"] }),
      task("PW-T2", { assignee: "usr_1", project_id: "q" }),
    ];
    const none = { project: "", label: "", assignee: "", text: "" };
    expect(ids(matching(all, none))).toEqual(["PW-T1", "PW-T2"]);
    expect(ids(matching(all, { ...none, text: " LOGIN" }))).toEqual(["PW-T1"]);
    expect(ids(matching(all, { ...none, label: "ui" }))).toEqual(["PW-T1"]);
    expect(ids(matching(all, { ...none, assignee: "usr_1", project: "q" }))).toEqual(["PW-T2"]);
  });

  it("puts each task right of what it waits for", () => {
    const all = [
      task("alone"),
      task("c", { blocked_by: ["a", "b"] }),
      task("b", { blocked_by: ["a", "elsewhere"] }),
      task("a"),
    ];
    expect(layers(all).map(ids)).toEqual([["a"], ["b"], ["c"]]);
    expect(layers([task("x", { blocked_by: ["y"] }), task("y", { blocked_by: ["x"] })])).toEqual([]);
  });
});
