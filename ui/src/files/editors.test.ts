import { expect, it } from "vitest";
import { editorLinks } from "./editors";

const urls = (host: string, path = "src/a b.ts", folder: string | undefined = "/data/w/PW-1") =>
  editorLinks({ path: folder }, path, host).map((l) => l.url);

it("opens the folder as it is from the server's own computer, and over SSH from another", () => {
  expect(urls("localhost")).toEqual([
    "vscode://file/data/w/PW-1/src/a%20b.ts",
    "cursor://file/data/w/PW-1/src/a%20b.ts",
    "idea://open?file=%2Fdata%2Fw%2FPW-1%2Fsrc%2Fa%20b.ts",
  ]);
  expect(urls("127.0.0.1", "")[0]).toBe("vscode://file/data/w/PW-1");
  expect(urls("work.example.com")).toEqual([
    "vscode://vscode-remote/ssh-remote+work.example.com/data/w/PW-1/src/a%20b.ts",
    "cursor://vscode-remote/ssh-remote+work.example.com/data/w/PW-1/src/a%20b.ts",
  ]);
});

it("offers nothing where the server has no folder to open", () => {
  expect(editorLinks({}, "a", "localhost")).toEqual([]);
});
