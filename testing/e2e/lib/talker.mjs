// A program that tells its state as Codex does. Each line it is given is work: noted in the file "told", and as many tenths of
// a second long as the line's last word says. "deaf" is not taken up.
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "./instance.mjs";

const program = String.raw`#!/bin/bash
stty -echoctl
say() { printf '\033]7501;state=%s:app=codex\033\\' "$1"; }
printf '\033[?2004hready\r\n'; say idle
first=
[ "$1" != resume ] && [ "$#" -gt 1 ] && [ "${"$"}{@: -2:1}" = -- ] && first=${"$"}{@: -1}
while line=$first; first=; [ -n "$line" ] || IFS= read -r line; do
  line=$(printf %s "$line" | sed 's/\x1b\[20[01]~//g; s/\x1b//g')
  case $line in *deaf* | "") continue ;; esac
  say working; echo "$line" >>told
  n=$(printf %s "$line" | sed 's/.* //')
  for ((i = 0; i < n; i++)); do
    key=; IFS= read -r -n 1 -t 0.1 key; if [ "$key" = $'\033' ]; then echo interrupted >>told; break; fi
  done
  say idle
done
`;

/** Configuration that makes Codex that program. */
export function talker() {
  const dir = join(root, ".cache/e2e");
  mkdirSync(dir, { recursive: true });
  const path = join(dir, "talker");
  writeFileSync(path, program);
  chmodSync(path, 0o755);
  return { agents: { codex: { command: path } } };
}
