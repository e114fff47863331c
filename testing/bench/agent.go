package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/testing/testmodel/scripted"
)

// agent measures Parawork's own agent under a model on this machine: what a step takes beside the model's own time, how late a piece of an
// answer reaches a browser, and what idle threads weigh.
func (b *bench) agent() error {
	m := &timedModel{model: scripted.New("")}
	door, err := serve(m)
	if err != nil {
		return err
	}
	defer door.stop()
	dir := filepath.Join(b.dir, "agent")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	h, err := b.newHarness(dir, `{"defaultProvider":"local"},"outgoing":{"allow":["127.0.0.0/8"]}`)
	if err != nil {
		return err
	}
	defer h.stop()
	leave, err := h.enterNew("agent")
	if err != nil {
		return err
	}
	defer leave()
	if err := h.do("PUT", "/me/agent-accounts/parawork", map[string]any{"kind": "api_key", "api_key": "sk-ant-api03-" + strings.Repeat("bench", 8), "base_url": door.url}, nil); err != nil {
		return err
	}
	if err := b.agentSteps(h, m); err != nil {
		return err
	}
	if err := b.agentPieces(h, door.url); err != nil {
		return err
	}
	return b.agentThreads(h)
}

// enterNew goes on in a new workspace, until leave destroys its sandbox.
func (h *harness) enterNew(name string) (leave func(), err error) {
	ws, err := h.newWorkspace(h.project, name)
	h.workspace = ws
	return func() { _ = h.do("POST", "/workspaces/"+ws+"/destroy-sandbox", nil, nil) }, err
}

// own starts a session of the agent and waits until it has answered its prompt.
func (h *harness) own(prompt string) (sessionID string, err error) {
	var s struct{ ID, State string }
	if err := h.do("POST", "/workspaces/"+h.workspace+"/sessions", map[string]any{"agent": "parawork", "prompt": prompt, "permissions": "all", "confirm_no_boundary": true}, &s); err != nil {
		return "", err
	}
	for deadline := time.Now().Add(2 * time.Minute); s.State != "idle"; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			return "", fmt.Errorf("the agent is still %s", s.State)
		}
		if err := h.do("GET", "/sessions/"+s.ID, nil, &s); err != nil {
			return "", err
		}
	}
	return s.ID, nil
}

// timedModel is a model that knows how long after its answer it is asked again.
type timedModel struct {
	model *scripted.Server
	mu    sync.Mutex
	ended time.Time // the last answer
	gaps  []time.Duration
}

// ServeHTTP implements http.Handler.
func (m *timedModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if bytes.Contains(body, []byte("#pieces")) {
		modelPiecesOf(w)
		return
	}
	m.mu.Lock()
	if !m.ended.IsZero() {
		m.gaps = append(m.gaps, time.Since(m.ended))
	}
	m.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	m.model.ServeHTTP(w, r)
	m.mu.Lock()
	m.ended = time.Now()
	m.mu.Unlock()
}

// take returns the times between an answer and the next question, and forgets them.
func (m *timedModel) take() []time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.gaps
	m.gaps, m.ended = nil, time.Time{}
	slices.Sort(out)
	return out
}

// agentSteps measures a step in which the agent reads a file: from the end of an answer to the next question, which has the file. The base
// is a loop that does no more: it reads the file and asks.
func (b *bench) agentSteps(h *harness, m *timedModel) error {
	n := b.size(200, 20)
	steps := make([]string, n)
	for i := range steps {
		steps[i] = fmt.Sprintf(`{"text":"Step %d.","tools":[{"name":"file_read","input":{"path":"README.md","offset_line":%d}}]}`, i, i%5+1)
	}
	m.take()
	if _, err := h.own("#script [" + strings.Join(steps, ",") + "]"); err != nil {
		return err
	}
	gaps := m.take()
	if len(gaps) < n {
		return fmt.Errorf("the model was asked %d times, not %d", len(gaps)+1, n+1)
	}
	for _, p := range []int{50, 95} {
		took := us(gaps[len(gaps)*p/100]) / 1e3
		target := 15.0
		if p == 95 {
			target = 45
		}
		b.figure(fmt.Sprintf("own agent, a step beside the model, p%d, ms", p), f2(took), f2(target), took/target, fmt.Sprintf("< %.0f ms", target), took < target)
	}
	return nil
}

// modelPiecesOf streams an answer; each piece says when it was sent.
func modelPiecesOf(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(name string, data string) {
		fmt.Fprintf(w, "event: %s\ndata: {\"type\":%q,%s}\n\n", name, name, data)
		_ = http.NewResponseController(w).Flush()
	}
	send("message_start", `"message":{"id":"msg_bench","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":10,"output_tokens":1}}`)
	send("content_block_start", `"index":0,"content_block":{"type":"text","text":""}`)
	for range 200 {
		time.Sleep(modelPause)
		send("content_block_delta", fmt.Sprintf(`"index":0,"delta":{"type":"text_delta","text":"@%d "}`, time.Now().UnixNano()))
	}
	send("content_block_stop", `"index":0`)
	send("message_delta", `"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":200}`)
	send("message_stop", `"x":0`)
}

// agentPieces measures how long after the model sent a piece a follower of the thread has it, beside a reader of the model's own stream.
func (b *bench) agentPieces(h *harness, model string) error {
	session, err := h.own("Hello.")
	if err != nil {
		return err
	}
	var thread struct{ ID string }
	if err := h.do("GET", "/sessions/"+session+"/thread", nil, &thread); err != nil {
		return err
	}
	req, err := http.NewRequest("GET", h.url+"/api/v1/threads/"+thread.ID+"/events", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+h.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := h.do("POST", "/threads/"+thread.ID+"/messages", map[string]any{"text": "#pieces"}, nil); err != nil {
		return err
	}
	ours, err := lateness(resp.Body, `"offset"`, 190)
	if err != nil {
		return err
	}
	raw, err := http.Post(model+"/v1/messages", "application/json", strings.NewReader(`"#pieces"`))
	if err != nil {
		return err
	}
	defer raw.Body.Close()
	base, err := lateness(raw.Body, `"text_delta"`, 190)
	if err != nil {
		return err
	}
	for _, p := range []int{50, 95} {
		o, r := us(ours[len(ours)*p/100])/1e3, us(base[len(base)*p/100])/1e3
		b.figure(fmt.Sprintf("own agent, a piece reaches a browser, p%d, ms", p), f2(o), f2(r), o/r, "+ 20 ms", o-r < 20)
	}
	return nil
}

// lateness is how long after they were sent n pieces were read, sorted: those in lines with a mark.
func lateness(from io.Reader, mark string, n int) (late []time.Duration, err error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 4<<20)
	for len(late) < n && lines.Scan() {
		now, line := time.Now().UnixNano(), lines.Text()
		if !strings.Contains(line, mark) {
			continue
		}
		for _, piece := range strings.Split(line, "@")[1:] {
			digits, _, _ := strings.Cut(piece, " ")
			at, err := strconv.ParseInt(digits, 10, 64)
			if err != nil {
				return nil, err
			}
			late = append(late, time.Duration(now-at))
		}
	}
	if len(late) < n {
		return nil, errors.Join(fmt.Errorf("%d pieces were seen", len(late)), lines.Err())
	}
	slices.Sort(late)
	return late, nil
}

// agentThreads measures what an idle thread weighs in the server, beside an idle session of a program that does nothing.
func (b *bench) agentThreads(h *harness) error {
	n := b.size(200, 10)
	const inOne = 50 // workspace: a sandbox has 64 connections to tools, of which each terminal of the agent is one
	grown := func(start func() error) (float64, error) {
		before := rss(h.cmd.Process.Pid)
		for i := range n {
			if i%inOne == 0 {
				leave, err := h.enterNew(fmt.Sprintf("threads %d", i))
				if err != nil {
					return 0, err
				}
				defer leave()
			}
			if err := start(); err != nil {
				return 0, err
			}
		}
		time.Sleep(20 * time.Second) // what only starting needed is given back
		return float64(rss(h.cmd.Process.Pid)-before) / float64(n) / (1 << 20), nil
	}
	plain, err := grown(func() error { _, err := h.newSession("cat"); return err })
	if err != nil {
		return err
	}
	ours, err := grown(func() error { _, err := h.own("Hello."); return err })
	if err != nil {
		return err
	}
	b.figure(fmt.Sprintf("own agent, each of %d idle threads, server, MB", n), f2(ours), f2(plain), ours/plain, "< 1 MB", ours < 1)
	return nil
}
