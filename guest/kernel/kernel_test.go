package kernel

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/guest"
)

// running is a kernel that a test talks to.
type running struct {
	t    *testing.T
	in   *os.File
	out  *bufio.Reader
	code chan int
	runs int
}

func start(t *testing.T, l guest.KernelLanguage, memory int64) *running {
	t.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r := &running{t: t, in: inW, out: bufio.NewReaderSize(outR, 1<<20), code: make(chan int, 1)}
	go func() {
		r.code <- Run(Config{Language: l, In: inR, Out: outW, Memory: memory, Patience: patience(t)})
		_, _ = inR.Close(), outW.Close()
	}()
	t.Cleanup(func() {
		_ = inW.Close()
		go func() { _, _ = io.Copy(io.Discard, outR) }()
		<-r.code
		_ = outR.Close()
	})
	return r
}

// patience is short where a test waits for its end.
func patience(t *testing.T) time.Duration {
	if strings.Contains(t.Name(), "Ignored") {
		return 300 * time.Millisecond
	}
	return time.Minute
}

// begin starts a kernel and waits until it is ready.
func begin(t *testing.T, l guest.KernelLanguage) *running {
	t.Helper()
	r := start(t, l, 0)
	if m := r.next(); m.Type != guest.KernelReady || m.Version == "" {
		t.Fatalf("the first message is %+v, want ready", m)
	}
	return r
}

func (r *running) next() guest.KernelMessage {
	r.t.Helper()
	text, err := r.out.ReadBytes('\n')
	if err != nil {
		r.t.Fatalf("the kernel ended: %v", err)
	}
	var m guest.KernelMessage
	if err := json.Unmarshal(text, &m); err != nil {
		r.t.Fatal(err)
	}
	return m
}

func (r *running) send(q guest.KernelRequest) {
	r.t.Helper()
	if _, err := r.in.Write(line(q)); err != nil {
		r.t.Fatal(err)
	}
}

// outcome is a run with everything it said.
type outcome struct {
	stdout, stderr string
	results        []guest.KernelMessage
	err            *guest.KernelErrorInfo
	done           guest.KernelMessage
}

func (o outcome) text(mime string) string {
	for _, m := range o.results {
		if raw, ok := m.Data[mime]; ok {
			var s string
			if json.Unmarshal(raw, &s) == nil {
				return s
			}
			return string(raw)
		}
	}
	return ""
}

func (r *running) run(code string) outcome {
	r.t.Helper()
	return r.runWith(guest.KernelRequest{Code: code}, nil)
}

// runWith runs code; started is called once it runs.
func (r *running) runWith(q guest.KernelRequest, started func(id string)) outcome {
	r.t.Helper()
	r.runs++
	q.ID = "run" + strconv.Itoa(r.runs)
	r.send(q)
	var o outcome
	for {
		m := r.next()
		if m.ID != q.ID {
			r.t.Fatalf("message of another run: %+v", m)
		}
		switch m.Type {
		case guest.KernelStarted:
			if started != nil {
				started(q.ID)
			}
		case guest.KernelStdout:
			o.stdout += m.Text
		case guest.KernelStderr:
			o.stderr += m.Text
		case guest.KernelResult:
			o.results = append(o.results, m)
		case guest.KernelError:
			o.err = m.Error
		case guest.KernelDone:
			o.done = m
			return o
		}
	}
}

func (r *running) interrupt(id string) { r.send(guest.KernelRequest{ID: id, Interrupt: true}) }

func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("%s is not installed", program)
	}
}

// pythons calls f for an interpreter with IPython and for one without, as far as they are here.
func pythons(t *testing.T, f func(t *testing.T)) {
	needs(t, "python3")
	t.Run("as it is", f)
	t.Run("without IPython", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "IPython.py"), []byte("raise ImportError('not in this test')\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PYTHONPATH", dir)
		f(t)
	})
}

func TestPython(t *testing.T) {
	pythons(t, func(t *testing.T) {
		r := begin(t, guest.Python)
		r.run("x = 20\ndef twice(n):\n    return 2 * n\nprint('set')")
		if o := r.run("twice(x) + 2"); o.text("text/plain") != "42" || !o.results[0].Main || o.done.State != guest.RunOK {
			t.Errorf("the value of the second run: %+v", o)
		}
		if o := r.run("import sys; print('out'); print('err', file=sys.stderr)"); o.stdout != "out\n" || o.stderr != "err\n" {
			t.Errorf("printed: %q and %q", o.stdout, o.stderr)
		}
		if o := r.run("import os; os.system('echo from a program')"); !strings.Contains(o.stdout, "from a program\n") {
			t.Errorf("a program printed %q", o.stdout)
		}
		o := r.run("def f():\n    raise ValueError('no good')\nf()")
		if o.err == nil || o.err.Name != "ValueError" || o.err.Value != "no good" || !strings.Contains(o.err.Traceback, "raise ValueError") || o.done.State != guest.RunFailed {
			t.Errorf("an error: %+v %+v", o.err, o.done)
		}
		if o.err != nil && strings.Contains(o.err.Traceback, "<kernel>") {
			t.Errorf("the traceback shows the kernel's own code:\n%s", o.err.Traceback)
		}
		if o := r.run("if True print(1)"); o.err == nil || o.err.Name != "SyntaxError" {
			t.Errorf("a syntax error: %+v", o)
		}
		if o := r.run("import asyncio\nasync def later():\n    await asyncio.sleep(0.01)\n    return 'done'\nawait later()"); o.text("text/plain") != "'done'" {
			t.Errorf("top-level await: %+v", o)
		}
		o = r.run("class Table:\n    def _repr_html_(self): return '<table></table>'\n    def __repr__(self): return 'a table'\ndisplay(Table())\nTable()")
		if len(o.results) != 2 || o.text("text/html") != "<table></table>" || o.text("text/plain") != "a table" || o.results[0].Main || !o.results[1].Main {
			t.Errorf("rich results: %+v", o)
		}
		if o := r.run("40 + 2;"); len(o.results) != 0 || o.done.State != guest.RunOK {
			t.Errorf("a value before a semicolon is shown: %+v", o)
		}
		if o := r.run("input()"); o.err == nil {
			t.Errorf("input() has an answer: %+v", o)
		}
		if o := r.run("print('é' * 40000, end='')"); o.stdout != strings.Repeat("é", 40000) {
			t.Errorf("characters of two bytes: %d bytes, error output %q", len(o.stdout), o.stderr)
		}
	})
}

// With IPython its own syntax works, and so does what looks like it: a variable hides a magic of the same name.
func TestMagics(t *testing.T) {
	if exec.Command("python3", "-c", "import IPython").Run() != nil {
		t.Skip("python3 has no IPython")
	}
	r := begin(t, guest.Python)
	if o := r.run("cd /"); o.done.State != guest.RunOK {
		t.Errorf("a magic without %%: %+v", o)
	}
	if o := r.run("pwd"); o.text("text/plain") != "'/'" {
		t.Errorf("a magic that is a name, too: %+v", o)
	}
	if o := r.run("pwd = 3\npwd"); o.text("text/plain") != "3" {
		t.Errorf("a variable of its name: %+v", o)
	}
	if o := r.run("x = !echo out\nx[0] + '!'"); o.text("text/plain") != "'out!'" {
		t.Errorf("a command: %+v", o)
	}
	if o := r.run("40 + 2; _"); o.done.State != guest.RunOK {
		t.Errorf("the last value: %+v", o)
	}
	if o := r.run("6 * 7"); o.text("text/plain") != "42" {
		t.Errorf("a value: %+v", o)
	}
	if o := r.run("_ + 1"); o.text("text/plain") != "43" {
		t.Errorf("the value before: %+v", o)
	}
	r.run("%config InteractiveShell.ast_node_interactivity = 'all'")
	if o := r.run("1\n2"); len(o.results) != 2 {
		t.Errorf("all values, as was chosen: %+v", o)
	}
	r.run("get_ipython().input_transformers_post.append(lambda lines: [line.replace('old', 'new') for line in lines])")
	if o := r.run("'old'"); o.text("text/plain") != "'new'" {
		t.Errorf("a transformation that code added: %+v", o)
	}
}

func TestPythonFigures(t *testing.T) {
	needs(t, "python3")
	if exec.Command("python3", "-c", "import matplotlib, pandas").Run() != nil {
		if exec.Command("/usr/bin/python3", "-c", "import matplotlib, pandas").Run() != nil {
			t.Skip("python3 has no matplotlib and pandas (Debian: python3-matplotlib, python3-pandas)")
		}
		t.Setenv("PATH", "/usr/bin:"+os.Getenv("PATH"))
	}
	r := begin(t, guest.Python)
	o := r.run("import matplotlib.pyplot as plt\nplt.plot([1, 2, 4])\nplt.show()\nprint('between')\nplt.figure()\nplt.bar([1, 2], [3, 4])\nNone")
	if o.err != nil || len(o.results) != 2 || o.stderr != "" {
		t.Fatalf("two figures: %d results, %+v %q", len(o.results), o.err, o.stderr)
	}
	for _, m := range o.results {
		var s string
		if err := json.Unmarshal(m.Data["image/png"], &s); err != nil {
			t.Fatal(err)
		}
		if png, err := base64.StdEncoding.DecodeString(s); err != nil || !strings.HasPrefix(string(png), "\x89PNG") {
			t.Errorf("no PNG: %v", err)
		}
	}
	o = r.run("import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})")
	if !strings.Contains(o.text("text/html"), "<table") || !strings.Contains(o.text("text/plain"), "a") {
		t.Errorf("a table: %+v", o)
	}
}

func TestJavaScript(t *testing.T) {
	needs(t, "node")
	t.Chdir(t.TempDir())
	if err := os.WriteFile("near.mjs", []byte("export const answer = 42;\nexport default 'whole';\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := begin(t, guest.JavaScript)
	r.run("const x = 20; let y = 1;")
	if o := r.run("const x = 21; x * 2"); o.text("text/plain") != "42" || o.done.State != guest.RunOK {
		t.Errorf("a constant declared again: %+v", o)
	}
	if o := r.run("console.log('out'); console.error('err'); undefined"); o.stdout != "out\n" || o.stderr != "err\n" || len(o.results) != 0 {
		t.Errorf("printed: %+v", o)
	}
	if o := r.run("await new Promise((done) => setTimeout(() => done('later'), 10))"); o.text("text/plain") != "'later'" {
		t.Errorf("top-level await: %+v", o)
	}
	o := r.run("import whole, { answer as a } from './near.mjs'\nimport * as path from 'node:path'\nconst os = await import('node:os');\n[whole, a, path.basename('/a/b'), typeof os.cpus, 'import (x)']")
	if !strings.Contains(o.text("text/plain"), "'whole', 42, 'b', 'function', 'import (x)'") {
		t.Errorf("imports: %+v %+v", o, o.err)
	}
	if o := r.run("require('node:fs').existsSync('near.mjs')"); o.text("text/plain") != "true" {
		t.Errorf("require: %+v", o)
	}
	o = r.run("function f() { throw new TypeError('no good') }\nf()")
	if o.err == nil || o.err.Name != "TypeError" || o.err.Value != "no good" || !strings.Contains(o.err.Traceback, "cell-") || strings.Contains(o.err.Traceback, "Worker") {
		t.Errorf("an error: %+v", o.err)
	}
	if o := r.run("const = 5"); o.err == nil || o.err.Name != "SyntaxError" {
		t.Errorf("a syntax error: %+v", o)
	}
	if o := r.run("({ a: [1, 2] })"); o.text("application/json") != `{"a":[1,2]}` || o.text("text/plain") != "{ a: [ 1, 2 ] }" {
		t.Errorf("an object: %+v", o)
	}
	if o := r.run("display.html('<b>x</b>'); 10n"); o.text("text/html") != "<b>x</b>" || o.text("text/plain") == "" {
		t.Errorf("rich results: %+v", o)
	}
	if o := r.run("Promise.reject(new Error('nobody waits')); setTimeout(() => { throw new Error('later') }, 1); await new Promise((d) => setTimeout(d, 30)); 1"); o.text("text/plain") != "1" || !strings.Contains(o.stderr, "nobody waits") {
		t.Errorf("errors that nobody waits for: %+v", o)
	}
	o = r.runWith(guest.KernelRequest{Code: "const n: number = 5; n + 1", TypeScript: true}, nil)
	if o.text("text/plain") != "6" && (o.err == nil || !strings.Contains(o.err.Value, "TypeScript needs")) {
		t.Errorf("TypeScript: %+v", o)
	}
}

func TestShell(t *testing.T) {
	needs(t, "bash")
	dir := t.TempDir()
	r := begin(t, guest.Shell)
	r.run("cd " + dir + "; name=kept; greet() { echo \"hello $1\"; }")
	if o := r.run("pwd; greet \"it's $name\""); o.stdout != dir+"\nhello it's kept\n" || o.done.State != guest.RunOK || o.stderr != "" {
		t.Errorf("state between runs: %+v", o)
	}
	if o := r.run("echo one\nfalse\n(exit 3)"); o.done.State != guest.RunFailed || o.done.Exit == nil || *o.done.Exit != 3 {
		t.Errorf("an exit code: %+v", o.done)
	}
	if o := r.run("echo 'no end"); o.done.State != guest.RunFailed || o.stderr == "" {
		t.Errorf("a syntax error: %+v", o)
	}
	if o := r.run("cat; echo 'a'!'b'"); o.stdout != "a!b\n" {
		t.Errorf("an empty input, and no history: %+v", o)
	}
	if o := r.run("exit 5"); o.done.State != guest.RunDied {
		t.Errorf("exit: %+v", o.done)
	}
}

func TestInterrupt(t *testing.T) {
	for _, c := range []struct {
		language   guest.KernelLanguage
		program    string
		loop       string
		sleep      string
		set, value string
	}{
		{guest.Python, "python3", "print('on', flush=True)\nwhile True: pass", "import subprocess; print('on', flush=True); subprocess.run(['sleep', '600'])", "x = 7", "print(x)"},
		{guest.JavaScript, "node", "console.log('on'); for (;;);", "console.log('on'); await new Promise(() => setTimeout(() => {}, 600000))", "const x = 7", "console.log(x)"},
		{guest.Shell, "bash", "echo on; while :; do :; done", "echo on; sleep 600; echo not reached", "x=7", "echo $x"},
	} {
		t.Run(string(c.language), func(t *testing.T) {
			needs(t, c.program)
			r := begin(t, c.language)
			r.run(c.set)
			for _, code := range []string{c.loop, c.sleep} {
				r.runs++
				id := "run" + strconv.Itoa(r.runs)
				r.send(guest.KernelRequest{ID: id, Code: code})
				var printed string
				for m := r.next(); m.Type != guest.KernelDone; m = r.next() {
					if printed += m.Text; m.Type == guest.KernelStdout {
						r.interrupt(id)
					}
					if m.Type == guest.KernelError {
						t.Errorf("an interruption shows an error: %+v", m.Error)
					}
				}
				if !strings.HasPrefix(printed, "on") || strings.Contains(printed, "not reached") {
					t.Errorf("printed %q", printed)
				}
				if o := r.run(c.value); o.stdout != "7\n" {
					t.Fatalf("the variables are lost: %+v", o)
				}
			}
			o := r.runWith(guest.KernelRequest{Code: c.loop, TimeoutMs: 300}, nil)
			if o.done.State != guest.RunTimedOut {
				t.Errorf("after its time a run is %+v", o.done)
			}
			if o := r.run(c.value); o.stdout != "7\n" {
				t.Errorf("the variables are lost: %+v", o)
			}
		})
	}
}

func TestIgnoredInterruptEndsTheInterpreter(t *testing.T) {
	needs(t, "python3")
	r := begin(t, guest.Python)
	o := r.runWith(guest.KernelRequest{Code: "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", TimeoutMs: 200}, nil)
	if o.done.State != guest.RunTimedOut || !strings.Contains(o.done.Cause, "did not react") {
		t.Errorf("the run ended as %+v", o.done)
	}
	if code := <-r.code; code != 0 {
		t.Errorf("the kernel exits with %d", code)
	}
	r.code <- 0
}

func TestFloodIsCut(t *testing.T) {
	needs(t, "python3")
	r := begin(t, guest.Python)
	o := r.run("for i in range(400000): print('line %d of the flood' % i)\nprint('the end')")
	if len(o.stdout) > guest.MaxKernelPrinted+guest.KernelTail+100 || !strings.HasPrefix(o.stdout, "line 0 of") || !strings.HasSuffix(o.stdout, "the end\n") {
		t.Errorf("%d bytes that begin with %.20q and end with %q", len(o.stdout), o.stdout, o.stdout[max(0, len(o.stdout)-20):])
	}
	if !strings.Contains(o.stdout, "bytes left out") || o.done.LeftOut == 0 {
		t.Errorf("nothing says that %d bytes were left out", o.done.LeftOut)
	}
	o = r.run("import os\nfor i in range(1024): os.write(1, b'x' * (1 << 20))\nprint('all of 1 GB')")
	if len(o.stdout) > guest.MaxKernelPrinted+guest.KernelTail+100 || !strings.HasSuffix(o.stdout, "all of 1 GB\n") || o.done.State != guest.RunOK {
		t.Errorf("of 1 GB %d bytes came, which end with %q: %+v", len(o.stdout), o.stdout[max(0, len(o.stdout)-20):], o.done)
	}
	o = r.run("'x' * 20_000_000")
	if !strings.Contains(o.text("text/plain"), "left out") {
		t.Errorf("a result of 20 MB has %d bytes", len(o.text("text/plain")))
	}
}

func TestMemoryIsBounded(t *testing.T) {
	needs(t, "python3")
	if runtime.GOOS != "linux" {
		t.Skip("the memory of processes is unknown on this system")
	}
	r := start(t, guest.Python, 200<<20)
	r.next()
	o := r.run("import time\nx = []\nwhile True:\n    x.append(b'x' * 10_000_000)\n    time.sleep(0.01)")
	if o.done.State != guest.RunDied || !strings.Contains(o.done.Cause, "MB of memory") {
		t.Errorf("the run ended as %+v", o.done)
	}
}

func TestForksDoNotAnswer(t *testing.T) {
	pythons(t, func(t *testing.T) {
		r := begin(t, guest.Python)
		if o := r.run("import os\nif os.fork() == 0:\n    print('child', flush=True)\nelse:\n    os.wait()\n    print('parent')"); !strings.Contains(o.stdout, "parent") || o.done.State != guest.RunOK {
			t.Errorf("a fork: %+v", o)
		}
		if o := r.run("print('still one')"); o.stdout != "still one\n" {
			t.Errorf("after a fork: %+v", o)
		}
		if o := r.run("import os; os._exit(3)"); o.done.State != guest.RunDied || !strings.Contains(o.done.Cause, "3") {
			t.Errorf("the interpreter's end: %+v", o.done)
		}
	})
}

func TestCodeCannotAnswerForTheKernel(t *testing.T) {
	needs(t, "python3")
	r := begin(t, guest.Python)
	o := r.run("import os\nos.write(4, b'not json\\n' + b'{\"type\":\"done\",\"id\":\"other\",\"ok\":true}\\n' + b'x' * 12_000_000 + b'\\n')\nprint('end')")
	if o.stdout != "end\n" || o.done.State != guest.RunOK {
		t.Errorf("forged messages: %+v", o)
	}
}

func TestMissingInterpreter(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Chdir(t.TempDir())
	r := start(t, guest.Python, 0)
	if m := r.next(); m.Type != guest.KernelFailed || !strings.Contains(m.Text, "was not found in PATH") || !strings.Contains(m.Text, "Install Python") {
		t.Errorf("the first message is %+v", m)
	}
	if code := <-r.code; code != 127 {
		t.Errorf("exit code %d, want 127", code)
	}
	r.code <- 127
}

func TestQueuedRunsAreInterrupted(t *testing.T) {
	needs(t, "bash")
	r := begin(t, guest.Shell)
	r.send(guest.KernelRequest{ID: "a", Code: "read -t 600 < <(sleep 600)"})
	r.send(guest.KernelRequest{ID: "b", Code: "echo never"})
	r.interrupt("b")
	if m := r.next(); m.ID != "a" || m.Type != guest.KernelStarted {
		t.Fatalf("%+v", m)
	}
	if m := r.next(); m.ID != "b" || m.State != guest.RunInterrupted {
		t.Fatalf("%+v", m)
	}
	r.interrupt("a")
	if m := r.next(); m.ID != "a" || m.Type != guest.KernelDone || m.State != guest.RunInterrupted {
		t.Fatalf("%+v", m)
	}
}

// The figures below are compared with a bare interpreter's: `python3 -i` on a pipe.
func BenchmarkRun(b *testing.B) {
	if _, err := exec.LookPath("python3"); err != nil {
		b.Skip("python3 is not installed")
	}
	b.Run("bare", func(b *testing.B) {
		cmd := exec.Command("python3", "-i", "-q")
		in, _ := cmd.StdinPipe()
		out, _ := cmd.StdoutPipe()
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		defer func() { _ = in.Close(); _ = cmd.Wait() }()
		answers := bufio.NewReader(out)
		for b.Loop() {
			_, _ = io.WriteString(in, "print(1)\n")
			if _, err := answers.ReadString('\n'); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("kernel", func(b *testing.B) {
		inR, inW, _ := os.Pipe()
		outR, outW, _ := os.Pipe()
		over := make(chan int)
		go func() { over <- Run(Config{Language: guest.Python, In: inR, Out: outW}) }()
		answers := bufio.NewReader(outR)
		if _, err := answers.ReadString('\n'); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			_, _ = inW.Write(line(guest.KernelRequest{ID: "x", Code: "print(1)"}))
			for {
				text, err := answers.ReadString('\n')
				if err != nil {
					b.Fatal(err)
				}
				if strings.Contains(text, `"done"`) {
					break
				}
			}
		}
		_ = inW.Close()
		<-over
	})
}
