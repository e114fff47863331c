package testkit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parawork/parawork/testing/testkit"
	"github.com/parawork/parawork/testing/testpg/postgres"
)

// Most attempts to reach a database that is away which a server may make of itself in a second, and at once when it goes away.
const (
	attemptsEachSecond = 50
	attemptsAtOnce     = 200
)

// counted listens where the database was, cuts every connection and counts them, until stop.
func counted(t *testing.T, address string) (attempts *atomic.Int64, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	must(t, err)
	attempts = new(atomic.Int64)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			attempts.Add(1)
			_ = c.Close()
		}
	})
	return attempts, func() { _ = l.Close(); all.Wait() }
}

// asked is what a request is answered, within Deadline.
func asked(ctx context.Context, h *testkit.Instance, method, path, body string) (int, http.Header, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, testkit.Deadline)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, h.URL+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+h.Token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, text, err
}

// saysAway tells what is wrong with an answer that must say that the database is away.
func saysAway(status int, header http.Header, body []byte) error {
	var p testkit.Problem
	if json.Unmarshal(body, &p) != nil || status != http.StatusServiceUnavailable || p.Code != "database_unavailable" || header.Get("Retry-After") == "" {
		return fmt.Errorf("answered %d, Retry-After %q: %s", status, header.Get("Retry-After"), body)
	}
	return nil
}

// A PostgreSQL that is stopped and started again under a server: requests say so meanwhile and work by themselves afterwards, agents and their
// terminals go on, and nothing of what they print or are typed is lost.
func TestDatabaseStopsAndStartsAgain(t *testing.T) {
	t.Parallel()
	pg, err := postgres.Start(context.Background())
	if errors.Is(err, postgres.ErrNotInstalled) {
		t.Skip("PostgreSQL is not installed")
	}
	must(t, err)
	t.Cleanup(pg.Remove)
	h := testkit.Start(t, fmt.Sprintf(`"database":{"url":%q}`, pg.URL))
	ws := h.Workspace(h.Sample(), "Low tide")
	gate := filepath.Join(ws.Path, "gate")
	talks := h.Run(ws.ID, "sh", "-c", `i=0; while [ ! -e "$0" ]; do i=$((i+1)); echo line $i; sleep 0.05; done; echo END $i`, gate)
	shell := h.Run(ws.ID, "sh", "-c", "while read l; do echo got $l; done")
	viewer, typing := h.Attach(talks.ID, "from=0"), h.Attach(shell.ID, "from=0")
	must(t, viewer.See("line 1\r\n"))
	must(t, typing.Type("before\r"))
	must(t, typing.See("got before"))
	lines := func() int { _, b := viewer.Bytes(); return bytes.Count(b, []byte("\n")) }
	more := func(n int) {
		t.Helper()
		want := lines() + n
		must(t, viewer.Until("the viewer sees more lines", func() bool { return lines() >= want }))
	}

	// People who ask all the while see the database or that it is away, never anything else.
	asking, stopAsking := context.WithCancel(t.Context())
	defer stopAsking()
	var all sync.WaitGroup
	for _, path := range []string{"/me", "/teams/" + h.Team + "/workspaces", "/workspaces/" + ws.ID, "/workspaces/" + ws.ID + "/changes", "/sessions/" + talks.ID} {
		all.Go(func() {
			for asking.Err() == nil {
				status, header, body, err := asked(asking, h, "GET", path, "")
				if err == nil && status != http.StatusOK {
					err = saysAway(status, header, body)
				}
				if err != nil && asking.Err() == nil {
					t.Errorf("GET %s while the database goes: %v", path, err)
					return
				}
			}
		})
	}
	more(5)
	pg.Stop()
	more(10)
	stopAsking()
	all.Wait()

	for _, r := range []struct{ method, path, body string }{
		{"GET", "/me", ""},
		{"GET", "/teams", ""},
		{"GET", "/teams/" + h.Team + "/workspaces", ""},
		{"GET", "/workspaces/" + ws.ID, ""},
		{"GET", "/workspaces/" + ws.ID + "/changes", ""},
		{"GET", "/sessions/" + talks.ID, ""},
		{"GET", "/sessions/" + talks.ID + "/output?from=0", ""},
		{"GET", "/sessions/" + talks.ID + "/terminal?from=0", ""},
		{"PATCH", "/workspaces/" + ws.ID, `{"name":"High tide"}`},
		{"POST", "/teams/" + h.Team + "/workspaces", `{"project_id":"` + ws.ProjectID + `","name":"Never"}`},
		{"POST", "/workspaces/" + ws.ID + "/sessions", `{"agent":"command","argv":["true"],"cols":80,"rows":24}`},
		{"POST", "/sessions/" + shell.ID + "/input", `{"text":"refused\r"}`},
		{"POST", "/login", `{"email":"mika@example.com","password":"` + testkit.Password + `"}`},
	} {
		status, header, body, err := asked(t.Context(), h, r.method, r.path, r.body)
		if err == nil {
			err = saysAway(status, header, body)
		}
		if err != nil {
			t.Errorf("%s %s without a database: %v", r.method, r.path, err)
		}
	}
	must(t, typing.Type("meanwhile\r"))
	must(t, typing.See("got meanwhile"))

	// What the server tries of itself, and what it says about it, is bounded by the time it has for that, however busy the machine is.
	attempts, stop := counted(t, pg.Address())
	logged, began := strings.Count(h.Log(), "\n"), time.Now()
	more(100)
	seconds := time.Since(began).Seconds()
	stop()
	t.Logf("in %.0f seconds without a database: %d attempts to reach it, %d lines in the log", seconds, attempts.Load(), strings.Count(h.Log(), "\n")-logged)
	if most := attemptsAtOnce + int64(attemptsEachSecond*seconds); attempts.Load() > most {
		t.Errorf("the server tried %d times in %.0f seconds to reach the database, want %d at most", attempts.Load(), seconds, most)
	}
	if n, most := strings.Count(h.Log(), "\n")-logged, attemptsAtOnce+int(attemptsEachSecond*seconds); n > most {
		t.Errorf("the server printed %d lines in %.0f seconds, want %d at most", n, seconds, most)
	}

	must(t, pg.Again(context.Background()))
	h.Wait("requests work again", func() bool { return h.Try("GET", "/me", nil, nil) == nil })
	for _, id := range []string{talks.ID, shell.ID} {
		var s testkit.Session
		h.API("GET", "/sessions/"+id, nil, &s)
		if s.State != "working" && s.State != "idle" { // both are running
			t.Errorf("the session is %s (%s) after the database was away", s.State, s.StateReason)
		}
	}
	var now testkit.Workspace
	h.API("GET", "/workspaces/"+ws.ID, nil, &now)
	if now.State != "ready" || now.Name != ws.Name {
		t.Errorf("the workspace is %s and named %q", now.State, now.Name)
	}
	h.API("POST", "/sessions/"+shell.ID+"/input", map[string]string{"text": "after\r"}, nil)
	must(t, typing.See("got after"))
	if _, b := typing.Bytes(); strings.Contains(string(b), "refused") {
		t.Errorf("input that was refused was typed: %q", b)
	}
	if s := h.Ended(h.Run(ws.ID, "true").ID); s.State != "exited" {
		t.Errorf("a new session ended as %+v", s)
	}

	must(t, os.WriteFile(gate, nil, 0o644))
	must(t, viewer.See("END"))
	ended := h.Ended(talks.ID)
	got := h.Output(talks.ID, 0)
	n := bytes.Count(got, []byte("\n")) - 1
	var want bytes.Buffer
	for i := range n {
		fmt.Fprintf(&want, "line %d\r\n", i+1)
	}
	fmt.Fprintf(&want, "END %d\r\n", n)
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("the output is not what was printed: first difference at byte %d of %d", firstDifference(got, want.Bytes()), len(got))
	}
	if ended.State != "exited" || ended.ExitCode == nil || *ended.ExitCode != 0 || ended.Bytes != int64(len(got)) {
		t.Errorf("the session ended as %+v, with %d bytes of output", ended, len(got))
	}
	must(t, viewer.Until("the viewer sees all", func() bool { return viewer.End() >= int64(len(got)) }))
	if _, seen := viewer.Bytes(); !bytes.Equal(seen, got) {
		t.Errorf("the viewer saw %d bytes other than the output's %d", len(seen), len(got))
	}
	h.Wait("the change made at last is seen", func() bool { _, ok := h.Changes(ws.ID).Find("gate"); return ok })
}
