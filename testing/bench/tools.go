package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// tools measures agents' tools: the way from a program in a sandbox to the server and back, beside lines that go through as many processes by
// pipes; the list of tasks that are ready; saving an artifact beside cp; and code in a kernel beside a bare interpreter.
func (b *bench) tools() error {
	h, err := b.harness()
	if err != nil {
		return err
	}
	for _, part := range []func(*harness) error{b.toolTrips, b.readyTasks, b.savedArtifacts, b.codeTrips} {
		if err := part(h); err != nil {
			return err
		}
	}
	return nil
}

// callEvery keeps what is measured below the limit of calls a second.
const callEvery = 60 * time.Millisecond

// trips are the medians of a program in a sandbox, us.
type trips struct{ Pipes, Ping, Call, Command, Start float64 }

func (b *bench) toolTrips(h *harness) error {
	at := filepath.Join(b.dir, "trips.json")
	if _, err := h.newSession(b.self, "child-tools", at, fmt.Sprint(b.size(500, 50))); err != nil {
		return err
	}
	var t trips
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		text, err := os.ReadFile(at)
		if err == nil {
			if err := json.Unmarshal(text, &t); err != nil {
				return fmt.Errorf("the program in the sandbox: %s", text)
			}
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the program in the sandbox did not end: %w", err)
		}
	}
	b.figure("message by MCP and back, p50, us", f1(t.Ping), f1(t.Pipes), t.Ping/t.Pipes, "+ 1000 us", t.Ping-t.Pipes < 1000)
	b.figure("call of a tool by MCP, p50, us", f1(t.Call), f1(t.Pipes), t.Call/t.Pipes, "+ 5000 us", t.Call-t.Pipes < 5000)
	b.figure("the same as a command, p50, us", f1(t.Command), f1(t.Start), t.Command/t.Start, "+ 20 ms", t.Command-t.Start < 20_000)
	return nil
}

// childTools measures from inside a sandbox, and writes what it found to a file.
func childTools(args []string) error {
	var n int
	if _, err := fmt.Sscan(args[1], &n); err != nil {
		return err
	}
	t, err := tripsInside(n)
	text := []byte(fmt.Sprint(err))
	if err == nil {
		if text, err = json.Marshal(t); err != nil {
			return err
		}
	}
	if err := os.WriteFile(args[0]+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(args[0]+".new", args[0])
}

func tripsInside(n int) (t trips, err error) {
	self, err := os.Executable()
	if err != nil {
		return t, err
	}
	// The relay, the guest and the server are three processes beyond this one.
	pipes, err := pipeTo(exec.Command(self, "child-pipes", "3"))
	if err != nil {
		return t, err
	}
	defer pipes.stop()
	if t.Pipes, err = pipes.median(n, 0, "tools/list", `{}`); err != nil {
		return t, err
	}
	mcp, err := pipeTo(exec.Command(os.Getenv("PARAWORK_GUEST"), "mcp"))
	if err != nil {
		return t, err
	}
	defer mcp.stop()
	if err := mcp.ask("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`); err != nil {
		return t, err
	}
	if _, err := io.WriteString(mcp.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		return t, err
	}
	if t.Ping, err = mcp.median(n, 0, "ping", `{}`); err != nil {
		return t, err
	}
	if t.Call, err = mcp.median(n/5, callEvery, "tools/call", `{"name":"task_ready","arguments":{}}`); err != nil {
		return t, err
	}
	if t.Command, err = medianOf(n/5, func() *exec.Cmd { return exec.Command("parawork", "task", "ready") }); err != nil {
		return t, err
	}
	t.Start, err = medianOf(n/5, func() *exec.Cmd { return exec.Command(os.Getenv("PARAWORK_GUEST"), "version") })
	return t, err
}

// medianOf runs a program again and again.
func medianOf(n int, cmd func() *exec.Cmd) (float64, error) {
	took := make([]float64, n)
	for i := range took {
		time.Sleep(callEvery)
		c, t0 := cmd(), time.Now()
		if out, err := c.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("%s: %w: %s", c, err, out)
		}
		took[i] = us(time.Since(t0))
	}
	return median(took), nil
}

// piped is a program that answers lines.
type piped struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func pipeTo(cmd *exec.Cmd) (*piped, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &piped{cmd, in, bufio.NewReader(out)}, cmd.Start()
}

func (p *piped) stop() {
	_ = p.in.Close()
	_ = p.cmd.Wait()
}

func (p *piped) ask(method, params string) error {
	if _, err := fmt.Fprintf(p.in, `{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`+"\n", method, params); err != nil {
		return err
	}
	line, err := p.out.ReadString('\n')
	if err == nil && (strings.Contains(line, `"error"`) || strings.Contains(line, `"isError":true`)) {
		err = fmt.Errorf("%s: %s", method, line)
	}
	return err
}

func (p *piped) median(n int, pause time.Duration, method, params string) (float64, error) {
	var took []float64
	for i := range n + 5 { // the first ones fill caches
		time.Sleep(pause)
		t0 := time.Now()
		if err := p.ask(method, params); err != nil {
			return 0, err
		}
		if i >= 5 {
			took = append(took, us(time.Since(t0)))
		}
	}
	return median(took), nil
}

// childPipes passes lines on to another one of its kind and back, and the last one answers with them.
func childPipes(args []string) error {
	if args[0] == "1" {
		_, err := io.Copy(os.Stdout, os.Stdin)
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var left int
	if _, err := fmt.Sscan(args[0], &left); err != nil {
		return err
	}
	next := exec.Command(self, "child-pipes", fmt.Sprint(left-1))
	in, err := next.StdinPipe()
	if err != nil {
		return err
	}
	out, err := next.StdoutPipe()
	if err != nil {
		return err
	}
	if err := next.Start(); err != nil {
		return err
	}
	back := make(chan error, 1)
	go func() { _, err := io.Copy(os.Stdout, out); back <- err }() // ends with next
	_, err = io.Copy(in, os.Stdin)
	_ = in.Close()
	if berr := <-back; err == nil {
		err = berr
	}
	if werr := next.Wait(); err == nil {
		err = werr
	}
	return err
}

// tool calls a tool as a script does.
func (h *harness) tool(name string, args, into any) error {
	var r struct {
		Structured json.RawMessage
		Content    []struct{ Text string }
		IsError    bool `json:"is_error"`
	}
	if err := h.do("POST", "/workspaces/"+h.workspace+"/tools/"+name, map[string]any{"arguments": args}, &r); err != nil {
		return err
	}
	if r.IsError {
		return fmt.Errorf("%s: %+v", name, r.Content)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(r.Structured, into)
}

// readyTasks measures the list of ready tasks of a long list, nine of ten of which wait for another, and of one of a hundred.
func (b *bench) readyTasks(h *harness) error {
	n := b.size(10_000, 1000)
	add := func(from, to int) error {
		var lines strings.Builder
		for i := from; i < to; i++ {
			fmt.Fprintf(&lines, `{"id":"bd-%d","title":"Task %d","status":"open","priority":%d,"issue_type":"task"`, i, i, i%5)
			if i%10 != 0 {
				fmt.Fprintf(&lines, `,"dependencies":[{"depends_on_id":"bd-%d","type":"blocks"}]`, i-1)
			}
			lines.WriteString("}\n")
		}
		return h.tool("task_import", map[string]any{"jsonl": lines.String()}, nil)
	}
	ready := func() (float64, error) {
		var took []float64
		for i := range b.size(60, 10) + 5 {
			var list struct{ Items []struct{ ID string } }
			time.Sleep(callEvery)
			t0 := time.Now()
			if err := h.tool("task_ready", map[string]any{}, &list); err != nil {
				return 0, err
			}
			if len(list.Items) != 10 {
				return 0, fmt.Errorf("%d tasks are ready", len(list.Items))
			}
			if i >= 5 {
				took = append(took, us(time.Since(t0))/1e3)
			}
		}
		slices.Sort(took)
		return took[len(took)*95/100], nil
	}
	if err := add(0, 100); err != nil {
		return err
	}
	few, err := ready()
	if err != nil {
		return err
	}
	const part = 4000 // a call has at most 1 MiB
	for from := 100; from < n; from += part {
		if err := add(from, min(from+part, n)); err != nil {
			return err
		}
	}
	many, err := ready()
	if err != nil {
		return err
	}
	b.figure(fmt.Sprintf("ready of %d tasks, p95, ms; base: of 100", n), f1(many), f1(few), many/few, "<= 50 ms", many <= 50)
	return nil
}

// savedArtifacts measures saving a file of the workspace beside copying it to the disk. It goes through the guest, which cp does not, and is hashed.
func (b *bench) savedArtifacts(h *harness) error {
	var ws struct{ Path string }
	if err := h.do("GET", "/workspaces/"+h.workspace, nil, &ws); err != nil {
		return err
	}
	size := int64(b.size(64<<20, 4<<20))
	content := make([]byte, size)
	file := filepath.Join(ws.Path, "artifact.bin")
	defer os.Remove(file)
	var ours, bare []float64
	for i := range b.size(7, 3) {
		pattern(content, int64(i)*size) // another content, or it is not stored again
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return err
		}
		t0 := time.Now()
		if out, err := exec.Command("sh", "-c", `cp "$0" "$1" && sync "$1"`, file, filepath.Join(b.dir, "copy.bin")).CombinedOutput(); err != nil {
			return fmt.Errorf("cp: %w: %s", err, out)
		}
		bare = append(bare, float64(size)/1e6/time.Since(t0).Seconds())
		t0 = time.Now()
		if err := h.tool("artifact_save", map[string]any{"path": "artifact.bin"}, nil); err != nil {
			return err
		}
		ours = append(ours, float64(size)/1e6/time.Since(t0).Seconds())
	}
	r := median(ours) / median(bare)
	b.figure(fmt.Sprintf("artifact of %d MiB, MB/s; base: cp and sync", size>>20), f1(median(ours)), f1(median(bare)), r, ">= 0.2", r >= 0.2)
	return nil
}
