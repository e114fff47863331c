package kernel

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/parawork/parawork/guest"
)

//go:embed python.py
var pythonSource string

//go:embed javascript.cjs
var javascriptSource string

// language is how the supervisor starts an interpreter and talks to it. Interpreters get their program on descriptor 5, so that no file
// has to be written into a sandbox that may have no writable folder.
type language struct {
	programs []string // the first one that is found
	args     []string
	env      []string
	source   string // of the program on descriptor 5
	// request encodes a run. An interpreter whose requests are its standard input has stdin.
	request func(r guest.KernelRequest, cell int) []byte
	stdin   bool
	// always: the interpreter can be interrupted at any time. It says that it has begun only when an interruption came before the code.
	always bool
	// interrupt is written to the interpreter beside the signal that interrupts it.
	interrupt func(id string) []byte
	missing   string // what to do when no program is found
}

const pythonLoader = `import os;exec(compile(os.fdopen(5).read(),"<kernel>","exec"))`

const javascriptLoader = `const source=require("node:fs").readFileSync(5,"utf8");new Function("require","source",source)(require,source)`

func languageOf(l guest.KernelLanguage) (language, error) {
	switch l {
	case guest.Python:
		return language{
			programs: []string{".venv/bin/python", "venv/bin/python", "python3", "python"}, args: []string{"-u", "-c", pythonLoader},
			env: []string{"PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1"}, source: pythonSource, request: jsonRequest, always: true,
			missing: "Install Python 3, or choose an image that has it.",
		}, nil
	case guest.JavaScript:
		return language{
			programs: []string{"node"}, args: []string{"-e", javascriptLoader}, env: []string{"FORCE_COLOR=0", "NODE_NO_WARNINGS=1"},
			source: javascriptSource, request: jsonRequest,
			interrupt: func(id string) []byte { return line(map[string]any{"interrupt": true, "id": id}) },
			missing:   "Install Node.js 20 or newer, or choose an image that has it.",
		}, nil
	case guest.Shell:
		return language{
			programs: []string{"bash"}, args: []string{"--norc", "--noprofile", "--noediting", "-i"},
			env: []string{"PS1=", "PS2=", "HISTFILE="}, request: shellRequest, interrupt: shellDone, stdin: true, missing: "Install bash, or choose an image that has it.",
		}, nil
	}
	return language{}, fmt.Errorf("there is no kernel for %q: choose python, javascript or shell", l)
}

func line(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own values always encode
	}
	return append(b, '\n')
}

func jsonRequest(r guest.KernelRequest, cell int) []byte {
	return line(map[string]any{"id": r.ID, "code": r.Code, "cell": cell, "typescript": r.TypeScript})
}

// shellRequest has the shell evaluate the code as one word, and then report the exit code. An interactive shell that is interrupted drops
// the rest of the first line and reads the second one. It reports that it has begun, because an interruption while it reads would hit the
// request itself.
func shellRequest(r guest.KernelRequest, _ int) []byte {
	begun := fmt.Sprintf(`printf '{"id":"%s","type":"%s"}\n' >&4`, r.ID, begun)
	return append(fmt.Appendf(nil, "%s; eval %s </dev/null\n", begun, quote(r.Code)), shellDone(r.ID)...)
}

// shellDone has the shell report the end of a run. It is sent again with an interruption, which may have hit the first report.
func shellDone(id string) []byte {
	return fmt.Appendf(nil, `printf '{"id":"%s","type":"done","exit":%%d}\n' "$?" >&4`+"\n", id)
}

// begun is an interpreter's message that the code runs now, so that it can be interrupted.
const begun = "begun"

// quote quotes a text as one word of a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// find returns the interpreter's program.
func (l language) find() (string, error) {
	for _, name := range l.programs {
		if strings.Contains(name, "/") {
			if info, err := os.Stat(name); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
				continue
			}
			return filepath.Abs(name)
		}
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("none of %s %s. %s", strings.Join(l.programs, ", "), guest.NotInPath, l.missing)
}
