package e2b_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/e2b"
	"github.com/parawork/parawork/executors/e2b/e2btest"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
)

func TestATemplateWithoutTheGuestGetsItUploaded(t *testing.T) {
	t.Parallel()
	s := e2btest.New(t, e2btest.Config{}) // its template was built by another version, or by somebody else
	e := newExecutor(t, s, t.TempDir(), nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	spec := executors.Spec{ID: "sbx_bare", TeamID: "t", WorkspaceID: "w", Root: executortest.GitRoot(t)}
	warm := spec
	warm.ID = "sbx_warm"
	h, err := e.Warm(ctx, "wrm_1", e.Class(spec))
	if err != nil {
		t.Fatalf("Warm: %v", err)
	}
	warm.Warm = &h
	for _, spec := range []executors.Spec{spec, warm} {
		sb, err := e.Create(ctx, spec)
		if err != nil {
			t.Fatalf("Create of %s: %v", spec.ID, err)
		}
		c := client.New(client.Config{Dial: sb.Dial, Token: sb.Token(), SandboxID: spec.ID, Now: time.Now, OnePipe: true})
		if _, err := c.Hello(ctx); err != nil {
			t.Errorf("Hello of %s: %v", spec.ID, err)
		}
		c.Close()
		if err := sb.Destroy(ctx); err != nil {
			t.Errorf("Destroy: %v", err)
		}
	}
	uploads := 0
	for _, r := range s.Requests() {
		if r.Method == http.MethodPost && strings.Contains(r.Path, "/files") && strings.Contains(r.Query, "parawork-guest-") {
			uploads++
		}
	}
	if uploads != 2 {
		t.Errorf("the guest was uploaded %d times to two sandboxes", uploads)
	}
}

func TestWhyAGuestDoesNotRunIsReportedAsSeen(t *testing.T) {
	t.Parallel()
	script := func(text string) string {
		path := filepath.Join(t.TempDir(), "guest")
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct {
		guest  string
		fault  *e2btest.Fault
		reason e2b.Reason
		says   []string
		not    string
	}{
		"it ends by itself": {guest: script("#!/bin/sh\nhead -c 9000 /dev/zero | tr '\\0' x >&2\necho out of luck >&2\nexit 3\n"), reason: e2b.GuestFailed,
			says: []string{"exit status 3", "out of luck"}, not: "not answer"},
		"what runs it is not there": {guest: script("#!/nowhere/sh\n"), reason: e2b.GuestFailed, says: []string{"exit status 127", "No such file"}, not: "not answer"},
		"the daemon has an error": {guest: guestPath(t), reason: e2b.Outage, says: []string{"HTTP 500", "went wrong"}, not: "not answer",
			fault: &e2btest.Fault{Match: "POST /process.Process/Start", Sandboxes: true, Times: -1, Status: 500, Message: "something went wrong"}},
		"the daemon refuses": {guest: guestPath(t), reason: e2b.Refused, says: []string{"HTTP 400", "not like this"}, not: "not answer",
			fault: &e2btest.Fault{Match: "POST /filesystem.Filesystem/MakeDir", Sandboxes: true, Times: -1, Status: 400, Message: "not like this"}},
		"nothing answers": {guest: guestPath(t), reason: e2b.Outage, says: []string{"E2B does not answer"},
			fault: &e2btest.Fault{Match: "POST /process.Process/Start", Sandboxes: true, Times: -1, Lose: true}},
		"the service has an error": {guest: guestPath(t), reason: e2b.Outage, says: []string{"HTTP 500", "cannot place it"}, not: "not answer",
			fault: &e2btest.Fault{Match: "POST /v2/sandboxes", Times: -1, Status: 500, Message: "cannot place it"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := e2btest.New(t, withGuest(t, e2btest.Config{}))
			e := newExecutor(t, s, t.TempDir(), func(cfg *e2b.Config) { cfg.GuestPath = c.guest })
			if c.fault != nil {
				s.Fail(*c.fault)
			}
			_, err := e.Create(t.Context(), executors.Spec{ID: "sbx_1", TeamID: "t", WorkspaceID: "w", Root: executortest.GitRoot(t)})
			f, ok := errors.AsType[*fault.Error](err)
			if !ok || f.Code != "place_cannot_serve" || f.Details["reason"] != string(c.reason) || f.Details["ways"] == nil {
				t.Fatalf("Create: %v", err)
			}
			for _, want := range c.says {
				if !strings.Contains(f.Message, want) {
					t.Errorf("%q is not said: %s", want, f.Message)
				}
			}
			if c.not != "" && strings.Contains(f.Message, c.not) {
				t.Errorf("it says %q: %s", c.not, f.Message)
			}
			s.Heal()
			if all := s.All(); len(all) != 0 {
				t.Errorf("left at E2B: %+v", all)
			}
		})
	}
}
