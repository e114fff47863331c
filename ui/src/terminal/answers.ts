import type { Terminal } from "@xterm/xterm";

/**
 * Programs ask a terminal questions (what are you, where is the cursor, which colours) and the answer is typed into them.
 * Exactly one terminal may answer, and only a question asked now: a replayed log or a second viewer would otherwise type
 * garbage into the shell.
 */
export function guardAnswers(term: Terminal, mayAnswer: () => boolean): void {
  const parser = term.parser;
  const swallow = () => !mayAnswer();
  const csi = [
    { final: "c" },
    { prefix: ">", final: "c" },
    { prefix: "=", final: "c" },
    { final: "n" },
    { prefix: "?", final: "n" },
    { prefix: ">", final: "q" },
    { prefix: "?", final: "u" },
    { intermediates: "$", final: "p" },
    { prefix: "?", intermediates: "$", final: "p" },
    { final: "t" },
    { final: "x" },
  ];
  for (const id of csi) parser.registerCsiHandler(id, swallow);
  parser.registerDcsHandler({ intermediates: "$", final: "q" }, swallow);
  parser.registerDcsHandler({ intermediates: "+", final: "q" }, swallow);
  // Colours are asked for and set by the same sequence: only the question is held back.
  for (const osc of [4, 10, 11, 12]) parser.registerOscHandler(osc, (payload) => payload.includes("?") && !mayAnswer());
}
