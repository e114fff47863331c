package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// proc is a process the bench started, with the address it printed.
type proc struct {
	cmd *exec.Cmd
	url string
}

var (
	listening = regexp.MustCompile(`listening on (http://\S+)`)
	setupLink = regexp.MustCompile(`setup#([A-Za-z0-9_-]+)`)
)

// start runs argv and waits for its "listening on" line; seen is called for each line before it.
func start(env []string, seen func(line string) (done bool), argv ...string) (*proc, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	if os.Getenv("BENCH_VERBOSE") == "" {
		cmd.Stderr = nil
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &proc{cmd: cmd}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	deadline := time.After(30 * time.Second)
	ready := false
	for !ready {
		select {
		case line, ok := <-lines:
			if !ok {
				return nil, errors.Join(fmt.Errorf("%s ended before it listened", argv[0]), cmd.Wait())
			}
			if m := listening.FindStringSubmatch(line); m != nil {
				p.url = m[1]
			}
			done := seen == nil || seen(line)
			ready = p.url != "" && done
		case <-deadline:
			p.stop()
			return nil, fmt.Errorf("%s did not listen within 30 s", argv[0])
		}
	}
	go func() {
		for range lines { // keep the pipe drained
		}
	}()
	return p, nil
}

func (p *proc) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	done := make(chan struct{})
	go func() { _ = p.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-done
	}
}

// harness is a running server with an owner, a team and a client.
type harness struct {
	*proc
	token, team, project, workspace string
	data                            string
}

// harness starts the real server once, on an empty data folder of its own.
func (b *bench) harness() (*harness, error) {
	if b.h != nil {
		return b.h, nil
	}
	h, err := b.newHarness(b.dir, `{"defaultProvider":"local"}`)
	if err != nil {
		return nil, err
	}
	b.h = h
	h.workspace, err = h.newWorkspace(h.project, "bench")
	return h, err
}

// ownHarness starts a server of a part's own, with a workspace, both named after it. Stop it.
func (b *bench) ownHarness(name string) (*harness, error) {
	dir := filepath.Join(b.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	h, err := b.newHarness(dir, `{"defaultProvider":"local"}`)
	if err != nil {
		return nil, err
	}
	if h.workspace, err = h.newWorkspace(h.project, name); err != nil {
		h.stop()
		return nil, err
	}
	return h, nil
}

// newHarness starts a server in a folder, with a section "sandboxing" of its own. Stop it.
func (b *bench) newHarness(dir, sandboxing string) (_ *harness, err error) {
	h := &harness{data: filepath.Join(dir, "data"), team: "bench"}
	defer func() {
		if err != nil && h.proc != nil {
			h.stop()
		}
	}()
	conf := filepath.Join(dir, "config.json")
	if err := os.WriteFile(conf, []byte(fmt.Sprintf(`{"server":{"listen":"127.0.0.1:0"},"dataDir":%q,"projects":{"allowedRoots":[%q]},"browser":{"allowUnsandboxed":true},"sandboxing":%s}`, h.data, dir, sandboxing)), 0o600); err != nil {
		return nil, err
	}
	var setup string
	p, err := start(nil, func(line string) bool {
		if m := setupLink.FindStringSubmatch(line); m != nil {
			setup = m[1]
		}
		return setup != ""
	}, b.binary, "serve", "--config", conf)
	if err != nil {
		return nil, err
	}
	h.proc = p
	resp, err := http.Post(h.url+"/api/v1/setup", "application/json", strings.NewReader(fmt.Sprintf(
		`{"token":%q,"name":"Bench","email":"bench@example.com","password":"a long bench password","team":"Bench"}`, setup)))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		text, _ := io.ReadAll(resp.Body)
		return nil, fmt.Errorf("setup: %s: %s", resp.Status, text)
	}
	var cookies []string
	for _, c := range resp.Cookies() {
		cookies = append(cookies, c.Name+"="+c.Value)
	}
	var made struct {
		Value string `json:"value"`
	}
	if err := h.do("POST", "/me/tokens", map[string]any{"name": "bench"}, &made, "Cookie", strings.Join(cookies, "; ")); err != nil {
		return nil, err
	}
	h.token = made.Value
	var teams struct {
		Items []struct{ Slug string } `json:"items"`
	}
	if err := h.do("GET", "/teams", nil, &teams); err != nil {
		return nil, err
	}
	h.team = teams.Items[0].Slug
	var project struct{ ID string }
	if err := h.do("POST", "/teams/"+h.team+"/projects", map[string]any{"source": map[string]any{"kind": "sample"}}, &project); err != nil {
		return nil, err
	}
	h.project = project.ID
	return h, nil
}

// do calls the API. header is a list of names and values.
func (h *harness) do(method, path string, body, into any, header ...string) error {
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		r = bytes.NewReader(b)
	}
	req, err := http.NewRequest(method, h.url+"/api/v1"+path, r)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if h.token != "" {
		req.Header.Set("Authorization", "Bearer "+h.token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	if into == nil || len(text) == 0 {
		return nil
	}
	return json.Unmarshal(text, into)
}

// raw reads what is no JSON to its end.
func (h *harness) raw(path string) error {
	req, err := http.NewRequest("GET", h.url+"/api/v1"+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+h.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || n == 0) {
		err = fmt.Errorf("GET %s: %s, %d bytes", path, resp.Status, n)
	}
	return err
}

// newWorkspace creates a workspace and waits until it is ready.
func (h *harness) newWorkspace(project, name string) (string, error) {
	var ws struct {
		ID, State   string
		StateReason string `json:"state_reason"`
	}
	if err := h.do("POST", "/teams/"+h.team+"/workspaces", map[string]any{"project_id": project, "name": name}, &ws); err != nil {
		return "", err
	}
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if err := h.do("GET", "/workspaces/"+ws.ID, nil, &ws); err != nil {
			return "", err
		}
		switch ws.State {
		case "ready":
			return ws.ID, nil
		case "failed":
			return "", fmt.Errorf("workspace %s failed: %s", name, ws.StateReason)
		}
	}
	return "", fmt.Errorf("workspace %s is still %s", name, ws.State)
}

// newSession starts a command in the instance's workspace.
func (h *harness) newSession(argv ...string) (string, error) {
	var s struct{ ID string }
	err := h.do("POST", "/workspaces/"+h.workspace+"/sessions", map[string]any{"agent": "command", "argv": argv, "cols": 120, "rows": 32}, &s)
	return s.ID, err
}

// guestPid finds the guest of the instance's workspace.
func (h *harness) guestPid() (int, error) {
	found, err := filepath.Glob(filepath.Join(h.data, "sandboxes", "*", "guest.json"))
	if err != nil || len(found) == 0 {
		return 0, fmt.Errorf("no guest in %s: %w", h.data, err)
	}
	b, err := os.ReadFile(found[0])
	if err != nil {
		return 0, err
	}
	var g struct {
		Pid int `json:"pid"`
	}
	return g.Pid, json.Unmarshal(b, &g)
}

func (b *bench) close() {
	if b.h == nil {
		return
	}
	if b.h.workspace != "" {
		_ = b.h.do("POST", "/workspaces/"+b.h.workspace+"/destroy-sandbox", nil, nil)
	}
	b.h.stop()
}

// cpu is the CPU time a process has used, without its children.
func cpu(pid int) time.Duration {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(f[11], 10, 64)
	sys, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+sys) * 10 * time.Millisecond // clock ticks of 1/100 s on Linux
}

// cpuAll is the CPU time a process and those of its children that have ended have used.
func cpuAll(pid int) time.Duration {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	var ticks int64
	for i := 11; i < 15 && i < len(f); i++ {
		n, _ := strconv.ParseInt(f[i], 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// rss is a process's resident memory in bytes.
func rss(pid int) int64 {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(raw))
	if len(f) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(f[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
