package secretfiles_test

import (
	"context"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
)

// Rejected commits are not lost with the sandbox that has them: ending it requires force, and the error says why.
func TestASandboxWithRefusedCommitsIsNotEnded(t *testing.T) {
	t.Parallel()
	h, a := wstest.RemoteEnv(t)
	ctx := context.Background()
	p := h.PathProject(h.LongRepo("r"))
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	h.S.Records.Connect(a, wstest.SecretSessions{Setups: h.Ses, Files: knownSecrets()})
	tip := a.Sh(w, `echo 1 > one; git add one; git commit -qm one; echo '`+secretValue+`' > key; git add key; git commit -qm key; git rm -q key; git commit -qm 'no key'; git branch side; git rev-parse HEAD`)
	for name, end := range map[string]func() error{
		"ended":    func() error { return a.Destroy(ctx, w.ID) },
		"archived": func() error { _, err := h.S.Lifecycle.Archive(ctx, h.Actor, w.ID); return err },
		"deleted":  func() error { _, err := h.S.Lifecycle.Delete(ctx, h.Actor, w.ID); return err },
	} {
		if err := end(); fault.CodeOf(err) != "sandbox_not_synced" || !strings.Contains(err.Error(), "contains the value of a secret") || strings.Contains(err.Error(), secretValue) {
			t.Fatalf("%s: %v", name, err)
		}
		if out := a.Sh(w, "git rev-parse HEAD side; git log --format=%s -3"); out != tip+"\n"+tip+"\nno key\nkey\none" || a.Creates() != 1 {
			t.Fatalf("%s: the sandbox has\n%s", name, out)
		}
	}
	a.Sh(w, "git reset -q --hard HEAD~2; git branch -q -D side; git reflog expire --expire=now --all; echo loose > loose")
	_, err := h.S.Lifecycle.Archive(ctx, h.Actor, w.ID)
	wstest.Must(t, err)
	w, err = h.S.Lifecycle.Restore(ctx, h.Actor, w.ID)
	wstest.Must(t, err)
	if out := a.Sh(w, "git log --format=%s -1; cat loose"); out != "one\nloose" {
		t.Errorf("restored:\n%s", out)
	}
	if left := objectsWith(t, p.GitDir, secretValue); len(left) > 0 {
		t.Errorf("the project has %v", left)
	}
}

// A secret in what is staged, or in a file, does not block fetching commits, and archiving does not put it into a repository.
func TestSecretOutsideTheCommitsDoesNotBlockThem(t *testing.T) {
	t.Parallel()
	h, a := wstest.RemoteEnv(t)
	ctx := context.Background()
	p := h.PathProject(h.LongRepo("r"))
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	h.S.Records.Connect(a, wstest.SecretSessions{Setups: h.Ses, Files: knownSecrets()})
	tip := a.Sh(w, `echo 1 > one; git add one; git commit -qm one; echo 'key = `+secretValue+`' > key; git add key; echo work > work; mkdir conf; echo '`+strings.TrimSpace(secretFile)+`' > conf/prod.env; cp conf/prod.env copy; git rev-parse HEAD`)
	w, err := h.S.Lifecycle.Archive(ctx, h.Actor, w.ID)
	wstest.Must(t, err)
	if left := objectsWith(t, p.GitDir, secretValue); len(left) > 0 {
		t.Errorf("the project has %v", left)
	}
	var missing []string
	for _, m := range w.Snapshot.Missing {
		missing = append(missing, m.Path)
	}
	if got := strings.Join(missing, " "); got != "conf/prod.env copy key" {
		t.Errorf("what was put away does not say what it lacks: %q", got)
	}
	w, err = h.S.Lifecycle.Restore(executors.Discard(ctx), h.Actor, w.ID)
	wstest.Must(t, err)
	if out := a.Sh(w, "git rev-parse HEAD; cat work key; ls conf copy 2>/dev/null || true"); out != tip+"\nwork\nkey = "+strings.Repeat("*", len(secretValue)) {
		t.Errorf("restored:\n%s", out)
	}
}
